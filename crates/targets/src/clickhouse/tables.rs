//! What stands on the server: tables of our own, a statement's columns, and how streams share rows.

use super::server::quoted;
use super::split::{check_key, ends_question, Part, Shares};
use super::ClickHouse;
use crate::database::shortened;
use crate::read::{Split, Subject, Summed};
use crate::upsert::is_own;
use crate::Sums;
use venturi_base::codec::clickhouse::types::quoted as text;
use venturi_base::codec::clickhouse::{native, Column, Type};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::Client;

/// Bytes of one INSERT that fills a table to be read: few parts, bounded memory.
const FILL: usize = 16 << 20;

impl ClickHouse {
    /// A table of our own for these columns; one of that name which is not ours stays.
    pub(super) async fn make_table(
        &mut self,
        client: &mut Client,
        columns: &[Column],
    ) -> Result<()> {
        let table = self.table();
        let name = self.table_name();
        let exists = self
            .server
            .ask(client, &format!("EXISTS TABLE {name}"))
            .await?;
        if exists.trim() == "1" && !is_own(&table) {
            return Err(Error::usage(format!(
                "table {table} exists already and is not Venturi's (its name does not begin with venturi_): drop it, name another by --table, or write into it as it is by --no-setup"
            )));
        }
        self.server
            .ask(client, &format!("DROP TABLE IF EXISTS {name}"))
            .await?;
        let column = |column: &Column| format!("{} {}", quoted(&column.name), column.kind);
        let list: Vec<String> = columns.iter().map(column).collect();
        let engine = self.options.storage.as_deref().unwrap_or("MergeTree");
        let order = if engine.ends_with("MergeTree") {
            " ORDER BY tuple()"
        } else {
            ""
        };
        let create = format!(
            "CREATE TABLE {name} ({}) ENGINE = {engine}{order}",
            list.join(", ")
        );
        self.server.ask(client, &create).await?;
        self.made = true;
        if self.options.reading.split == Some(Split::Parts) && !self.options.keep {
            // The streams are given its parts by name. Whoever may not stop merges is told by the count.
            let stop = format!("SYSTEM STOP MERGES {name}");
            let _ = self.server.ask(client, &stop).await;
        }
        Ok(())
    }

    /// Our rows into the table that is to be read.
    pub(super) async fn fill(&self, client: &mut Client, columns: &[Column]) -> Result<()> {
        let Some(source) = &self.source else {
            return Ok(());
        };
        let rows = self.spec.planned_rows();
        let rows =
            rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
        let mut cursor = source.cursor(Some(rows));
        let insert = format!("INSERT INTO {} FORMAT Native", self.table_name());
        let path = self.server.insert_path(&insert);
        let mut body = Vec::new();
        loop {
            let more = match cursor.next() {
                Some(item) => {
                    native::encode(columns, item.batch(), &mut body)?;
                    true
                }
                None => false,
            };
            if body.len() >= FILL || (!more && !body.is_empty()) {
                super::put::insert(&self.server, client, &path, None, &body).await?;
                body.clear();
            }
            if !more {
                return Ok(());
            }
        }
    }

    pub(super) async fn shares(
        &self,
        client: &mut Client,
        subject: &Subject,
        columns: &[Column],
    ) -> Result<Shares> {
        if self.spec.streams == 1 {
            return Ok(Shares::All);
        }
        let split = self.options.reading.split.unwrap_or(Split::Hash);
        let own = columns.first().map(|column| column.name.clone());
        let by = self
            .options
            .reading
            .split_by
            .clone()
            .or(own)
            .unwrap_or_default();
        match split {
            Split::None => Ok(Shares::All),
            Split::Hash => Ok(Shares::Hash(by)),
            Split::Key => {
                let known = columns.iter().find(|column| column.name == by);
                let column = known.cloned().ok_or_else(|| {
                    Error::usage(format!("split_by {by}: the query has no such column"))
                })?;
                check_key(&column)?;
                let question = ends_question(&column, &subject.from(""));
                let answer = self.server.ask(client, &question).await?;
                let ends: Vec<Option<i128>> = answer
                    .trim_end()
                    .split('\t')
                    .map(|field| field.parse().ok())
                    .collect();
                Ok(match ends[..] {
                    [Some(least), Some(greatest)] => Shares::Ranges {
                        column,
                        least,
                        greatest,
                    },
                    // No rows, or nulls only.
                    _ => Shares::Hash(by),
                })
            }
            Split::Parts => {
                let question = format!(
                    "SELECT name, rows FROM system.parts WHERE active AND database = {} AND table = {} FORMAT TabSeparated",
                    text(&self.server.access.database),
                    text(&self.table())
                );
                let answer = self.server.ask(client, &question).await?;
                let part = |line: &str| {
                    let (name, rows) = line.split_once('\t')?;
                    Some(Part {
                        name: name.into(),
                        rows: rows.parse().ok()?,
                    })
                };
                let parts: Option<Vec<Part>> = answer.lines().map(part).collect();
                parts.map(Shares::Parts).ok_or_else(|| {
                    Error::protocol("system.parts: an answer that is no list of parts")
                })
            }
        }
    }

    /// Names and types of what a statement gives, as text.
    pub(super) async fn names_and_types(
        &self,
        client: &mut Client,
        statement: &str,
    ) -> Result<Vec<(String, String)>> {
        let question =
            format!("SELECT * FROM ({statement}) LIMIT 0 FORMAT TabSeparatedWithNamesAndTypes");
        let answer = self.server.ask(client, &question).await?;
        let mut lines = answer.lines();
        let mut fields = || -> Vec<String> {
            let line = lines.next().unwrap_or_default();
            line.split('\t').map(unescaped).collect()
        };
        let (names, types) = (fields(), fields());
        if names.len() != types.len() || names.iter().all(String::is_empty) {
            return Err(Error::protocol(format!(
                "{}: no columns in the answer to {}",
                self.server.authority(),
                shortened(statement)
            )));
        }
        Ok(names.into_iter().zip(types).collect())
    }

    pub(super) async fn describe(
        &self,
        client: &mut Client,
        statement: &str,
    ) -> Result<Vec<Column>> {
        parsed(&self.names_and_types(client, statement).await?, true)
    }

    /// What there is before the trial is the lead's to know; the streams of all sum up what they
    /// move.
    pub(super) async fn count_if_lead(&self, from: &str, summed: &Summed) -> Result<(u64, Sums)> {
        match self.spec.leads() {
            true => self.count(from, summed).await,
            false => Ok((0, Sums::default())),
        }
    }

    /// Rows, and sums modulo 2^64.
    pub(super) async fn count(&self, from: &str, summed: &Summed) -> Result<(u64, Sums)> {
        let mut client = self.server.connect().await?;
        let question = format!(
            "SELECT {} FROM {from} FORMAT TabSeparated",
            summed.selected()
        );
        let answer = self.server.ask(&mut client, &question).await?;
        let fields = answer.trim_end_matches('\n').split('\t');
        // Of no rows, or of nulls only.
        let fields = fields.map(|field| (!matches!(field, "\\N" | "")).then_some(field));
        summed.found(fields).ok_or_else(|| {
            let said = shortened(&answer);
            let line = format!(
                "{}: no count and sums, but {said:?}",
                self.server.authority()
            );
            Error::new(Kind::Protocol, line)
        })
    }
}

/// Where a type is not known here, the column is left out (`strict`: it is an error).
pub(super) fn parsed(columns: &[(String, String)], strict: bool) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    for (name, kind) in columns {
        match Type::parse(kind) {
            Ok(kind) => found.push(Column {
                name: name.clone(),
                kind,
            }),
            Err(error) if strict => return Err(error.context(format!("column {name}"))),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// A field of TabSeparated.
fn unescaped(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut letters = field.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

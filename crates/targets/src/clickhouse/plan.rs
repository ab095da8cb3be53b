//! Before the clock: who the server is, what will be asked of it, and how.

use super::options::{Format, Options};
use super::server::{quoted, Version};
use super::split::{statements, summed};
use super::tables::parsed;
use super::{ClickHouse, Plan};
use crate::read::{distinct_names, Subject, Summed};
use crate::Identity;
use venturi_base::codec::clickhouse::types::columns_for;
use venturi_base::codec::clickhouse::Column;
use venturi_base::codec::ipc::Compression;
use venturi_base::data::Source;
use venturi_base::error::{Error, Result};
use venturi_base::http1::Client;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

pub fn check(spec: &TrialSpec, options: &Options) -> Result<()> {
    let wrong = |what: &str| Err(Error::usage(format!("clickhouse://: {what}")));
    match spec.operation {
        Operation::Get | Operation::Put => {}
        Operation::Upsert => return wrong("ClickHouse has no upsert; operations are get and put"),
        Operation::Ingest => return wrong("operations are get and put"),
    }
    let reading = &options.reading;
    match spec.operation {
        Operation::Put if reading.query.is_some() => {
            return wrong("a put writes into a table: give table, not query")
        }
        Operation::Put if reading.split.is_some() || reading.split_by.is_some() => {
            return wrong("split is for gets")
        }
        Operation::Get => {
            let checked = reading.check_get(spec, options.table.as_deref());
            checked.map_err(|error| error.context("clickhouse://"))?;
        }
        _ => {}
    }
    if let Some(storage) = &options.storage {
        let plain = storage.bytes().all(|b| b.is_ascii_alphanumeric());
        if storage.is_empty() || !plain {
            return wrong("storage is the name of a table engine, as MergeTree or Memory");
        }
    }
    Ok(())
}

impl ClickHouse {
    pub(super) async fn make_plan(&mut self) -> Result<Identity> {
        if self.spec.data != Data::Remote {
            let source = Source::make(&self.spec.data, self.spec.rows_per_batch)?;
            self.source = Some(source);
        }
        let mut client = self.server.connect().await?;
        let route = client.wire().route();
        let (version, software) = self.version(&mut client).await?;
        let format = self.format(version)?;
        self.check_compression(format, version)?;
        let columns = match &self.source {
            Some(source) => columns_for(&source.schema(), version.is_old()),
            None => Ok(Vec::new()),
        };
        let columns = columns.map_err(|error| error.context("data"))?;
        distinct_names(columns.iter().map(|column| &column.name))?;
        if self.makes_table() && self.spec.leads() {
            self.make_table(&mut client, &columns).await?;
        }
        let plan = match self.spec.operation {
            Operation::Put => self.plan_put(&mut client, format, columns).await?,
            _ => {
                self.plan_get(&mut client, format, version, &columns)
                    .await?
            }
        };
        self.plan = Some(plan);
        let host = &self.server.access.place.hosts[0];
        let pid = match self.spec.include_setup {
            true => self.listening,
            false => host.listening(),
        };
        Ok(Identity {
            address: self.server.authority().to_owned(),
            software: Some(software),
            protocol: format!("http-{}", format.name()),
            pid,
            route,
            ..Identity::default()
        })
    }

    async fn version(&self, client: &mut Client) -> Result<(Version, String)> {
        let said = self.server.ask_first(client, "SELECT version()").await?;
        let line: String = said.trim().chars().take(40).collect();
        match Version::parse(&said) {
            Some(version) => Ok((version, format!("ClickHouse {line}"))),
            None => Err(Error::protocol(format!(
                "{}: {line:?} where a version of ClickHouse was asked for; is it ClickHouse's HTTP port?",
                self.server.authority()
            ))),
        }
    }

    fn format(&self, version: Version) -> Result<Format> {
        let arrow = version.has_arrow();
        match self.options.format {
            Some(Format::Arrow | Format::Parquet) if !arrow => Err(Error::usage(format!(
                "format arrow and parquet: this server ({}.{}) has neither: use native or rowbinary",
                version.0, version.1
            ))),
            Some(format) => Ok(format),
            None if arrow => Ok(Format::Arrow),
            None => Ok(Format::Native),
        }
    }

    fn check_compression(&self, format: Format, version: Version) -> Result<()> {
        let by_http = matches!(format, Format::Native | Format::RowBinary);
        if self.compression == Compression::Lz4 && by_http {
            return Err(Error::usage(
                "compression lz4 is for the formats arrow and parquet; native and rowbinary are compressed by HTTP: zstd",
            ));
        }
        if self.compression != Compression::None && by_http && !version.has_zstd() {
            return Err(Error::usage(format!(
                "compression: this server ({}.{}) compresses with neither lz4 nor zstd over HTTP: none",
                version.0, version.1
            )));
        }
        Ok(())
    }

    async fn plan_put(
        &self,
        client: &mut Client,
        format: Format,
        ours: Vec<Column>,
    ) -> Result<Plan> {
        let name = self.table_name();
        let columns = match self.options.setup {
            true => ours,
            false => {
                let theirs = self
                    .describe(client, &format!("SELECT * FROM {name}"))
                    .await?;
                matched(&ours, &theirs)?
            }
        };
        let list: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let words = words(format, false);
        let insert = format!("INSERT INTO {name} ({}) FORMAT {words}", list.join(", "));
        let typed = |column: &Column| (column.name.clone(), column.kind.to_string());
        let summed = summed(&columns.iter().map(typed).collect::<Vec<_>>());
        let mut notes = Vec::new();
        let keeps = self.options.storage.as_deref() != Some("Null");
        if !keeps {
            notes.push("storage Null keeps no rows, so none are counted".to_owned());
        }
        let there = match self.spec.verify {
            Verify::None => None,
            _ if !keeps => None,
            _ => Some(self.count_if_lead(&name, &summed).await?),
        };
        Ok(Plan {
            format,
            columns,
            header: false,
            statements: Vec::new(),
            path: self.server.insert_path(&insert).into(),
            summed: summed.into(),
            there,
            notes,
        })
    }

    async fn plan_get(
        &self,
        client: &mut Client,
        format: Format,
        version: Version,
        ours: &[Column],
    ) -> Result<Plan> {
        if self.source.is_some() && self.spec.leads() {
            self.fill(client, ours).await?;
        }
        let subject = match &self.options.reading.query {
            Some(query) => Subject::Query(query.clone()),
            None => Subject::Table(self.table_name()),
        };
        let all = format!("SELECT * FROM {}", subject.from(""));
        let text_columns = self.names_and_types(client, &all).await?;
        let needs_types = matches!(format, Format::Native | Format::RowBinary);
        let columns = parsed(&text_columns, needs_types)?;
        distinct_names(columns.iter().map(|column| &column.name))?;
        let summed = match self.spec.verify {
            Verify::Checksum => summed(&text_columns),
            _ => Summed::default(),
        };
        let there = match self.spec.verify {
            Verify::None => None,
            _ => Some(self.count_if_lead(&subject.from(""), &summed).await?),
        };
        let header = version.has_row_header();
        let words = words(format, header);
        let shares = self.shares(client, &subject, &columns).await?;
        let statements = statements(&subject, &shares, self.spec.streams);
        let with_format = |statement: String| format!("{statement} FORMAT {words}");
        let block = self.spec.rows_per_batch.to_string();
        let mut parameters = vec![("max_block_size", block.as_str())];
        parameters.extend(self.format_settings(format, version)?);
        Ok(Plan {
            format,
            columns,
            header,
            statements: statements
                .into_iter()
                .map(|statement| statement.map(with_format))
                .collect(),
            path: self.server.path(&parameters).into(),
            summed: summed.into(),
            there,
            notes: Vec::new(),
        })
    }

    /// How the answers are compressed.
    fn format_settings(
        &self,
        format: Format,
        version: Version,
    ) -> Result<Vec<(&'static str, &'static str)>> {
        let zstd = self.compression != Compression::None;
        let method = match self.compression {
            Compression::None => "none",
            Compression::Lz4 if format == Format::Arrow => "lz4_frame",
            Compression::Lz4 => "lz4",
            Compression::Zstd(_) => "zstd",
        };
        let asked = match format {
            Format::Native | Format::RowBinary if zstd => {
                return Ok(vec![("enable_http_compression", "1")])
            }
            Format::Native | Format::RowBinary => return Ok(Vec::new()),
            Format::Arrow => ("output_format_arrow_compression_method", method),
            Format::Parquet => ("output_format_parquet_compression_method", method),
        };
        // Before, Arrow was not compressed and Parquet as the server liked.
        match version >= Version(23, 3) {
            true => Ok(vec![asked]),
            false if self.compression == Compression::None => Ok(Vec::new()),
            false => Err(Error::usage(format!(
                "compression {}: this server ({}.{}) cannot be asked for it: none",
                self.compression.name(),
                version.0,
                version.1
            ))),
        }
    }
}

/// As a statement names it; `header`: the answer begins with names and types.
fn words(format: Format, header: bool) -> &'static str {
    match format {
        Format::Arrow => "ArrowStream",
        Format::Native => "Native",
        Format::RowBinary if header => "RowBinaryWithNamesAndTypes",
        Format::RowBinary => "RowBinary",
        Format::Parquet => "Parquet",
    }
}

/// Our columns with the types that the table has for them.
fn matched(ours: &[Column], theirs: &[Column]) -> Result<Vec<Column>> {
    let find = |column: &Column| {
        let known = theirs.iter().find(|their| their.name == column.name);
        known.cloned().ok_or_else(|| {
            Error::usage(format!(
                "column {}: the table has none of that name",
                column.name
            ))
        })
    };
    ours.iter().map(find).collect()
}

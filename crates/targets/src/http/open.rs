//! A stream is opened: its connection, a batch to warm it up, its session; and questions to a server
//! outside of any trial.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_ipc::writer::StreamWriter;
use serde_json::Value;

use super::get::{self, Get};
use super::options::{in_line, Body, Options, Place};
use super::put::{self, Put};
use super::server::{of_trial, Server};
use super::Http;
use crate::flight::drive;
use crate::flight::offers::WITHOUT_END;
use crate::placeholders::Placeholders;
use crate::systems::Answer;
use crate::{LocalFuture, Session};
use venturi_base::codec::coding::Coding;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, ARROW_STREAM};
use venturi_base::limit;
use venturi_base::meter::handicap::Handicap;
use venturi_base::spec::{Data, Values};

/// Of a warm-up's answer beside its rows.
const BESIDE: usize = 1 << 20;

/// A table's path in a request.
fn place_of(table: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    table.bytes().map(byte).collect()
}

impl Http {
    /// What a stream's request names.
    fn path(&self, stream: usize) -> Result<String> {
        let told = Placeholders::of(&self.spec, "arrow", stream);
        let filled = told.fill_text(&self.place.path);
        let filled = filled.map_err(|error| error.context("http+arrow://: the path"))?;
        Ok(in_line(if filled.is_empty() { "/" } else { &filled }))
    }

    /// Of a get that names nothing: what a reference server makes, or has been given.
    fn made(&self, rows: u64) -> Result<String> {
        let batch = self.spec.rows_per_batch;
        let compression = self.options.shared.compression()?.name();
        let shape = format!("rows={rows}&rows_per_batch={batch}&compression={compression}");
        match (&self.spec.data, &self.uploaded) {
            (_, Some(table)) => Ok(format!("/{}?{shape}", place_of(table))),
            (
                Data::Records {
                    columns,
                    values,
                    seed,
                },
                None,
            ) => {
                let values = match values {
                    Values::Random => "random",
                    Values::Sequential => "sequential",
                };
                let what = format!("columns={columns}&values={values}&seed={seed}");
                Ok(format!("/records?{what}&{shape}"))
            }
            _ => Err(Error::usage(
                "http+arrow:// moves records, files, or what a path names",
            )),
        }
    }

    fn source(&self) -> Result<&Source> {
        let none = || Error::new(Kind::Internal, "a put without data");
        self.source.as_ref().ok_or_else(none)
    }

    pub(super) async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let mut client = self.server.connect().await?;
        client.watch(&self.sockets);
        let named = !self.place.path.is_empty();
        if self.identity.reference && !named {
            let warming = self.warm_up(&mut client);
            self.server.within("warming up", warming).await?;
        }
        match self.is_get() {
            true => self.open_get(client, stream),
            false => self.open_put(client, stream),
        }
    }

    fn open_get(&self, client: Client, stream: usize) -> Result<Box<dyn Session>> {
        let path = match self.place.path.is_empty() {
            true => self.made(self.spec.rows_per_stream.unwrap_or(WITHOUT_END))?,
            false => self.path(stream)?,
        };
        let question = get::Question {
            path,
            headers: of_trial(&self.spec),
            coding: self.options.coding,
            limit: self.options.shared.max_message_size,
            checksum: self.has_checksum(),
            stop: self.identity.reference.then(|| self.spec.trial.clone()),
        };
        let handicap = self.handicap.clone();
        Ok(Box::new(Get::new(
            client,
            self.server.clone(),
            question,
            handicap,
        )))
    }

    fn open_put(&self, client: Client, stream: usize) -> Result<Box<dyn Session>> {
        let question = put::Question {
            method: self.options.method.name(),
            path: self.path(stream)?,
            headers: of_trial(&self.spec),
            coding: self.options.coding,
            compression: self.options.shared.compression()?,
            body: self.options.body,
            checksum: self.has_checksum(),
        };
        let put = Put::new(
            client,
            self.server.clone(),
            question,
            self.source()?.cursor(self.spec.rows_per_stream),
            self.handicap.clone(),
            self.acknowledged.clone(),
        )?;
        Ok(Box::new(put))
    }

    /// One batch of the same kind, which no trial counts.
    async fn warm_up(&self, client: &mut Client) -> Result<()> {
        let coding = self.options.coding.name();
        let (head, body) = if self.is_get() {
            let more = [("Accept-Encoding", coding.unwrap_or("identity"))];
            let path = self.made(self.spec.rows_per_batch as u64)?;
            let most = self.options.shared.max_message_size.saturating_add(BESIDE);
            let headers = self.server.with(&more);
            client.call("GET", &path, &headers, b"", most).await?
        } else {
            let mut cursor = self.source()?.cursor(Some(self.spec.rows_per_batch as u64));
            let Some(item) = cursor.next() else {
                return Ok(());
            };
            let mut writer = StreamWriter::try_new(Vec::new(), &item.batch().schema())?;
            writer.write(item.batch())?;
            let body = writer.into_inner()?;
            let headers = self.server.with(&[("Content-Type", ARROW_STREAM)]);
            client.call("POST", "/", &headers, &body, BESIDE).await?
        };
        match head.status {
            200 => Ok(()),
            _ => Err(self.server.refused(&head, &body)),
        }
    }

    /// Gives a reference server the user's rows.
    pub(super) async fn upload(&self, client: Client, table: &str) -> Result<()> {
        let source = self.source()?;
        let question = put::Question {
            method: "PUT",
            path: format!("/{}", place_of(table)),
            headers: vec![],
            coding: Coding::Identity,
            compression: self.options.shared.compression()?,
            body: Body::Chunked,
            checksum: false,
        };
        let put = Put::new(
            client,
            self.server.clone(),
            question,
            source.cursor(Some(source.rows())),
            Handicap::default(),
            Default::default(),
        )?;
        let given = drive(Box::new(put), usize::MAX);
        let what = format!("{}: giving the rows to the server", self.server.authority());
        limit::patient(what, given).await.map(|_| ())
    }
}

/// A reference server's answer outside of any trial.
pub fn ask<'a>(
    url: &'a str,
    options: &'a BTreeMap<String, Value>,
    name: &'a str,
) -> LocalFuture<'a, Answer> {
    const PATIENCE: Duration = Duration::from_secs(10);
    Box::pin(async move {
        let place = Place::parse(url)?;
        let server = Server::new(&place, &Options::parse(options)?, PATIENCE)?;
        match server.ask(name, "").await {
            Ok(answer) => Ok(Some((place.host, answer))),
            Err(error) if error.kind == Kind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    })
}

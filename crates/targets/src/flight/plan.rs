//! Before the clock starts: which tickets, which descriptors, and a table of the user's for a
//! reference server to serve.

use futures::future::join_all;
use prost::Message as _;
use serde_json::json;

use super::call::Link;
use super::endpoints::Piece;
use super::options::{Ack, Subject};
use super::perf::WITHOUT_END;
use super::session::PutSession;
use super::{drive, Flight};
use venturi_base::codec::ipc::Compression;
use venturi_base::codec::proto::FlightDescriptor;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::spec::{Data, Operation};

pub(super) struct Plan {
    pub protocol: &'static str,
    /// What each stream of a get reads, in order.
    pub pieces: Vec<Vec<Piece>>,
    /// A ticket for one batch, where asking for more than the trial does no harm.
    pub warm_up: Option<Vec<u8>>,
    put_to: FlightDescriptor,
    /// The server throws a put's rows away, so one batch more does no harm.
    pub discards: bool,
    /// Rows of the whole trial, where known.
    pub rows: Option<u64>,
    /// The table that the trial brought along for the server to serve.
    pub uploaded: Option<String>,
}

impl Plan {
    /// The descriptor of a stream's put; `{stream}` in a path segment is its number.
    pub fn descriptor(&self, stream: usize) -> Vec<u8> {
        let mut descriptor = self.put_to.clone();
        for segment in &mut descriptor.path {
            *segment = segment.replace("{stream}", &stream.to_string());
        }
        descriptor.encode_to_vec()
    }
}

impl Flight {
    pub(super) async fn make_plan(&self, links: &[Link]) -> Result<Plan> {
        let compression = self.options.compression()?;
        let compressed = compression != Compression::None;
        if self.spec.operation == Operation::Get && compressed && !self.identity.reference {
            return Err(Error::usage(format!(
                "{}: only Venturi's own server can be asked to compress what it sends ({}); leave compression out, and set it up at that server",
                self.identity.address,
                compression.name()
            )));
        }
        let streams = self.spec.streams;
        let mut plan = Plan {
            protocol: "perf",
            pieces: vec![],
            warm_up: None,
            put_to: FlightDescriptor::command(vec![]),
            discards: false,
            rows: self
                .spec
                .rows_per_stream
                .map(|rows| rows.saturating_mul(streams as u64)),
            uploaded: None,
        };
        match (self.spec.operation, &self.subject) {
            (Operation::Get, Subject::Nothing) => match &self.spec.data {
                Data::File { .. } => self.plan_table(links, &mut plan).await?,
                _ => self.plan_perf(links, &mut plan).await?,
            },
            (Operation::Get, Subject::Path(path)) => {
                plan.protocol = "path";
                let descriptor = FlightDescriptor::path(path.clone());
                self.plan_by_first(links, &descriptor, &mut plan).await?;
            }
            (Operation::Get, Subject::Command(command)) => {
                plan.protocol = "command";
                let descriptor = FlightDescriptor::command(command.clone());
                self.plan_by_first(links, &descriptor, &mut plan).await?;
            }
            (Operation::Get, Subject::Ticket(ticket)) => {
                plan.protocol = "ticket";
                plan.rows = None;
                let piece = |stream| Piece {
                    address: self.server_of(stream).address.clone(),
                    ticket: ticket.clone(),
                };
                plan.pieces = (0..streams).map(|stream| vec![piece(stream)]).collect();
            }
            (Operation::Put, Subject::Path(path)) => {
                plan.protocol = "path";
                plan.put_to = FlightDescriptor::path(path.clone());
            }
            (Operation::Put, Subject::Command(command)) => {
                plan.protocol = "command";
                plan.put_to = FlightDescriptor::command(command.clone());
            }
            // The perf protocol puts to an empty command; the server counts and forgets. (C++ calls
            // the type UNKNOWN, writes CMD, and refuses UNKNOWN.)
            (Operation::Put | Operation::Upsert | Operation::Ingest, _) => plan.discards = true,
        }
        Ok(plan)
    }

    /// Gives a reference server the user's rows, once for all processes, and asks for them in the
    /// trial's shape.
    async fn plan_table(&self, links: &[Link], plan: &mut Plan) -> Result<()> {
        if !self.identity.reference {
            return Err(Error::usage(format!(
                "{} is not Venturi's own server: it gives what it holds (flight://host:port/table), or put the file",
                self.identity.address
            )));
        }
        let table = format!("venturi/{}", self.spec.trial);
        let command = json!({
            "table": table,
            "rows_per_stream": self.spec.rows_per_stream.unwrap_or(WITHOUT_END),
            "rows_per_batch": self.spec.rows_per_batch,
            "streams": self.spec.streams,
            "compression": self.options.compression()?.name(),
        });
        let descriptor = FlightDescriptor::command(command.to_string().into_bytes());
        plan.protocol = "table";
        if !self.spec.leads() {
            return self.plan_at_each(links, &descriptor, plan).await;
        }
        let given = match self.upload_to_all(links, &table).await {
            Ok(()) => self.plan_at_each(links, &descriptor, plan).await,
            Err(error) => Err(error),
        };
        if given.is_err() {
            // `clean` knows nothing of a plan that failed; what is there already is taken back.
            let _ = self.drop_table(&table).await;
        }
        plan.uploaded = Some(table);
        given
    }

    async fn upload_to_all(&self, links: &[Link], table: &str) -> Result<()> {
        let Some(source) = &self.source else {
            return Err(Error::new(Kind::Internal, "a table without data"));
        };
        // All of them to their ends: what is cut off half-way might still arrive.
        let uploads = self
            .servers
            .iter()
            .zip(links)
            .map(|(server, link)| async move {
                let upload = self.upload(link, source, table).await;
                upload.map_err(|error| self.at(&server.address, error))
            });
        join_all(uploads).await.into_iter().collect()
    }

    /// Takes the trial's table from all servers; the first error is told when all were asked.
    pub(super) async fn drop_table(&self, table: &str) -> Result<()> {
        let dropping = self.servers.iter().map(|server| async move {
            let link = self.link(server).await?;
            let dropping = link.action("venturi.drop", table.as_bytes());
            let what = "removing the trial's table";
            self.within(&server.address, what, dropping).await
        });
        join_all(dropping)
            .await
            .into_iter()
            .try_for_each(|it| it.map(drop))
    }

    async fn upload(&self, link: &Link, source: &Source, table: &str) -> Result<()> {
        let path = FlightDescriptor::path(table.split('/').map(str::to_owned).collect());
        let encoder = self.encoder(source)?;
        let cursor = source.cursor(Some(source.rows()));
        let upload = PutSession::new(
            link.clone(),
            vec![],
            path.encode_to_vec(),
            encoder,
            cursor,
            false,
            Ack::Stream,
        );
        let what = "giving the rows to the server";
        let upload = async {
            let given = drive(Box::new(upload), usize::MAX).await;
            given.map_err(|error| error.context(what))
        };
        limit::patient(what, upload).await.map(drop)
    }
}

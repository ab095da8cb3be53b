//! `http+arrow://`: Arrow IPC streams over HTTP/1.1, gets and puts. `docs/targets/http.md`.
//!
//! A stream is a request on a connection of its own. Any server will do for what it has under a path;
//! Venturi's reference server also makes records, and accounts for its side of a trial.

mod get;
mod open;
mod options;
mod put;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::reference::{self, compared, Observation, Planned, Question, Reference};
use crate::systems::System;
use crate::{each, Identity, LocalFuture, Observed, Session, Tally, Target, Verification};
use venturi_base::codec::account::Account;
use venturi_base::codec::ipc::Compression;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::Client;
use venturi_base::meter::handicap::Handicap;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

use options::{Options, Place};
use put::Acknowledged;
use server::Server;

const ONE_HOST: &str = "a resource is one server's, and each stream asks for its own";

pub struct Http {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
    server: Arc<Server>,
    handicap: Handicap,
    sockets: Arc<Sockets>,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// What a put sends, or a reference server is given to serve.
    source: Option<Source>,
    identity: Identity,
    /// The table that the trial brought along for the server to serve.
    uploaded: Option<String>,
    acknowledged: Arc<Acknowledged>,
    observation: Observation,
}

/// Arrow over HTTP.
pub const SYSTEM: System = System {
    scheme: options::SCHEME,
    operations: &[Operation::Get, Operation::Put],
    ports: &[
        (options::SCHEME, options::DEFAULT_PORT),
        ("http+arrow+tls", options::TLS_PORT),
    ],
    tls: true,
    reference: Some("http"),
    one_host: Some(ONE_HOST),
    parameters: &["*"],
    aliases: &[
        ("http+arrow", &["arrow+http", "http"]),
        ("http+arrow+tls", &["https+arrow", "arrow+https", "https"]),
    ],
    ask: Some(open::ask),
    target: |spec| Ok(Box::new(Http::new(spec)?)),
    ..System::NOTHING
};

impl Http {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let place = Place::parse(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        options::check(&spec, &place, &options)?;
        let timeout = Duration::from_nanos(spec.timeout_ns);
        let early = spec.include_setup;
        Ok(Self {
            handicap: options.shared.handicap(spec.operation, spec.verify)?,
            server: Arc::new(Server::new(&place, &options, timeout)?),
            listening: early.then(|| place.host.listening()).flatten(),
            spec,
            place,
            options,
            sockets: Arc::default(),
            source: None,
            identity: Identity::default(),
            uploaded: None,
            acknowledged: Arc::default(),
            observation: Observation::default(),
        })
    }

    fn is_get(&self) -> bool {
        self.spec.operation == Operation::Get
    }

    /// Can the two ends' checksums be compared?
    fn has_checksum(&self) -> bool {
        self.spec.verify == Verify::Checksum && self.identity.reference
    }

    /// A connection to the server; afterwards it is known who that is.
    async fn contact(&mut self) -> Result<Client> {
        let mut client = self.server.connect().await?;
        let mut identity = Identity {
            address: self.server.authority().to_owned(),
            protocol: "http".into(),
            route: client.wire().route(),
            ..Identity::default()
        };
        let (server, headers) = (self.server.clone(), self.server.with(&[]));
        let asking = async {
            let (head, body) = client
                .call("GET", "/.venturi/hello", &headers, b"", 1 << 20)
                .await?;
            if head.status == 200 {
                identity.introduce(&body);
            }
            if !identity.reference {
                let software = head.get("server").map(|name| name.chars().take(80));
                identity.software = software.map(Iterator::collect);
            }
            if head.status == 401 && self.place.path.is_empty() {
                return Err(server.refused(&head, &body));
            }
            Ok(())
        };
        match server.within("first contact", asking).await {
            Ok(()) => {}
            // It may answer so much, or so oddly, to what it does not know.
            Err(error) if !self.place.path.is_empty() && error.kind == Kind::Protocol => {
                client = server.connect().await?;
            }
            Err(error) => return Err(self.server.cut_short(error)),
        }
        if !identity.reference {
            let early = self.spec.include_setup;
            identity.look(early.then_some(self.listening));
        }
        self.identity = identity;
        Ok(client)
    }

    /// What only a reference server can be asked for.
    fn check_server(&self) -> Result<()> {
        if self.identity.reference || !self.is_get() {
            return Ok(());
        }
        if self.place.path.is_empty() {
            return Err(server::without_path(self.server.authority()));
        }
        let compression = self.options.shared.compression()?;
        match compression {
            Compression::None => Ok(()),
            _ => Err(Error::usage(format!(
                "{}: only Venturi's own server can be asked to compress batches ({}); leave compression out, or ask for a compressed answer (http_compression)",
                self.server.authority(),
                compression.name()
            ))),
        }
    }

    /// There and back: the lesser of two trips.
    async fn round_trip(&self, client: &mut Client) -> Result<u64> {
        let mut least = u64::MAX;
        for _ in 0..2 {
            let begun = Instant::now();
            self.server.ask_on(client, "clock", "").await?;
            least = least.min(begun.elapsed().as_nanos() as u64);
        }
        Ok(least)
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        // What the lead has given the server needs no data here.
        let given =
            !self.spec.leads() && self.is_get() && matches!(self.spec.data, Data::File { .. });
        if !given && self.spec.data != Data::Remote {
            let source = Source::make(&self.spec.data, self.spec.rows_per_batch)?;
            self.source = Some(source);
        }
        let mut client = self.contact().await?;
        self.check_server()?;
        // Where the clock runs already, it would be a part of what is measured.
        if self.identity.reference && !self.spec.include_setup {
            let server = self.server.clone();
            let trip = server.within("comparing times", self.round_trip(&mut client));
            self.identity.round_trip_ns = Some(trip.await?);
        }
        if self.is_get() && matches!(self.spec.data, Data::File { .. }) {
            let table = format!("venturi/{}", self.spec.trial);
            self.uploaded = Some(table.clone());
            if self.spec.leads() {
                self.upload(client, &table).await?;
            }
        }
        Ok(self.identity.clone())
    }

    async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let account = match self.spec.verify {
            Verify::None => None,
            _ => self.account().await?,
        };
        let remote = self.spec.data == Data::Remote;
        let planned = Planned {
            operation: self.spec.operation,
            rows: self.spec.planned_rows().filter(|_| !remote),
            fixed_work: self.spec.duration_ns.is_none(),
        };
        let is_told = account.is_some();
        let mut found = compared(self.spec.verify, &planned, account, tallies);
        self.add_reported(is_told, tallies, &mut found);
        Ok(found)
    }

    /// Any server may say in its answers how many rows it took.
    fn add_reported(&self, is_told: bool, tallies: &[Tally], found: &mut Verification) {
        use std::sync::atomic::Ordering::Relaxed;
        let all = self.acknowledged.streams.load(Relaxed) == tallies.len() as u64;
        if self.is_get() || is_told || !all || found.achieved == "none" {
            return;
        }
        let rows = self.acknowledged.rows.load(Relaxed);
        found.achieved = "count";
        found.expected_rows = Some(rows);
        found.note = None;
        found.compare_rows(("the server", rows), ("the client", found.rows));
        if self.spec.verify == Verify::Checksum {
            found.note = Some("only Venturi's own server tells a checksum".into());
        }
    }
}

impl Reference for Http {
    type Link = Client;

    fn of_trial(&self) -> (&Observation, &Identity, &str) {
        (&self.observation, &self.identity, &self.spec.trial)
    }

    async fn link(&self, _: Question) -> Result<Client> {
        self.server.connect().await
    }

    async fn ask(&self, client: &mut Client, question: Question, payload: &str) -> Result<Vec<u8>> {
        let asking = self.server.ask_on(client, question.name(), payload);
        self.server.within(question.what(), asking).await
    }

    async fn ask_account(&self) -> Result<Option<Account>> {
        if !self.identity.reference {
            return Ok(None);
        }
        let bytes = self.server.ask("account", &self.spec.trial).await?;
        reference::account(&bytes).map(Some)
    }

    /// Every server of ours samples and tells its clock; samples it may have none.
    fn has_none(question: Question, error: &Error) -> bool {
        question == Question::Samples && error.kind == Kind::Unsupported
    }
}

impl Target for Http {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        let known = self.spec.data != Data::Remote;
        self.spec.planned_rows().filter(|_| known)
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.compare(tallies))
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            if let Some(table) = &self.uploaded {
                self.server.ask("drop", table).await?;
            }
            Ok(())
        })
    }
}

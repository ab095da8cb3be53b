//! Before the clock starts: who the server is, which tickets, which descriptors; and
//! after it: do the two ends agree.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use prost::Message as _;
use serde::Deserialize;
use serde_json::json;

use super::call::Link;
use super::options::{Ack, Address, Options, ProtocolChoice, Subject};
use super::session::PutSession;
use super::{drive, Flight};
use crate::codec::ipc::{schema_to_bytes, Compression};
use crate::codec::perf::{Perf, Token, COLUMNS};
use crate::codec::proto::{FlightDescriptor, FlightEndpoint, FlightInfo};
use crate::data::Source;
use crate::error::{Error, Kind, Result};
use crate::meter::readers::listener::pid_of;
use crate::meter::readers::network::is_own;
use crate::spec::{Data, Operation, TrialSpec, Values, Verify};
use crate::target::{Identity, Tally, Verification};

/// Rows that a fixed-time get asks for: more than any clock lets through.
const WITHOUT_END: u64 = 1 << 44;

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

#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub address: Address,
    pub ticket: Vec<u8>,
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

/// What can be refused before anything is connected.
pub(super) fn check(spec: &TrialSpec, subject: &Subject, options: &Options) -> Result<()> {
    let named = match subject {
        Subject::Nothing => ProtocolChoice::Perf,
        Subject::Path(_) => ProtocolChoice::Path,
        Subject::Command(_) => ProtocolChoice::Command,
        Subject::Ticket(_) => ProtocolChoice::Ticket,
    };
    if options.protocol != ProtocolChoice::Auto && options.protocol != named {
        return Err(Error::usage(format!(
            "protocol = {:?} does not fit the URL {:?}, which names {:?}",
            options.protocol, spec.target, named
        )));
    }
    let rows = spec.rows_per_stream.unwrap_or(0);
    if rows > WITHOUT_END {
        return Err(Error::usage(format!(
            "rows_per_stream must be at most {WITHOUT_END}"
        )));
    }
    if spec.rows_per_batch > i32::MAX as usize {
        return Err(Error::usage("rows_per_batch must be at most 2147483647"));
    }
    match (spec.operation, subject, &spec.data) {
        (Operation::Upsert, ..) => Err(Error::usage(
            "Flight knows no upsert: put, or upsert into a database (mysql://, cassandra://, postgres://, sqlite://, duckdb://)",
        )),
        (Operation::Put, Subject::Ticket(_), _) => Err(Error::usage("a ticket is for a get; put to a path: flight://host:port/table")),
        (Operation::Get, Subject::Nothing, Data::Remote) => Err(Error::usage(
            "data = \"remote\" needs to say what to get: flight://host:port/table, ?command=… or ?ticket=…",
        )),
        (Operation::Get, Subject::Path(_) | Subject::Command(_) | Subject::Ticket(_), data) if *data != Data::Remote => {
            Err(Error::usage("a get of a path, command or ticket moves what the server holds: data = \"remote\""))
        }
        _ => Ok(()),
    }
}

/// Before any connection is made: whose process listens there, if it is one of this host. A name
/// is not looked up, for that would make the trial's own look-up faster.
pub(crate) fn listening(address: &Address) -> Option<u32> {
    let all = match address.host.as_str() {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        host => vec![host.parse::<IpAddr>().ok()?],
    };
    all.into_iter()
        .filter(|ip| is_own(*ip))
        .find_map(|ip| pid_of((ip, address.port).into()))
}

#[derive(Deserialize)]
struct Hello {
    software: String,
    /// What the server was slowed down by on purpose; empty: nothing.
    #[serde(default)]
    handicap: String,
    pid: u32,
    boot: Option<String>,
    #[serde(default)]
    time_namespace: String,
}

impl Flight {
    pub(super) async fn identify(&self, link: &Link) -> Result<Identity> {
        let mut identity = Identity {
            address: self.address.authority(),
            route: link.route(),
            ..Identity::default()
        };
        match link.action("venturi.hello", b"").await {
            Ok(bytes) => {
                if let Ok(hello) = serde_json::from_slice::<Hello>(&bytes) {
                    identity.reference = true;
                    identity.software = Some(hello.software);
                    identity.handicap = Some(hello.handicap).filter(|slowed| !slowed.is_empty());
                    // A pid means something on the machine it is from only.
                    let same_machine = hello
                        .boot
                        .zip(crate::server::machine::boot_id())
                        .map(|(theirs, ours)| theirs == ours);
                    identity.same_machine = same_machine;
                    identity.same_clock = same_machine == Some(true)
                        && hello.time_namespace == crate::server::machine::time_namespace();
                    identity.pid = Some(hello.pid).filter(|_| same_machine == Some(true));
                }
                Ok(identity)
            }
            // Any other server: it answers in its own way that it does not know the action.
            Err(error) if error.kind == Kind::Server => {
                if let Some(route) = identity.route.filter(|route| is_own(route.peer.ip())) {
                    identity.same_machine = Some(true);
                    identity.pid = match self.spec.include_setup {
                        true => self.listening,
                        false => pid_of(route.peer),
                    };
                }
                Ok(identity)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn make_plan(&self, link: &Link) -> Result<Plan> {
        let compression = self.options.compression()?;
        let compressed = compression != Compression::None;
        if self.spec.operation == Operation::Get && compressed && !self.identity.reference {
            return Err(Error::usage(format!(
                "{}: only Venturi's own server can be asked to compress what it sends ({}); leave compression out, and set it up at that server",
                self.address.authority(),
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
                Data::File { .. } => self.plan_table(link, &mut plan).await?,
                _ => self.plan_perf(link, &mut plan).await?,
            },
            (Operation::Get, Subject::Path(path)) => {
                plan.protocol = "path";
                self.plan_info(link, FlightDescriptor::path(path.clone()), &mut plan)
                    .await?;
            }
            (Operation::Get, Subject::Command(command)) => {
                plan.protocol = "command";
                self.plan_info(link, FlightDescriptor::command(command.clone()), &mut plan)
                    .await?;
            }
            (Operation::Get, Subject::Ticket(ticket)) => {
                plan.protocol = "ticket";
                plan.rows = None;
                let piece = Piece {
                    address: self.address.clone(),
                    ticket: ticket.clone(),
                };
                plan.pieces = vec![vec![piece]; streams];
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

    async fn plan_perf(&self, link: &Link, plan: &mut Plan) -> Result<()> {
        let Data::Records {
            columns,
            values,
            seed,
        } = self.spec.data
        else {
            return Err(Error::usage("the perf protocol moves records"));
        };
        let compression = self.options.compression()?;
        let usual =
            columns == COLUMNS && values == Values::Random && compression == Compression::None;
        // Which random numbers they are makes no difference to a foreign server's figures.
        let plain = usual && (seed == 0 || !self.identity.reference);
        if !usual && !self.identity.reference {
            return Err(Error::usage(format!(
                "{}: only Venturi's own server makes {values:?} records of {columns} columns, compression {}; Arrow's perf server knows 4 random columns, uncompressed",
                self.address.authority(),
                compression.name()
            )));
        }
        let schema = match &self.source {
            // Arrow's server ignores the field; ours reads what to make from it.
            Some(source) if !plain => {
                let metadata = std::collections::HashMap::from([
                    (
                        "venturi.values".to_owned(),
                        format!("{values:?}").to_lowercase(),
                    ),
                    ("venturi.seed".to_owned(), seed.to_string()),
                    ("venturi.compression".to_owned(), compression.name()),
                ]);
                let schema = source.schema().as_ref().clone().with_metadata(metadata);
                schema_to_bytes(&schema)?
            }
            _ => vec![],
        };
        let perf = Perf {
            schema,
            stream_count: self.spec.streams as i32,
            records_per_stream: self.spec.rows_per_stream.unwrap_or(WITHOUT_END) as i64,
            records_per_batch: self.spec.rows_per_batch as i32,
        };
        let descriptor = FlightDescriptor::command(perf.encode_to_vec());
        let mut warm_up = Token {
            definition: Some(perf),
            start: 0,
            end: self.spec.rows_per_batch as i64,
        };
        if let Some(definition) = &mut warm_up.definition {
            definition.records_per_stream = self.spec.rows_per_batch as i64;
        }
        let rows = plan.rows;
        self.plan_info(link, descriptor, plan).await.map_err(|error| {
            if error.kind == Kind::Server {
                error.context("the server does not speak Arrow's perf protocol; name a table (flight://host:port/table) or a command")
            } else {
                error
            }
        })?;
        plan.rows = rows;
        plan.warm_up = Some(warm_up.encode_to_vec());
        if plan.pieces.iter().any(|pieces| pieces.len() != 1) {
            return Err(Error::protocol(
                "the server offers another number of endpoints than streams were asked for",
            ));
        }
        Ok(())
    }

    /// GetFlightInfo: the endpoints, divided over the streams. Fewer endpoints than
    /// streams: several streams read the same one.
    async fn plan_info(
        &self,
        link: &Link,
        descriptor: FlightDescriptor,
        plan: &mut Plan,
    ) -> Result<()> {
        let streams = self.spec.streams;
        let info = self.flight_info(link, &descriptor).await?;
        if info.endpoint.is_empty() {
            return Err(Error::new(
                Kind::Server,
                "the server has this flight, but no endpoint to read it from",
            ));
        }
        let endpoints = info
            .endpoint
            .iter()
            .map(|endpoint| self.piece(endpoint))
            .collect::<Result<Vec<_>>>()?;
        let count = endpoints.len();
        plan.pieces = (0..streams)
            .map(|stream| match count < streams {
                true => vec![endpoints[stream % count].clone()],
                false => endpoints
                    .iter()
                    .skip(stream)
                    .step_by(streams)
                    .cloned()
                    .collect(),
            })
            .collect();
        let total = u64::try_from(info.total_records).ok();
        plan.rows = match (total, count < streams, count) {
            (total, false, _) => total,
            (Some(total), true, 1) => total.checked_mul(streams as u64),
            _ => None,
        };
        Ok(())
    }

    async fn flight_info(&self, link: &Link, descriptor: &FlightDescriptor) -> Result<FlightInfo> {
        let replies = link
            .unary("GetFlightInfo", &[], &descriptor.encode_to_vec())
            .await?;
        let reply = replies
            .first()
            .ok_or_else(|| Error::protocol("GetFlightInfo without an answer"))?;
        FlightInfo::decode(&reply[..])
            .map_err(|error| Error::protocol(format!("GetFlightInfo: {error}")))
    }

    fn piece(&self, endpoint: &FlightEndpoint) -> Result<Piece> {
        let ticket = endpoint.ticket.clone().unwrap_or_default().ticket;
        let location = match endpoint.location.first() {
            Some(location) => Address::of_location(&location.uri)?,
            None => None,
        };
        let mut address = location.unwrap_or_else(|| self.address.clone());
        // A server that only knows the address it listens on means: where you found me.
        if ["0.0.0.0", "::"].contains(&address.host.as_str()) {
            address.host = self.address.host.clone();
        }
        // Another place gets this trial's headers too, and with them its credentials.
        if self.address.tls && !address.tls && !self.headers.is_empty() {
            return Err(Error::new(
                Kind::Tls,
                format!(
                    "the server offers its data at {} without TLS, where the trial's headers and credentials would travel in the clear",
                    address.authority()
                ),
            ));
        }
        Ok(Piece { address, ticket })
    }

    /// Gives a reference server the user's rows, once for all processes, and asks for them in the
    /// trial's shape.
    async fn plan_table(&self, link: &Link, plan: &mut Plan) -> Result<()> {
        if !self.identity.reference {
            return Err(Error::usage(format!(
                "{} is not Venturi's own server: it gives what it holds (flight://host:port/table), or put the file",
                self.address.authority()
            )));
        }
        let table = format!("venturi/{}", self.spec.trial);
        if let Some(source) = self.source.as_ref().filter(|_| self.spec.leads()) {
            self.upload(link, source, &table).await?;
        }
        let command = json!({
            "table": table,
            "rows_per_stream": self.spec.rows_per_stream.unwrap_or(WITHOUT_END),
            "rows_per_batch": self.spec.rows_per_batch,
            "streams": self.spec.streams,
            "compression": self.options.compression()?.name(),
        });
        let rows = plan.rows;
        self.plan_info(
            link,
            FlightDescriptor::command(command.to_string().into_bytes()),
            plan,
        )
        .await?;
        plan.protocol = "table";
        plan.rows = rows;
        plan.uploaded = self.spec.leads().then_some(table);
        Ok(())
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
        drive(Box::new(upload), usize::MAX)
            .await
            .map_err(|error| error.context("giving the rows to the server"))?;
        Ok(())
    }

    /// METHOD, "Verification": what arrived is what was sent.
    pub(super) async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let rows = tallies.iter().map(|tally| tally.rows).sum();
        let checksum = tallies
            .iter()
            .fold(0u64, |sum, tally| sum.wrapping_add(tally.checksum));
        let planned = self.plan.as_ref().and_then(|plan| plan.rows);
        let mut verification = Verification {
            requested: self.spec.verify,
            achieved: "none",
            expected_rows: None,
            rows,
            expected_checksum: None,
            checksum: None,
            sums: None,
            stored_bytes: None,
            note: None,
            mismatch: None,
        };
        if self.spec.verify == Verify::None {
            return Ok(verification);
        }
        if let Some(account) = self.account().await? {
            verification.expected_rows = Some(account.rows);
            verification.achieved = "count";
            if self.spec.verify == Verify::Checksum {
                verification.achieved = "checksum";
                verification.checksum = Some(format!("{checksum:016x}"));
                verification.expected_checksum = Some(account.checksum.clone());
            }
        } else {
            let fixed_work = self.spec.duration_ns.is_none();
            match (self.spec.operation, planned) {
                (Operation::Get, Some(planned)) if fixed_work => {
                    verification.achieved = "count";
                    verification.expected_rows = Some(planned);
                }
                (Operation::Get, _) => {
                    verification.note =
                        Some("the server does not say how many rows it sent".into());
                }
                (Operation::Put | Operation::Upsert | Operation::Ingest, _) => {
                    verification.achieved = "acknowledged";
                    verification.expected_rows = planned.filter(|_| fixed_work);
                    verification.note = Some("the server acknowledged the whole stream, but does not say how many rows it took".into());
                }
            }
            if self.spec.verify == Verify::Checksum && verification.note.is_none() {
                verification.note = Some("only Venturi's own server tells a checksum".into());
            }
        }
        verification.mismatch = mismatch(&verification, self.spec.operation);
        Ok(verification)
    }
}

fn mismatch(found: &Verification, operation: Operation) -> Option<String> {
    let (sender, receiver) = match operation {
        Operation::Get => ("the server", "the client"),
        Operation::Put | Operation::Upsert | Operation::Ingest => ("the client", "the server"),
    };
    if let Some(expected) = found
        .expected_rows
        .filter(|expected| *expected != found.rows)
    {
        let (sent, received) = match operation {
            Operation::Get => (expected, found.rows),
            Operation::Put | Operation::Upsert | Operation::Ingest => (found.rows, expected),
        };
        return Some(format!(
            "{receiver} counted {received} rows, {sender} {sent}"
        ));
    }
    if found.expected_checksum.is_some() && found.expected_checksum != found.checksum {
        return Some(format!(
            "{receiver} has other values than {sender} sent: the checksums differ"
        ));
    }
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_known_before_anything_is_connected() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = |host: &str| {
            let host = host.to_owned();
            listening(&Address {
                host,
                port,
                tls: false,
            })
        };
        assert_eq!(found("127.0.0.1"), Some(std::process::id()));
        assert_eq!(found("localhost"), Some(std::process::id()));
        assert_eq!(found("203.0.113.1"), None); // TEST-NET-3, nobody's
        assert_eq!(found("host.invalid"), None);
        drop(listener);
        assert_eq!(found("127.0.0.1"), None);
    }
}

//! The small calls: what a request means, and what is answered. No sockets here.

use std::sync::Arc;

use prost::Message;
use serde::Deserialize;
use serde_json::json;

use crate::rows::Reading;
use crate::shell::Service;
use crate::state::State;
use crate::store::{Lent, Table};
use venturi_base::codec::ipc::{schema_from_bytes, schema_to_bytes, Compression};
use venturi_base::codec::perf::{Perf, Token, COLUMNS};
use venturi_base::codec::proto::{
    descriptor_type, Action, ActionType, Bytes, FlightDescriptor, FlightEndpoint, FlightInfo,
    Location, Ticket,
};
use venturi_base::data::records;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::route::Route;
use venturi_base::spec::{Data, Values};

/// A gRPC status that is not OK.
#[derive(Debug)]
pub(super) struct Status {
    pub code: u32,
    pub message: String,
}

pub(super) mod status {
    pub const CANCELLED: u32 = 1;
    pub const INVALID_ARGUMENT: u32 = 3;
    pub const NOT_FOUND: u32 = 5;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const INTERNAL: u32 = 13;
    pub const UNAUTHENTICATED: u32 = 16;
}

/// Bytes of a message: it travels in a header, which clients take some 8 kB of, and what a
/// client has asked with may be in it.
const LONGEST_MESSAGE: usize = 1024;

impl Status {
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > LONGEST_MESSAGE {
            let end = (0..=LONGEST_MESSAGE).rfind(|at| message.is_char_boundary(*at));
            message.truncate(end.unwrap_or(0));
            message.push_str(" ...");
            message.shrink_to_fit();
        }
        Self { code, message }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            Kind::Memory => status::RESOURCE_EXHAUSTED,
            Kind::Internal => status::INTERNAL,
            Kind::Unsupported => status::NOT_FOUND,
            _ => status::INVALID_ARGUMENT,
        };
        Self::new(code, error.message)
    }
}

type Answer = std::result::Result<Vec<Vec<u8>>, Status>;

/// What a call needs to know of its connection.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Where the client reached this server: the location that it can reach.
    pub authority: String,
    /// By a Unix socket, whose path may be another one to the client.
    pub near: bool,
    pub tls: bool,
    pub route: Option<Route>,
}

const ACTIONS: [(&str, &str); 12] = [
    ("ping", "answers ok"),
    ("statistics", "counts since the start, as JSON"),
    (
        "drop",
        "forgets the table of this path (segments joined by /)",
    ),
    ("venturi.hello", "who this is, as JSON"),
    (
        "venturi.environment",
        "the machine and software it runs on, as JSON",
    ),
    (
        "venturi.account",
        "what the server did for the trial of this id, as JSON",
    ),
    (
        "venturi.clock",
        "answers this machine's monotonic clock in ns",
    ),
    (
        "venturi.watch",
        "samples processes and host for a trial: {\"trial\", \"interval_ns\"}",
    ),
    (
        "venturi.samples",
        "what was sampled for the trial of this id, as JSON in pieces",
    ),
    ("venturi.stop", "ends the gets of the trial of this id"),
    (
        "venturi.tcp",
        "starts the raw TCP probe; answers its port, and what a probe begins with",
    ),
    (
        "venturi.drop",
        "as drop, and a table that is gone already is no error",
    ),
];

/// A table as a trial wants it: its rows over and over.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
struct TableCommand {
    table: String,
    /// Absent: the table's own rows, once.
    rows_per_stream: Option<u64>,
    rows_per_batch: Option<usize>,
    #[serde(default = "one")]
    streams: usize,
    #[serde(default)]
    compression: String,
}

/// Of long answers, the part in one message.
const PIECE: usize = 64 << 10;

fn one() -> usize {
    1
}

fn decode<T: Message + Default>(request: &[u8]) -> std::result::Result<T, Status> {
    T::decode(request).map_err(|error| {
        Status::new(
            status::INVALID_ARGUMENT,
            format!("not the message of this call: {error}"),
        )
    })
}

impl State {
    pub(super) async fn call(
        self: &Arc<Self>,
        method: &str,
        request: &[u8],
        caller: &Caller,
    ) -> Answer {
        match method {
            "GetFlightInfo" => Ok(vec![self
                .flight_info(&decode(request)?, caller)?
                .encode_to_vec()]),
            "GetSchema" => {
                let info = self.flight_info(&decode(request)?, caller)?;
                Ok(vec![Bytes { bytes: info.schema }.encode_to_vec()])
            }
            "ListFlights" => self
                .store
                .tables()
                .into_iter()
                .map(|(path, table)| Ok(table_info(&path, &table, caller)?.encode_to_vec()))
                .collect(),
            "ListActions" => Ok(ACTIONS
                .iter()
                .map(|(name, description)| {
                    ActionType {
                        r#type: (*name).into(),
                        description: (*description).into(),
                    }
                    .encode_to_vec()
                })
                .collect()),
            "DoAction" => self.action(&decode(request)?, caller).await,
            other => Err(Status::new(
                status::UNIMPLEMENTED,
                format!("this server does not offer {other}"),
            )),
        }
    }

    async fn action(self: &Arc<Self>, action: &Action, caller: &Caller) -> Answer {
        let text = String::from_utf8_lossy(&action.body).into_owned();
        let body = match action.r#type.as_str() {
            "ping" => b"ok".to_vec(),
            "statistics" => self.statistics().to_string().into_bytes(),
            "drop" => {
                self.store.drop_table(&text)?;
                vec![]
            }
            "venturi.drop" => {
                let _ = self.store.drop_table(&text);
                vec![]
            }
            "venturi.hello" => self.hello(),
            "venturi.samples" => return self.samples(&text, caller).await,
            other => {
                let name = other.strip_prefix("venturi.").unwrap_or_default();
                let answer = self.answer(name, &text, caller.route).await?;
                answer.ok_or_else(|| {
                    Status::new(
                        status::UNIMPLEMENTED,
                        format!("there is no action {other:?}; ListActions names them"),
                    )
                })?
            }
        };
        Ok(vec![Bytes { bytes: body }.encode_to_vec()])
    }

    /// In pieces, for a client may not take long messages.
    async fn samples(&self, trial: &str, caller: &Caller) -> Answer {
        let text = self.answer("samples", trial, caller.route).await?;
        let piece = |bytes: &[u8]| {
            Bytes {
                bytes: bytes.to_vec(),
            }
            .encode_to_vec()
        };
        let text = text.unwrap_or_default();
        Ok(text.chunks(PIECE).map(piece).collect())
    }

    fn flight_info(
        &self,
        descriptor: &FlightDescriptor,
        caller: &Caller,
    ) -> std::result::Result<FlightInfo, Status> {
        if descriptor.r#type == descriptor_type::PATH {
            let path = descriptor.path.join("/");
            return Ok(table_info(&path, &self.store.table(&path)?, caller)?);
        }
        if descriptor.cmd.starts_with(b"{") {
            return self.table_command_info(descriptor, caller);
        }
        let perf = Perf::decode(&descriptor.cmd[..]).map_err(|_| {
            Status::new(
                status::INVALID_ARGUMENT,
                "the command is neither Arrow's Perf message nor Venturi's JSON",
            )
        })?;
        let streams = i64::from(perf.stream_count);
        let rows = perf.records_per_stream;
        if !(1..=65_536).contains(&streams)
            || rows < 1
            || perf.records_per_batch < 1
            || rows.checked_mul(streams).is_none()
        {
            return Err(Status::new(
                status::INVALID_ARGUMENT,
                format!(
                    "Perf asks for {streams} streams of {rows} records, {} a batch",
                    perf.records_per_batch
                ),
            ));
        }
        let schema = self.perf_source(&perf)?.source.schema();
        answer_fits(streams, descriptor.cmd.len() + caller.authority.len())?;
        let endpoint = (0..streams)
            .map(|stream| {
                let token = Token {
                    definition: Some(perf.clone()),
                    start: stream * rows,
                    end: (stream + 1) * rows,
                };
                endpoint(token.encode_to_vec(), caller)
            })
            .collect();
        Ok(FlightInfo {
            schema: schema_to_bytes(&schema)?,
            flight_descriptor: Some(descriptor.clone()),
            endpoint,
            total_records: streams * rows,
            total_bytes: -1,
            ordered: false,
        })
    }

    fn table_command_info(
        &self,
        descriptor: &FlightDescriptor,
        caller: &Caller,
    ) -> std::result::Result<FlightInfo, Status> {
        let command = parse_table_command(&descriptor.cmd)?;
        if !(1..=65_536).contains(&command.streams) {
            return Err(Status::new(
                status::INVALID_ARGUMENT,
                "streams must be 1..65536",
            ));
        }
        let table = self.store.table(&command.table)?;
        // Made now, so that no stream waits for it.
        self.table_source(&command)?;
        let ticket = serde_json::to_vec(&command)
            .map_err(|error| Status::new(status::INTERNAL, error.to_string()))?;
        let rows = command
            .rows_per_stream
            .unwrap_or(table.rows)
            .saturating_mul(command.streams as u64);
        answer_fits(
            command.streams as i64,
            ticket.len() + caller.authority.len(),
        )?;
        Ok(FlightInfo {
            schema: schema_to_bytes(&table.schema)?,
            flight_descriptor: Some(descriptor.clone()),
            endpoint: (0..command.streams)
                .map(|_| endpoint(ticket.clone(), caller))
                .collect(),
            total_records: i64::try_from(rows).unwrap_or(-1),
            total_bytes: -1,
            ordered: false,
        })
    }

    /// What a ticket of ours stands for. `compression` is that of a table as it was put: what is made on
    /// demand brings its own.
    pub(super) fn reading(
        &self,
        ticket: &[u8],
        compression: &str,
    ) -> std::result::Result<Reading, Status> {
        if ticket.starts_with(b"{") {
            let command = parse_table_command(ticket)?;
            if command.rows_per_stream.is_none() && command.rows_per_batch.is_none() {
                let table = self.store.table(&command.table)?;
                return Ok(Reading::Table(table, 0, Compression::of_name(compression)?));
            }
            let (lent, rows) = self.table_source(&command)?;
            let compression = Compression::of_name(&command.compression)?;
            let cursor = lent.source.cursor(Some(rows));
            return Ok(Reading::Source(cursor, compression, lent));
        }
        let unknown = || Status::new(status::INVALID_ARGUMENT, "not a ticket of this server");
        let token = Token::decode(ticket).map_err(|_| unknown())?;
        let perf = token.definition.ok_or_else(unknown)?;
        let rows = u64::try_from(token.end.saturating_sub(token.start)).map_err(|_| unknown())?;
        if rows == 0 || perf.records_per_batch < 1 {
            return Err(unknown());
        }
        let lent = self.perf_source(&perf)?;
        let compression = Wanted::of(&perf)?.compression;
        let cursor = lent.source.cursor(Some(rows));
        Ok(Reading::Source(cursor, compression, lent))
    }

    fn perf_source(&self, perf: &Perf) -> Result<Lent> {
        let rows_per_batch = perf.records_per_batch.max(1) as usize;
        let Wanted { data, columns, .. } = Wanted::of(perf)?;
        self.store.records(&data, columns, rows_per_batch)
    }

    fn table_source(&self, command: &TableCommand) -> Result<(Lent, u64)> {
        let rows_per_batch = command.rows_per_batch.unwrap_or(4096).max(1);
        let (lent, rows) = self.store.rows_of(&command.table, rows_per_batch)?;
        Ok((lent, command.rows_per_stream.unwrap_or(rows)))
    }
}

/// What a `Perf` message asks for. Arrow leaves its schema empty; Venturi's own client says
/// there what it wants beyond the usual.
struct Wanted {
    data: Data,
    columns: usize,
    compression: Compression,
}

impl Wanted {
    fn of(perf: &Perf) -> Result<Self> {
        let schema = match perf.schema.is_empty() {
            true => records::schema(COLUMNS).as_ref().clone(),
            false => schema_from_bytes(&perf.schema)?,
        };
        let metadata = |key: &str| schema.metadata().get(key).map_or("", String::as_str);
        let columns = schema.fields().len().clamp(1, 10_000);
        Ok(Self {
            data: Data::Records {
                columns,
                values: match metadata("venturi.values") {
                    "sequential" => Values::Sequential,
                    _ => Values::Random,
                },
                seed: metadata("venturi.seed").parse().unwrap_or(0),
            },
            columns,
            compression: Compression::of_name(metadata("venturi.compression"))?,
        })
    }
}

fn parse_table_command(json: &[u8]) -> Result<TableCommand> {
    serde_json::from_slice(json)
        .map_err(|error| Error::usage(format!("Venturi's JSON command: {error}")))
}

/// Every endpoint repeats what the client asked with; a small question must not have an
/// answer that fills the memory.
fn answer_fits(endpoints: i64, each: usize) -> std::result::Result<(), Status> {
    const LARGEST: u64 = 16 << 20;
    match (endpoints as u64).saturating_mul(each as u64 + 64) > LARGEST {
        true => Err(Status::new(
            status::RESOURCE_EXHAUSTED,
            format!("{endpoints} endpoints of {each} bytes are more than this server answers"),
        )),
        false => Ok(()),
    }
}

fn endpoint(ticket: Vec<u8>, caller: &Caller) -> FlightEndpoint {
    let uri = match (caller.near, caller.tls) {
        (true, _) => "arrow-flight-reuse-connection://?".to_owned(),
        (false, true) => format!("grpc+tls://{}", caller.authority),
        (false, false) => format!("grpc+tcp://{}", caller.authority),
    };
    FlightEndpoint {
        ticket: Some(Ticket { ticket }),
        location: vec![Location { uri }],
    }
}

fn table_info(path: &str, table: &Table, caller: &Caller) -> Result<FlightInfo> {
    let ticket = json!({ "table": path }).to_string().into_bytes();
    Ok(FlightInfo {
        schema: schema_to_bytes(&table.schema)?,
        flight_descriptor: Some(FlightDescriptor::path(
            path.split('/').map(str::to_owned).collect(),
        )),
        endpoint: vec![endpoint(ticket, caller)],
        total_records: table.rows as i64,
        total_bytes: table.bytes() as i64,
        ordered: false,
    })
}

//! What a client says: the handshake, queries, questions.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::{flag, EXTENDED, LONGEST_NAME, LONGEST_QUERY, MAJOR, MOST_ENCODERS, PLAIN};
use crate::codec::ipc::Compression;

/// The one encoder that there is, and its version.
const ENCODER: &str = "Arrow";
const ENCODER_VERSION: i64 = 1;

/// Why a message could not be read.
#[derive(Debug)]
pub enum Fault {
    /// The peer breaks the rules; it can be told why.
    Wrong(String),
    /// The peer is gone, or silent for too long.
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Wrong(what.into()))
}

/// Of a client: the ring that it wants; of a Hello: the one that goes with it.
pub const RING: &str = "ring";

/// How the blocks of a 1.2 connection are made, and for whom: the lines behind the client's name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters {
    pub compression: Compression,
    /// Each block with its checksum.
    pub checksum: bool,
    pub partition: Option<u64>,
    pub partitions: Option<u64>,
    /// The trial whose stream this is.
    pub trial: Option<String>,
    /// "checksum" | "count" | "none": what the trial is verified by.
    pub verify: Option<String>,
    /// The server shall sample itself at this interval, in ns.
    pub sample: Option<u64>,
    /// What a block should hold about, in bytes of payload.
    pub block_bytes: Option<u64>,
    /// The bodies of blocks shall come through a ring of so many bytes in shared memory.
    pub ring: Option<u64>,
}

impl Parameters {
    /// The client's name with the parameters behind it.
    pub fn name(&self, software: &str) -> String {
        let mut text = software.replace('\n', " ");
        let mut line = |key: &str, value: &str| {
            text.push('\n');
            text.push_str(key);
            text.push('=');
            text.push_str(&value.replace('\n', " "));
        };
        if self.compression != Compression::None {
            line("compression", &self.compression.name());
        }
        if self.checksum {
            line("checksum", "xxh3");
        }
        let numbers = [
            ("partition", self.partition),
            ("partitions", self.partitions),
            ("sample", self.sample),
            ("block_bytes", self.block_bytes),
            (RING, self.ring),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                line(key, &value.to_string());
            }
        }
        for (key, value) in [("trial", &self.trial), ("verify", &self.verify)] {
            if let Some(value) = value {
                line(key, value);
            }
        }
        text
    }

    /// Reads what `name` wrote. Keys that are not known are nobody's business.
    pub fn parse(name: &str) -> Result<Self, String> {
        let mut parameters = Self::default();
        for (key, value) in pairs(name) {
            let number = || {
                value
                    .parse::<u64>()
                    .map(Some)
                    .map_err(|_| format!("{key}={value:?} is not a number"))
            };
            match key {
                "compression" => {
                    parameters.compression =
                        Compression::of_name(value).map_err(|error| error.message)?;
                }
                "checksum" => {
                    parameters.checksum = match value {
                        "none" | "" => false,
                        "xxh3" => true,
                        other => return Err(format!("checksum={other:?}: known are none, xxh3")),
                    }
                }
                "partition" => parameters.partition = number()?,
                "partitions" => parameters.partitions = number()?,
                "sample" => parameters.sample = number()?,
                "block_bytes" => parameters.block_bytes = number()?.filter(|bytes| *bytes > 0),
                RING => parameters.ring = number()?,
                "trial" => parameters.trial = Some(value.to_owned()).filter(|id| !id.is_empty()),
                "verify" => parameters.verify = Some(value.to_owned()),
                _ => {}
            }
        }
        match (parameters.partition, parameters.partitions) {
            (_, Some(0)) => Err("partitions=0: there is at least 1".into()),
            (Some(index), Some(count)) if index >= count => Err(format!(
                "partition={index} of partitions={count}: they are numbered from 0 to {}",
                count - 1
            )),
            _ => Ok(parameters),
        }
    }
}

/// `key=value` lines; of a client's name those behind the first line.
pub fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\n').filter_map(|line| line.split_once('='))
}

/// As `pairs`, by key.
pub fn pairs_by_key(text: &str) -> BTreeMap<String, String> {
    pairs(text)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    pub minor: i64,
    /// Free text, for logs; of 1.2 with parameters behind it.
    pub client: String,
    pub database: String,
    pub user: String,
    pub password: String,
    pub encoders: usize,
}

impl Handshake {
    pub fn is_extended(&self) -> bool {
        self.minor == EXTENDED
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160 + self.client.len());
        put_number(&mut out, flag::HEADER);
        put_number(&mut out, MAJOR);
        put_number(&mut out, self.minor);
        for text in [&self.client, &self.database, &self.user, &self.password] {
            put_bytes(&mut out, text.as_bytes());
        }
        put_bytes(&mut out, ENCODER.as_bytes());
        put_number(&mut out, ENCODER_VERSION);
        put_number(&mut out, self.encoders as i64);
        out
    }

    /// Reads one; what is wrong is said as soon as it is seen.
    pub fn read(input: &mut impl Read) -> Result<Self, Fault> {
        let first = number(input)?;
        if first != flag::HEADER {
            return wrong(format!(
                "the first message has flag {first} instead of 0: is this a client of the ClickHouse Arrow interface?"
            ));
        }
        let (major, minor) = (number(input)?, number(input)?);
        if major != MAJOR || !(PLAIN..=EXTENDED).contains(&minor) {
            return wrong(format!(
                "the client speaks version {major}.{minor}; this server speaks 1.1 and 1.2"
            ));
        }
        let handshake = Self {
            minor,
            client: text(input, "the client's name", LONGEST_NAME)?,
            database: text(input, "the database", LONGEST_NAME)?,
            user: text(input, "the user", LONGEST_NAME)?,
            password: text(input, "the password", LONGEST_NAME)?,
            encoders: 0,
        };
        let name = text(input, "the encoder's name", LONGEST_NAME)?;
        let version = number(input)?;
        if name != ENCODER || version != ENCODER_VERSION {
            let name: String = name.chars().take(64).collect();
            return wrong(format!(
                "unknown encoder {name:?}, version {version}; this server has \"Arrow\", version 1"
            ));
        }
        let asked = number(input)?;
        let encoders = usize::try_from(asked).ok();
        match encoders.filter(|count| (1..=MOST_ENCODERS).contains(count)) {
            Some(encoders) => Ok(Self {
                encoders,
                ..handshake
            }),
            None => wrong(format!(
                "{asked} encoders were asked for; possible are 1 to {MOST_ENCODERS}"
            )),
        }
    }
}

/// What a 1.2 client asks that wants no more blocks. There is no answer.
pub const LEAVE: &str = "leave";

/// What a client may say after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Query {
        id: String,
        text: String,
    },
    /// 1.2.
    Ask {
        name: String,
        payload: String,
    },
    /// 1.2, of a connection with a ring: so many more bytes of it have been copied out.
    Freed(i64),
}

impl Request {
    pub fn write(&self) -> Vec<u8> {
        let (flag, first, second) = match self {
            Request::Query { id, text } => (flag::HEADER, id, text),
            Request::Ask { name, payload } => (flag::ASK, name, payload),
            Request::Freed(bytes) => return pair(flag::FREED, *bytes).to_vec(),
        };
        let mut out = Vec::with_capacity(24 + first.len() + second.len());
        put_number(&mut out, flag);
        put_bytes(&mut out, first.as_bytes());
        put_bytes(&mut out, second.as_bytes());
        out
    }

    /// Reads the next one. `None`: the client has hung up between two.
    pub fn read(input: &mut impl Read, extended: bool) -> Result<Option<Self>, Fault> {
        let first = match number(input) {
            Err(Fault::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(None)
            }
            first => first?,
        };
        match first {
            flag::HEADER => Ok(Some(Request::Query {
                id: text(input, "the query id", LONGEST_NAME)?,
                text: text(input, "the query", LONGEST_QUERY)?,
            })),
            flag::ASK if extended => Ok(Some(Request::Ask {
                name: text(input, "the question's name", LONGEST_NAME)?,
                payload: text(input, "the question", LONGEST_QUERY)?,
            })),
            flag::FREED if extended => Ok(Some(Request::Freed(number(input)?))),
            other => wrong(format!("a message with flag {other}; a query has 0")),
        }
    }
}

/// A flag and a number.
pub(super) fn pair(flag: i64, number: i64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&flag.to_be_bytes());
    out[8..].copy_from_slice(&number.to_be_bytes());
    out
}

pub(super) fn put_number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

fn number(input: &mut impl Read) -> Result<i64, Fault> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(i64::from_be_bytes(bytes))
}

fn text(input: &mut impl Read, what: &str, longest: usize) -> Result<String, Fault> {
    let announced = number(input)?;
    let length = match usize::try_from(announced) {
        Ok(length) if length <= longest => length,
        _ => {
            return wrong(format!(
                "{what} has a size of {announced} bytes; possible are 0 to {longest}"
            ))
        }
    };
    // Grows as the bytes come.
    let mut bytes = Vec::with_capacity(length.min(4096));
    if input.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    String::from_utf8(bytes).or_else(|_| wrong(format!("{what} is not UTF-8")))
}

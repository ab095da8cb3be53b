//! Flight SQL's messages (FlightSql.proto), as far as Venturi speaks them: each travels in a
//! `google.protobuf.Any` where Flight has a command, the body of an action or of its result.
//!
//! Written out as `proto.rs` is; the tests compare their bytes with those of arrow-flight 60.1.

use prost::Message;

use super::proto::FlightDescriptor;
use crate::error::{Error, Result};

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

const TYPES: &str = "type.googleapis.com/arrow.flight.protocol.sql.";

/// A message that travels in an `Any`.
pub trait SqlMessage: Message + Default {
    const NAME: &'static str;

    /// As the body of an action has it.
    fn packed(&self) -> Vec<u8> {
        Any {
            type_url: format!("{TYPES}{}", Self::NAME),
            value: self.encode_to_vec(),
        }
        .encode_to_vec()
    }

    fn unpacked(bytes: &[u8]) -> Result<Self> {
        let broken = |error| Error::protocol(format!("{}: {error}", Self::NAME));
        let any = Any::decode(bytes).map_err(broken)?;
        // Whatever stands before the slash is no part of the name.
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        if name != format!("arrow.flight.protocol.sql.{}", Self::NAME) {
            let said: String = name.chars().take(80).collect();
            return Err(Error::protocol(format!(
                "{said:?} came where {} was to come",
                Self::NAME
            )));
        }
        Self::decode(&any.value[..]).map_err(broken)
    }

    /// As GetFlightInfo and DoPut are asked.
    fn descriptor(&self) -> FlightDescriptor {
        FlightDescriptor::command(self.packed())
    }
}

macro_rules! named {
    ($($message:ident),* $(,)?) => {
        $(impl SqlMessage for $message {
            const NAME: &'static str = stringify!($message);
        })*
    };
}

named!(
    ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult,
    CommandGetSqlInfo,
    CommandGetTables,
    CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate,
    CommandStatementIngest,
    CommandStatementQuery,
    CommandStatementUpdate,
);

/// What a server is asked of itself.
pub mod sql_info {
    pub const SERVER_NAME: u32 = 0;
    pub const SERVER_VERSION: u32 = 1;
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandGetSqlInfo {
    #[prost(uint32, repeated, tag = "1")]
    pub info: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandGetTables {
    /// May have `%` and `_`, as LIKE has them.
    #[prost(string, optional, tag = "3")]
    pub table_name_filter_pattern: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandStatementQuery {
    #[prost(string, tag = "1")]
    pub query: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandStatementUpdate {
    #[prost(string, tag = "1")]
    pub query: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandPreparedStatementQuery {
    #[prost(bytes = "vec", tag = "1")]
    pub prepared_statement_handle: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandPreparedStatementUpdate {
    #[prost(bytes = "vec", tag = "1")]
    pub prepared_statement_handle: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActionCreatePreparedStatementRequest {
    #[prost(string, tag = "1")]
    pub query: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActionCreatePreparedStatementResult {
    #[prost(bytes = "vec", tag = "1")]
    pub prepared_statement_handle: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub dataset_schema: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub parameter_schema: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActionClosePreparedStatementRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub prepared_statement_handle: Vec<u8>,
}

/// What an ingest does where its table is missing, and where it is there.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TableDefinitionOptions {
    #[prost(int32, tag = "1")]
    pub if_not_exist: i32,
    #[prost(int32, tag = "2")]
    pub if_exists: i32,
}

impl TableDefinitionOptions {
    const MISSING_FAIL: i32 = 2;
    const EXISTS_APPEND: i32 = 2;

    /// The table is there, and is added to.
    pub fn append() -> Self {
        Self {
            if_not_exist: Self::MISSING_FAIL,
            if_exists: Self::EXISTS_APPEND,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommandStatementIngest {
    #[prost(message, optional, tag = "1")]
    pub table_definition_options: Option<TableDefinitionOptions>,
    #[prost(string, tag = "2")]
    pub table: String,
}

/// What a DoPut of an update or an ingest answers; not in an `Any`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DoPutUpdateResult {
    /// -1: it is not known.
    #[prost(int64, tag = "1")]
    pub record_count: i64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes that arrow-flight makes of a message's `Any`, whose value these are.
    fn is<T: SqlMessage + PartialEq>(ours: T, length: u8, value: &[u8]) {
        let name = format!("type.googleapis.com/arrow.flight.protocol.sql.{}", T::NAME);
        let theirs = [
            &[10, length],
            name.as_bytes(),
            &[18, value.len() as u8],
            value,
        ]
        .concat();
        assert_eq!(
            ours.packed().escape_ascii().to_string(),
            theirs.escape_ascii().to_string()
        );
        assert!(T::unpacked(&theirs).unwrap() == ours);
    }

    #[test]
    fn the_messages_are_those_of_arrow_flight() {
        let query = || "SELECT 1".to_owned();
        let handle = || vec![7, 8];
        is(
            CommandStatementQuery { query: query() },
            67,
            b"\n\x08SELECT 1",
        );
        is(
            CommandStatementUpdate { query: query() },
            68,
            b"\n\x08SELECT 1",
        );
        let prepared_statement_handle = handle();
        let prepared = CommandPreparedStatementQuery {
            prepared_statement_handle,
        };
        is(prepared, 75, b"\n\x02\x07\x08");
        let prepared_statement_handle = handle();
        let prepared = CommandPreparedStatementUpdate {
            prepared_statement_handle,
        };
        is(prepared, 76, b"\n\x02\x07\x08");
        let request = ActionCreatePreparedStatementRequest { query: query() };
        is(request, 82, b"\n\x08SELECT 1");
        let result = ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle(),
            dataset_schema: vec![1],
            parameter_schema: vec![2],
        };
        is(result, 81, b"\n\x02\x07\x08\x12\x01\x01\x1a\x01\x02");
        let prepared_statement_handle = handle();
        let closing = ActionClosePreparedStatementRequest {
            prepared_statement_handle,
        };
        is(closing, 81, b"\n\x02\x07\x08");
        let info = vec![0, 300];
        is(CommandGetSqlInfo { info }, 63, b"\n\x03\x00\xac\x02");
        let table_name_filter_pattern = Some("t".to_owned());
        is(
            CommandGetTables {
                table_name_filter_pattern,
            },
            62,
            b"\x1a\x01t",
        );
        let ingest = CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions::append()),
            table: "t".into(),
        };
        is(ingest, 68, b"\n\x04\x08\x02\x10\x02\x12\x01t");
        let unknown = [&[8][..], &[255; 9], &[1]].concat();
        assert_eq!(
            DoPutUpdateResult::decode(&unknown[..])
                .unwrap()
                .record_count,
            -1
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ActionCreatePreparedStatementResult::unpacked(&bytes);
            let _ = DoPutUpdateResult::decode(&bytes[..]);
        }
    }

    #[test]
    fn another_message_is_refused_by_its_name() {
        let other = CommandStatementQuery {
            query: "SELECT 1".into(),
        };
        let refused = ActionCreatePreparedStatementResult::unpacked(&other.packed()).unwrap_err();
        assert!(
            refused.message.contains("sql.CommandStatementQuery"),
            "{refused}"
        );
    }
}

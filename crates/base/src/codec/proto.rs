//! Flight's small messages (Flight.proto), as far as Venturi speaks them.
//!
//! Written out because generated crates bring a whole gRPC stack with them; the tests
//! compare them, byte for byte, with arrow-flight's. `FlightData` is in `flight.rs`.

use prost::Message;

pub mod descriptor_type {
    pub const PATH: i32 = 1;
    pub const CMD: i32 = 2;
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct FlightDescriptor {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub cmd: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    pub path: Vec<String>,
}

impl FlightDescriptor {
    pub fn path(path: Vec<String>) -> Self {
        Self {
            r#type: descriptor_type::PATH,
            path,
            ..Default::default()
        }
    }

    pub fn command(cmd: Vec<u8>) -> Self {
        Self {
            r#type: descriptor_type::CMD,
            cmd,
            ..Default::default()
        }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ticket {
    #[prost(bytes = "vec", tag = "1")]
    pub ticket: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Location {
    #[prost(string, tag = "1")]
    pub uri: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct FlightEndpoint {
    #[prost(message, optional, tag = "1")]
    pub ticket: Option<Ticket>,
    #[prost(message, repeated, tag = "2")]
    pub location: Vec<Location>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct FlightInfo {
    #[prost(bytes = "vec", tag = "1")]
    pub schema: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub flight_descriptor: Option<FlightDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub endpoint: Vec<FlightEndpoint>,
    #[prost(int64, tag = "4")]
    pub total_records: i64,
    #[prost(int64, tag = "5")]
    pub total_bytes: i64,
    #[prost(bool, tag = "6")]
    pub ordered: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Action {
    #[prost(string, tag = "1")]
    pub r#type: String,
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}

/// One result of an action; `PutResult` and `SchemaResult` have the same shape.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    pub bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActionType {
    #[prost(string, tag = "1")]
    pub r#type: String,
    #[prost(string, tag = "2")]
    pub description: String,
}

/// Request and response of Handshake alike.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Handshake {
    #[prost(uint64, tag = "1")]
    pub protocol_version: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of arrow-flight 60.1.
    #[test]
    fn the_bytes_are_those_of_arrow_flight() {
        let info = FlightInfo {
            schema: vec![1, 2],
            flight_descriptor: Some(FlightDescriptor::path(vec!["a".into(), "b".into()])),
            endpoint: vec![FlightEndpoint {
                ticket: Some(Ticket { ticket: vec![9] }),
                location: vec![Location {
                    uri: "grpc://h:1".into(),
                }],
            }],
            total_records: 7,
            total_bytes: -1,
            ordered: true,
        };
        let action = Action {
            r#type: "ping".into(),
            body: vec![3],
        };
        let theirs = b"\n\x02\x01\x02\x12\x08\x08\x01\x1a\x01a\x1a\x01b\x1a\x13\n\x03\n\x01\t\x12\x0c\n\ngrpc://h:1\
            \x20\x07(\xff\xff\xff\xff\xff\xff\xff\xff\xff\x010\x01";
        assert_eq!(info.encode_to_vec(), theirs);
        assert_eq!(FlightInfo::decode(&theirs[..]).unwrap(), info);
        let command = FlightDescriptor::command(vec![5]);
        assert_eq!(command.encode_to_vec(), b"\x08\x02\x12\x01\x05");
        assert_eq!(action.encode_to_vec(), b"\n\x04ping\x12\x01\x03");
        // PutResult, SchemaResult and Result alike.
        assert_eq!(Bytes { bytes: vec![4] }.encode_to_vec(), b"\n\x01\x04");
    }
}

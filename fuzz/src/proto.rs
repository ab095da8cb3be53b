//! Flight's small messages and those of the perf protocol.

use prost::Message;
use venturi_core::codec::perf::{Perf, Token};
use venturi_core::codec::proto::{
    Action, ActionType, Bytes, FlightDescriptor, FlightInfo, Handshake, Ticket,
};

fn check<T: Message + Default + PartialEq>(bytes: &[u8]) {
    if let Ok(message) = T::decode(bytes) {
        let again = message.encode_to_vec();
        assert!(T::decode(&again[..]).is_ok_and(|decoded| decoded == message));
    }
}

pub fn run(bytes: &[u8]) {
    check::<Perf>(bytes);
    check::<Token>(bytes);
    check::<FlightDescriptor>(bytes);
    check::<FlightInfo>(bytes);
    check::<Action>(bytes);
    check::<ActionType>(bytes);
    check::<Bytes>(bytes);
    check::<Handshake>(bytes);
    check::<Ticket>(bytes);
}

//! `opentsdb://`: `put` lines over TCP.

use super::options::Words;
use super::{Counts, Protocol, Transport};

pub const TCP: Protocol = Protocol {
    scheme: "opentsdb",
    port: 4242,
    databases: false,
    http_port: 8181,
    counting_port: 0,
    protocol: "opentsdb",
    transport: Transport::Tcp,
    dialect: Words::OpenTsdb,
    flush: "flush\n",
    flushed: "ok ",
    counts: Counts::Nobody,
};

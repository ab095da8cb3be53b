//! What differs from one protocol to the other.

use super::options::Words;

/// How bytes get to a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
    Http,
}

/// Who counts a system's points by metric, besides the reference store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Nobody,
    Akumuli,
    /// Whoever says of itself that it can (`counters`).
    Recognised,
}

/// What differs from one system to the other.
#[derive(Debug)]
pub struct Protocol {
    /// Of its URLs.
    pub scheme: &'static str,
    /// Where it listens as a rule.
    pub port: u16,
    /// A URL must name a database.
    pub databases: bool,
    /// Where the reference store, and who else, tells what it holds; 0: where it listens.
    pub http_port: u16,
    /// Where somebody else may tell it, if the system is where it is as a rule; 0: nowhere.
    pub counting_port: u16,
    /// As the record calls it.
    pub protocol: &'static str,
    pub transport: Transport,
    pub dialect: Words,
    /// How the reference store is asked whether it has everything, and what it answers before
    /// the number of points.
    pub flush: &'static str,
    pub flushed: &'static str,
    pub counts: Counts,
}

/// `akumuli://`: RESP over TCP.
pub const AKUMULI: Protocol = Protocol {
    scheme: "akumuli",
    port: 8282,
    databases: false,
    http_port: 8181,
    counting_port: 0,
    protocol: "resp",
    transport: Transport::Tcp,
    dialect: Words::Resp,
    flush: "+FLUSH\r\n",
    flushed: "+OK ",
    counts: Counts::Akumuli,
};

/// `akumuli+udp://`: the same in datagrams.
pub const AKUMULI_UDP: Protocol = Protocol {
    scheme: "akumuli+udp",
    port: 8383,
    protocol: "resp-udp",
    transport: Transport::Udp,
    ..AKUMULI
};

/// `opentsdb://`: `put` lines over TCP.
pub const OPENTSDB: Protocol = Protocol {
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

/// `influx://`: line protocol over TCP.
pub const INFLUX: Protocol = Protocol {
    scheme: "influx",
    port: 9009,
    databases: false,
    http_port: 8181,
    counting_port: 9000, // QuestDB's
    protocol: "influx",
    transport: Transport::Tcp,
    dialect: Words::Influx,
    flush: "#flush\n",
    flushed: "ok ",
    counts: Counts::Recognised,
};

/// `influx+http://`: the same as requests to write.
pub const INFLUX_HTTP: Protocol = Protocol {
    scheme: "influx+http",
    port: 8086,
    databases: true,
    http_port: 0, // the URL's own
    counting_port: 0,
    protocol: "influx-http",
    transport: Transport::Http,
    ..INFLUX
};

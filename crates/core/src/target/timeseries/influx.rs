//! `influx://`: line protocol over TCP.

use super::options::Words;
use super::System;

pub const TCP: System = System {
    scheme: "influx",
    port: 9009,
    databases: false,
    http_port: 8181,
    protocol: "influx",
    dialect: Words::Influx,
    flush: "#flush\n",
    flushed: "ok ",
    counts: false,
};

//! What each fuzz target does with an input: it panics where something is wrong. `fuzz_targets/`
//! gives these functions to libFuzzer; `cargo test` gives them what fuzzers have kept
//! (`crates/core/tests/it/corpus.rs`).

pub mod arrow_http;
mod asked;
pub mod assembler;
pub mod charrow_client;
pub mod charrow_ring;
pub mod charrow_server;
pub mod clickhouse;
pub mod connection;
pub mod cql_rows;
pub mod decimal;
pub mod hpack;
pub mod http1;
pub mod ipc;
pub mod ipc_stream;
pub mod kept;
pub mod mysql;
pub mod mysql_rows;
pub mod parquet;
pub mod points;
pub mod postgres_copy;
pub mod proto;
pub mod seeds;
pub mod store_http;
pub mod url;

pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 21] = [
    ("arrow_http", arrow_http::run),
    ("assembler", assembler::run),
    ("charrow_client", charrow_client::run),
    ("charrow_ring", charrow_ring::run),
    ("charrow_server", charrow_server::run),
    ("clickhouse", clickhouse::run),
    ("connection", connection::run),
    ("cql_rows", cql_rows::run),
    ("decimal", decimal::run),
    ("hpack", hpack::run),
    ("http1", http1::run),
    ("ipc", ipc::run),
    ("ipc_stream", ipc_stream::run),
    ("mysql", mysql::run),
    ("mysql_rows", mysql_rows::run),
    ("parquet", parquet::run),
    ("points", points::run),
    ("postgres_copy", postgres_copy::run),
    ("proto", proto::run),
    ("store_http", store_http::run),
    ("url", url::run),
];

/// The first byte, and the rest.
fn first(input: &[u8]) -> (u8, &[u8]) {
    match input.split_first() {
        Some((first, rest)) => (*first, rest),
        None => (0, input),
    }
}

/// Two inputs in one: a byte that is the first one's length stands before both.
fn two(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = first(input);
    rest.split_at(usize::from(length).min(rest.len()))
}

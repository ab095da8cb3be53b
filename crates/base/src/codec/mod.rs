//! Batches <-> bytes. No sockets, no clocks; one file a format.

pub mod account;
pub mod budget;
pub mod calendar;
pub mod charrow;
pub mod chunk;
pub mod clickhouse;
pub mod coding;
pub mod cql;
pub mod decimal;
pub mod flight;
pub mod flight_sql;
pub mod frame;
mod handles;
pub mod hpack;
pub mod ipc;
pub mod ipc_queue;
mod ipc_read;
pub mod ipc_stream;
mod ipc_unpack;
mod ipc_write;
pub mod mysql;
pub mod perf;
pub mod proto;
pub mod redis;
pub mod slab;
pub mod timeseries;

#[cfg(test)]
mod ipc_tests;

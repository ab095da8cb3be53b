//! What ClickHouse calls RowBinary and Native, as Arrow batches and back. No sockets, no clocks.
//!
//! A column's values lie in *cells* of one width, or are strings with their lengths before them.
//! `types` says which; `build` makes Arrow columns of cells and strings, `take` the other way.
//! RowBinary is the cells row by row, Native column by column.

pub mod build;
pub mod native;
pub mod rowbinary;
pub mod state_rows;
pub mod take;
pub mod text;
pub mod types;
pub mod varint;

pub use types::{Column, Type};

#[cfg(test)]
mod tests;

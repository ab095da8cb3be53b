//! What all databases share of a get: a query or a table, how streams share its rows, the session of one
//! stream, and what the database itself says of the rows, by which it is known that all have arrived.
//!
//! A database is `Reads`: it says what columns a query has, in what words its rows are parted, and gives
//! `Rows`: one statement's rows, decoded to batches as they come. `ReadTarget` leads its life as a target.

mod check;
mod columns;
mod options;
mod session;
mod split;
mod sums;
mod target;
mod unheld;

pub use check::{compare, compare_sums, total, Baseline};
pub use columns::{digest_of, distinct, distinct_names, same_types, schema, Column};
pub use options::{Reading, Split};
pub use session::{Checks, Counted, Counting, Partition, Rows};
pub use split::{by_hash, by_ranges, by_rowid, edges, edges_of, Subject};
pub use sums::{wrapped, Summed, SUMMED_DIGITS};
pub use target::{Question, ReadTarget, Reads};
pub use unheld::{infinite, large, midnight, out_of_range};

use venturi_base::spec::Operation;

/// The table that our own data are written into before the clock starts.
pub const OWN_TABLE: &str = "venturi_get";

/// The table of a get or a put where none is named.
pub fn own_table(operation: Operation) -> &'static str {
    match operation {
        Operation::Put => "venturi_put",
        _ => OWN_TABLE,
    }
}

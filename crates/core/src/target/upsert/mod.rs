//! What all databases share: statements of a working set, one call at a time on a lane, and
//! the sums by which it is known afterwards that every acknowledged row is there once.
//!
//! A database supplies three things: a `Builder` (rows -> its statement, no input or output),
//! an `Executor` (a connection that executes one statement at a time) and, in its `Target`,
//! what is there before and after (`Found`).

mod calls;
mod check;
mod named;
mod work;

#[cfg(test)]
mod tests;

pub use calls::{Calls, Executing, Executor};
pub use check::{compare, Effect, Found};
pub use named::{default_name, is_own, occupied, read_options};
pub use work::{Builder, Prepared, Share, Work};

//! What all databases share: where they are, who logs in and the common options; statements of a
//! working set, one call at a time on a lane, and the sums by which it is known afterwards that
//! every acknowledged row is there once.
//!
//! A database supplies three things: a `Builder` (rows -> its statement, no input or output),
//! an `Executor` (a connection that executes one statement at a time) and, in its `Target`,
//! what is there before and after (`Found`). An SQL database need not be a `Target` itself: it is
//! `Upserts`, whose life `SqlTarget` leads.

mod calls;
mod check;
mod named;
mod place;
mod sample;
mod sql;
mod work;

#[cfg(test)]
mod tests;

pub use super::hosts::Host;
pub use calls::{Calls, Executing, Executor, Waits};
pub use check::{compare, merged_note, unread_note, Effect, Found, Written};
pub use named::{is_own, name_of, occupied, Common, Method, StatementKind};
pub use place::{file_of, Form, Login, Place};
pub use sample::read_back;
pub use sql::{SqlTarget, Upserts};
pub use work::{Builder, Prepared, Share, Work};

//! A partition's place in a query, and what it is dealt there.

use venturi_base::codec::charrow::messages::Wrapped;
use venturi_base::codec::charrow::statistics::Dealt;
use venturi_base::error::Error;

/// A block that is encoded and not dealt yet.
pub struct Block {
    pub wrapped: Wrapped,
    pub rows: u64,
    pub payload: u64,
    pub digest: u64,
}

/// What a partition is told when it asks for more.
pub enum Deal {
    Block(Block),
    /// All blocks have been dealt.
    End,
    Failed(Error),
    /// Nothing for now: look whether the client still lives, and ask again.
    Nothing,
}

/// One partition's place in a query.
#[derive(Debug)]
pub struct Seat {
    /// For messages: the client's own number, or the order in which they came.
    pub name: String,
    pub index: u64,
    /// The client said which one it is.
    pub numbered: bool,
    pub dealt: Dealt,
}

/// How a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It has had its end.
    Served,
    /// It wants no more, and has said so: what it has not read it drops on purpose.
    Satisfied,
    /// It is gone.
    Lost,
}

//! Points as text, in the words of three protocols: RESP as Akumuli reads it, OpenTSDB's `put`,
//! Influx line protocol. No sockets, no clocks.

mod influx;
mod lines;
mod opentsdb;
pub mod parse;
mod resp;
mod stamp;

#[cfg(test)]
mod tests;

use super::decimal::{integer, seventeen, shortest, LONGEST, ROOM};
use crate::data::points::{Block, Layout};
use crate::error::{Error, Result};

pub use influx::{Influx, Names};
pub use lines::{end_of_lines, lines};
pub use opentsdb::OpenTsdb;
pub use resp::{Form, Resp};

/// How a value that is no integer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Digits {
    /// As C's `%.17g`.
    #[default]
    Seventeen,
    /// As few as read back as the same value.
    Shortest,
}

/// One protocol's words for the points of one layout, made once.
#[derive(Debug, Clone)]
pub enum Writer {
    Resp(Resp),
    OpenTsdb(OpenTsdb),
    Influx(Influx),
}

impl Writer {
    /// Writes all rows of a block behind what is in `out`.
    pub fn write(&mut self, block: &Block, layout: &Layout, out: &mut Text) {
        match self {
            Self::Resp(writer) => writer.write(block, layout, out),
            Self::OpenTsdb(writer) => writer.write(block, layout, out),
            Self::Influx(writer) => writer.write(block, layout, out),
        }
    }

    /// What a connection must be sent before all else.
    pub fn preamble(&self, layout: &Layout) -> Vec<u8> {
        match self {
            Self::Resp(writer) => writer.preamble(layout),
            _ => Vec::new(),
        }
    }
}

/// Names and tags are written as they are: what would end them must not be in them.
pub fn is_plain(name: &str) -> bool {
    let special =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '=' | ',' | '|' | '"');
    !name.is_empty() && !name.contains(special) && !name.starts_with([':', '*', '+', '#'])
}

/// Refuses names that a protocol could not carry.
pub fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for name in names {
        if !is_plain(name) {
            return Err(Error::usage(format!(
                "{name:?} cannot be the name of a metric or tag: blanks, = , | \" and a leading : * + # have a meaning in the protocols; rename the column"
            )));
        }
    }
    Ok(())
}

/// Whole messages, one behind the other, and where each ends.
#[derive(Debug, Clone, Default)]
pub struct Text {
    /// Written as far as `used`; what is behind is room.
    bytes: Vec<u8>,
    used: usize,
    /// Where each message ends, and the points up to there.
    ends: Vec<(usize, u64)>,
    /// Of text that was not written here: lines of a message, and points.
    message: Option<(u64, u64)>,
}

impl Text {
    pub fn clear(&mut self) {
        self.used = 0;
        self.ends.clear();
        self.message = None;
    }

    /// Takes whole messages as they are, of so many lines and points each. Returns the bytes
    /// that were there before.
    pub fn replace(&mut self, bytes: Vec<u8>, message: (u64, u64)) -> Vec<u8> {
        self.ends.clear();
        self.used = bytes.len();
        self.message = Some(message);
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Where the last message ends that begins at `from` or later and ends within so many bytes
    /// of it. `None`: not one does.
    pub fn cut(&self, from: usize, most: usize) -> Option<usize> {
        let until = self.used.min(from.saturating_add(most));
        if let Some((each, _)) = self.message {
            let there = lines(&self.bytes[from..until]) as u64;
            let whole = (there - there % each) as usize;
            let end = end_of_lines(&self.bytes[from..until], whole).ok()?;
            return (end > 0).then_some(from + end);
        }
        let whole = self.ends.partition_point(|end| end.0 <= until);
        let end = self.ends[..whole].last()?.0;
        (end > from).then_some(end)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Where each message ends, and how many points there are up to there.
    pub fn ends(&self) -> &[(usize, u64)] {
        &self.ends
    }

    /// Bytes that it keeps, used or not.
    pub fn size(&self) -> usize {
        self.bytes.capacity() + size_of_val(&self.ends[..])
    }

    pub fn shrink(&mut self) {
        self.bytes.truncate(self.used);
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub fn points(&self) -> u64 {
        self.ends.last().map_or(0, |end| end.1)
    }

    /// The points of the messages that are whole in the first so many bytes.
    pub fn points_within(&self, bytes: usize) -> u64 {
        if let Some((each, points)) = self.message {
            return lines(&self.bytes[..bytes]) as u64 / each * points;
        }
        let whole = self.ends.partition_point(|end| end.0 <= bytes);
        self.ends[..whole].last().map_or(0, |end| end.1)
    }

    /// Room for so many bytes more, and for a number behind them.
    #[inline]
    fn room(&mut self, bytes: usize) {
        let wanted = self.used + bytes + ROOM;
        if wanted > self.bytes.len() {
            self.bytes.resize(wanted.max(2 * self.bytes.len()), 0);
        }
    }

    /// What follows needs room that was asked for.
    #[inline]
    fn put(&mut self, text: &[u8]) {
        self.bytes[self.used..self.used + text.len()].copy_from_slice(text);
        self.used += text.len();
    }

    /// A short text, in one go.
    #[inline]
    fn put_short<const N: usize>(&mut self, text: [u8; N]) {
        self.bytes[self.used..self.used + N].copy_from_slice(&text);
        self.used += N;
    }

    #[inline]
    fn number(&mut self, write: impl FnOnce(&mut [u8; ROOM]) -> usize) {
        if let Some(room) = self.bytes[self.used..].first_chunk_mut() {
            self.used += write(room);
        }
    }

    #[inline]
    fn put_value(&mut self, value: f64, whole: bool, digits: Digits) {
        self.number(|room| match (whole, digits) {
            (true, _) => integer(value as i64, room),
            (false, Digits::Seventeen) => seventeen(value, room),
            (false, Digits::Shortest) => shortest(value, room),
        });
    }

    /// A message ends here.
    #[inline]
    fn end(&mut self, points: u64) {
        let before = self.points();
        self.ends.push((self.used, before + points));
    }
}

/// Bytes of a value at most, with what stands around it.
const VALUE: usize = LONGEST + 4;

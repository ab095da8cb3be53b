//! Text of the three line protocols -> points, in place and a message at a time.
//!
//! A parser is given what has arrived and takes the whole messages off its front; the
//! rest it will see again, with more behind it. It keeps nothing but what the protocol
//! itself remembers, so that an idle connection costs nearly nothing. Where the points
//! go is behind [`Sink`]: groups, each the series of one message's columns.

mod digits;
pub mod influx;
pub mod number;
pub mod opentsdb;
pub mod resp;
pub mod series;
pub mod time;

#[cfg(test)]
mod tests;

/// The longest line that is read, without its end. Akumuli's own bound.
pub const LINE: usize = 1024;
/// The most columns of a compound name.
pub const COLUMNS: usize = 256;
/// The longest message: a compound name, its stamp and a row of lines.
pub const MESSAGE: usize = 64 * 1024;

/// Why a connection is told no. Nothing of the message that caused it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The text is not the protocol's: why, and which text.
    Parser { why: String, text: String },
    /// A point before the last one of its series.
    Late { series: String },
    /// The store cannot take it: full, or broken.
    Store(String),
}

impl Wrong {
    pub fn parser(why: impl Into<String>, text: &[u8]) -> Self {
        let end = text.iter().position(|&byte| byte == b'\n');
        let line = text[..end.unwrap_or(text.len())].trim_ascii_end();
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]);
        // One line of an answer: nothing in it may look like another one.
        let text = shown.replace(|c: char| c.is_control(), "?");
        Self::Parser {
            why: why.into(),
            text,
        }
    }
}

pub type Result<T> = std::result::Result<T, Wrong>;

/// What the connection has to do before the parser goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read more.
    Read,
    /// Answer when all that came before is durable.
    Flush,
    /// Say who we are.
    Hello,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes off the front that are done with.
    pub consumed: usize,
    pub step: Step,
}

/// A group's number, good until the sink's next [`Sink::define`] after a pause.
pub type Group = u32;

/// Where points go.
pub trait Sink {
    /// The group that is likely to come next, as producers go round. It is one of the parser's own
    /// protocol: what is like its key is taken without a closer look.
    fn guess(&self) -> Option<Group>;
    /// The text that stands for a group, and where the protocol cut it.
    fn key(&self, group: Group) -> (&[u8], &[u32]);
    fn find(&self, key: &[u8]) -> Option<Group>;
    /// Makes a group of these series (canonical names), one a column.
    fn define(&mut self, key: &[u8], cuts: &[u32], series: &[Vec<u8>]) -> Result<Group>;
    fn width(&self, group: Group) -> usize;
    /// Takes a row whole or not at all.
    fn push(&mut self, group: Group, time: i64, values: &[f64]) -> Result<()>;
    /// Nanoseconds since the epoch, for points without a stamp.
    fn now(&self) -> i64;
}

/// Room that all parsers of a thread share.
#[derive(Debug)]
pub struct Scratch {
    values: Vec<f64>,
    key: Vec<u8>,
    cuts: Vec<u32>,
    resp: Stamp,
    opentsdb: Stamp,
    influx: Stamp,
}

/// A protocol's last stamp: many points share one.
#[derive(Debug, Default)]
struct Stamp {
    /// As it was written, with what ends it; empty: there was none.
    text: Vec<u8>,
    /// Nanoseconds that it counts, where the protocol leaves that open.
    unit: i64,
    time: i64,
}

impl Stamp {
    /// The length of this stamp, where it stands at the front of `input`.
    #[inline(always)]
    fn again(&self, input: &[u8], unit: i64) -> Option<usize> {
        let same = !self.text.is_empty() && self.unit == unit && begins(input, &self.text);
        same.then_some(self.text.len())
    }

    fn is(&mut self, text: &[u8], unit: i64, time: i64) {
        self.text.clear();
        self.text.extend_from_slice(text);
        (self.unit, self.time) = (unit, time);
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            values: vec![0.0; COLUMNS],
            key: Vec::new(),
            cuts: Vec::new(),
            resp: Stamp::default(),
            opentsdb: Stamp::default(),
            influx: Stamp::default(),
        }
    }
}

/// Whether a text begins with another one. Short ones are compared as two words that overlap,
/// which is less work than a call.
#[inline(always)]
fn begins(text: &[u8], with: &[u8]) -> bool {
    #[inline(always)]
    fn words<const N: usize>(one: &[u8], other: &[u8]) -> bool {
        one.first_chunk::<N>() == other.first_chunk() && one.last_chunk::<N>() == other.last_chunk()
    }
    let Some(text) = text.get(..with.len()) else {
        return false;
    };
    match with.len() {
        2..=3 => words::<2>(text, with),
        4..=7 => words::<4>(text, with),
        8..=15 => words::<8>(text, with),
        16..=32 => words::<16>(text, with),
        _ => text == with,
    }
}

/// A line from `at`: its text without its end, and where the next one begins. None: it
/// has not arrived whole.
fn line(input: &[u8], at: usize, limit: usize) -> Result<Option<(&[u8], usize)>> {
    let rest = &input[at..];
    let seen = &rest[..rest.len().min(limit + 2)];
    match seen.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            let text = &rest[..end];
            Ok(Some((
                text.strip_suffix(b"\r").unwrap_or(text),
                at + end + 1,
            )))
        }
        None if rest.len() >= limit + 2 => Err(Wrong::parser(
            format!("a line is longer than {limit} bytes"),
            rest,
        )),
        None => Ok(None),
    }
}

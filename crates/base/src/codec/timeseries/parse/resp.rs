//! Akumuli's RESP: a series line, a stamp, a value or a row of values.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use super::{digits, line, number, series, time};
use super::{Group, Progress, Result, Scratch, Sink, Step, Wrong, LINE, MESSAGE};

/// Names that connections may give numbers to, over all connections.
pub type Room = Arc<AtomicUsize>;

/// What one connection has said that later messages lean on.
#[derive(Debug)]
pub struct Reader {
    started: bool,
    /// Pairs of the dictionary that are still to come.
    values_to_come: u64,
    dictionary: HashMap<u64, Box<[u8]>>,
    room: Room,
}

/// What stood at the front.
enum Found {
    Points { end: usize },
    Asked { end: usize, step: Step },
    Partial,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.room
            .fetch_add(self.dictionary.len(), Ordering::Relaxed);
    }
}

impl Reader {
    pub fn new(room: Room) -> Self {
        Self {
            started: false,
            values_to_come: 0,
            dictionary: HashMap::new(),
            room,
        }
    }

    /// Takes the whole messages off the front of `input`. After an error the connection
    /// is of no use; what came before the message in error has been pushed.
    pub fn read<S: Sink>(
        &mut self,
        input: &[u8],
        sink: &mut S,
        scratch: &mut Scratch,
    ) -> Result<Progress> {
        let mut consumed = 0;
        let mut step = Step::Read;
        while step == Step::Read && consumed < input.len() {
            match self.message(&input[consumed..], sink, scratch)? {
                Found::Points { end } => consumed += end,
                Found::Asked { end, step: asked } => {
                    consumed += end;
                    step = asked;
                }
                Found::Partial if input.len() - consumed > MESSAGE => {
                    let why = format!("a message is longer than {MESSAGE} bytes");
                    return Err(Wrong::parser(why, &input[consumed..]));
                }
                Found::Partial => break,
            }
        }
        Ok(Progress { consumed, step })
    }

    #[inline]
    fn message<S: Sink>(
        &mut self,
        input: &[u8],
        sink: &mut S,
        scratch: &mut Scratch,
    ) -> Result<Found> {
        let guessed = sink
            .guess()
            .map(|group| (group, sink.key(group).0))
            .filter(|(_, key)| self.values_to_come == 0 && input.starts_with(key))
            .map(|(group, key)| (group, key.len()));
        let (group, at) = match guessed {
            Some(found) => found,
            None => match self.series(input, sink)? {
                Named::Group(group, at) => (group, at),
                Named::Other(found) => return Ok(found),
            },
        };
        self.started = true;
        let Some(at) = stamp(input, at, scratch)? else {
            return Ok(Found::Partial);
        };
        let width = sink.width(group);
        let Some(end) = values(input, at, &mut scratch.values[..width])? else {
            return Ok(Found::Partial);
        };
        sink.push(group, scratch.resp.time, &scratch.values[..width])?;
        Ok(Found::Points { end })
    }

    /// The group that the first line names, or what else that line is.
    fn series<S: Sink>(&mut self, input: &[u8], sink: &mut S) -> Result<Named> {
        let Some((text, end)) = line(input, 0, LINE)? else {
            return Ok(Named::Other(Found::Partial));
        };
        if self.values_to_come > 0 {
            return self.entry(input, text, end, sink).map(Named::Other);
        }
        match text.split_first() {
            Some((b'+', b"FLUSH")) => Ok(question(end, Step::Flush)),
            Some((b'+', b"VENTURI")) => Ok(question(end, Step::Hello)),
            Some((b'+', name)) => group(&input[..end], name, sink).map(|it| Named::Group(it, end)),
            Some((b':', digits)) => {
                let key = time::nanoseconds(digits)
                    .and_then(|id| self.dictionary.get(&(id as u64)))
                    .ok_or_else(|| Wrong::parser("the dictionary has no such number", text))?;
                let name = key.trim_ascii_end().strip_prefix(b"+").unwrap_or_default();
                // Numbers come in turn as names do.
                let guessed = sink.guess().filter(|&it| sink.key(it).0 == &key[..]);
                let group = guessed.map_or_else(|| group(key, name, sink), Ok)?;
                Ok(Named::Group(group, end))
            }
            Some((b'*', digits)) if !self.started => {
                let size = time::nanoseconds(digits)
                    .filter(|size| size % 2 == 0)
                    .ok_or_else(|| {
                        Wrong::parser("a dictionary is pairs of name and number", text)
                    })?;
                self.values_to_come = size as u64 / 2;
                self.started = true;
                Ok(Named::Other(Found::Points { end }))
            }
            _ => Err(Wrong::parser("a series begins with + or :", text)),
        }
    }

    /// One pair of the dictionary.
    fn entry<S: Sink>(
        &mut self,
        input: &[u8],
        text: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Result<Found> {
        let Some(name) = text.strip_prefix(b"+") else {
            return Err(Wrong::parser("a name in a dictionary begins with +", text));
        };
        let Some((number, end)) = line(input, at, LINE)? else {
            return Ok(Found::Partial);
        };
        let id = number
            .strip_prefix(b":")
            .and_then(time::nanoseconds)
            .ok_or_else(|| Wrong::parser("a number in a dictionary begins with :", number))?;
        group(&input[..at], name, sink)?;
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        if taken.is_err() {
            let full = "the dictionaries of all connections are full; name the series instead";
            return Err(Wrong::Store(full.into()));
        }
        if self
            .dictionary
            .insert(id as u64, input[..at].into())
            .is_some()
        {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        self.values_to_come -= 1;
        Ok(Found::Points { end })
    }
}

enum Named {
    /// A group, and where its stamp begins.
    Group(Group, usize),
    Other(Found),
}

fn question(end: usize, step: Step) -> Named {
    Named::Other(Found::Asked { end, step })
}

fn group<S: Sink>(key: &[u8], name: &[u8], sink: &mut S) -> Result<Group> {
    match sink.find(key) {
        Some(group) => Ok(group),
        None => sink.define(key, &[], &series::of_resp(name)?),
    }
}

/// Reads a stamp into the scratch; where the values begin.
#[inline(always)]
fn stamp(input: &[u8], at: usize, scratch: &mut Scratch) -> Result<Option<usize>> {
    if let Some(length) = scratch.resp.again(&input[at..], 1) {
        return Ok(Some(at + length));
    }
    let Some((text, end)) = line(input, at, LINE)? else {
        return Ok(None);
    };
    let time = match text.split_first() {
        Some((b'+', text)) if text.contains(&b'T') => time::basic_iso(text),
        Some((b'+' | b':', digits)) => time::nanoseconds(digits),
        _ => None,
    };
    let time = time.ok_or_else(|| {
        Wrong::parser("no stamp: YYYYMMDDTHHMMSS[.fraction] or nanoseconds", text)
    })?;
    scratch.resp.is(&input[at..end], 1, time);
    Ok(Some(end))
}

/// Reads a value or a row of them; where the next message begins.
#[inline(always)]
fn values(input: &[u8], at: usize, values: &mut [f64]) -> Result<Option<usize>> {
    let mut at = at;
    if input.get(at) == Some(&b'*') {
        if let Some(length) = row(&input[at + 1..], values.len()) {
            at += 1 + length;
        } else {
            let Some((text, end)) = line(input, at, LINE)? else {
                return Ok(None);
            };
            if time::nanoseconds(&text[1..]) != Some(values.len() as i64) {
                let why = format!("a row of {} values was due", values.len());
                return Err(Wrong::parser(why, text));
            }
            at = end;
        }
    } else if values.len() != 1 {
        let Some((text, _)) = line(input, at, LINE)? else {
            return Ok(None);
        };
        let why = format!("a row of {} values was due", values.len());
        return Err(Wrong::parser(why, text));
    }
    for value in values {
        match input.get(at..).and_then(quick) {
            Some((found, length)) => {
                *value = found;
                at += length;
            }
            None => {
                let Some((text, end)) = line(input, at, LINE)? else {
                    return Ok(None);
                };
                *value = careful(text).ok_or_else(|| Wrong::parser("not a value", text))?;
                at = end;
            }
        }
    }
    Ok(Some(at))
}

/// The number of a row's values with its line's end; None: it takes a closer look.
#[inline(always)]
fn row(text: &[u8], width: usize) -> Option<usize> {
    let (found, length) = digits::parse_digits(text)?;
    (found == width as u64).then_some(length + ended(&text[length..])?)
}

/// A plain value with its line's end.
#[inline(always)]
fn quick(text: &[u8]) -> Option<(f64, usize)> {
    let (sign, text) = text.split_first()?;
    let (value, length) = match sign {
        b'+' => number::plain(text)?,
        b':' => digits::parse_digits(text).map(|(whole, length)| (whole as f64, length))?,
        _ => return None,
    };
    Some((value, 1 + length + ended(&text[length..])?))
}

/// The length of a line's end.
#[inline(always)]
fn ended(text: &[u8]) -> Option<usize> {
    match text {
        [b'\r', b'\n', ..] => Some(2),
        [b'\n', ..] => Some(1),
        _ => None,
    }
}

fn careful(text: &[u8]) -> Option<f64> {
    match text.split_first()? {
        (b'+', text) => number::parse(text),
        (b':', digits) => {
            let whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            whole.then(|| number::parse(digits)).flatten()
        }
        _ => None,
    }
}

//! Times as text, made once for all points of one time.

use crate::codec::calendar;
use crate::codec::decimal::{integer, ROOM};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The text of the time that was asked for last.
#[derive(Debug, Clone, Default)]
pub struct Stamp {
    of: Option<i64>,
    text: Vec<u8>,
}

impl Stamp {
    /// The text of `time_ns` as `write` makes it, unless it is there already.
    #[inline]
    pub fn of(&mut self, time_ns: i64, write: impl FnOnce(i64, &mut Vec<u8>)) -> &[u8] {
        if self.of != Some(time_ns) {
            self.of = Some(time_ns);
            self.text.clear();
            write(time_ns, &mut self.text);
        }
        &self.text
    }
}

/// `YYYYMMDDTHHMMSS`, and the fraction of a second where there is one.
pub fn iso(time_ns: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (time_ns.div_euclid(SECOND), time_ns.rem_euclid(SECOND));
    let mut text = Vec::with_capacity(32);
    calendar::date(seconds.div_euclid(DAY), &mut text);
    text.push(b'T');
    let digits = if fraction == 0 { 0 } else { 9 };
    calendar::time(seconds.rem_euclid(DAY), fraction, digits, &mut text);
    out.extend(text.into_iter().filter(|byte| !matches!(byte, b'-' | b':')));
}

/// Nanoseconds since the epoch.
pub fn nanoseconds(time_ns: i64, out: &mut Vec<u8>) {
    let mut room = [0; ROOM];
    let length = integer(time_ns, &mut room);
    out.extend_from_slice(&room[..length]);
}

/// Seconds since the epoch where they are whole, and fewer than 2^32; nanoseconds otherwise.
pub fn seconds(time_ns: i64, out: &mut Vec<u8>) {
    let whole = time_ns % SECOND == 0 && (0..SECOND << 32).contains(&time_ns);
    nanoseconds(if whole { time_ns / SECOND } else { time_ns }, out);
}

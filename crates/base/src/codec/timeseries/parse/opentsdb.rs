//! OpenTSDB's lines: `put metric stamp value tag=v ...`.

use super::{digits, line, number, series, time};
use super::{Progress, Result, Scratch, Sink, Step, Wrong, LINE};

/// Takes the whole lines off the front of `input`.
pub fn read<S: Sink>(input: &[u8], sink: &mut S, scratch: &mut Scratch) -> Result<Progress> {
    let mut consumed = 0;
    loop {
        if let Some(length) = usual(&input[consumed..], sink, scratch)? {
            consumed += length;
            continue;
        }
        let Some((text, end)) = line(input, consumed, LINE)? else {
            let step = Step::Read;
            return Ok(Progress { consumed, step });
        };
        consumed = end;
        match text {
            b"flush" => {
                let step = Step::Flush;
                return Ok(Progress { consumed, step });
            }
            b"" => {}
            _ => put(text, sink, scratch)?,
        }
    }
}

/// A line as the last round had it: the metric and the tags that are expected, a stamp
/// and a plain value. Its length with its end; None: it takes a closer look.
#[inline]
fn usual<S: Sink>(input: &[u8], sink: &mut S, scratch: &mut Scratch) -> Result<Option<usize>> {
    let Some(group) = sink.guess() else {
        return Ok(None);
    };
    let (key, cuts) = sink.key(group);
    let found = (|| {
        let (metric, tags) = key.split_at(*cuts.first()? as usize);
        let rest = input.strip_prefix(b"put ")?.strip_prefix(metric)?;
        let length = match scratch.opentsdb.again(rest, 0) {
            Some(length) => length,
            None => {
                let (count, length) = digits::parse_digits(rest)?;
                let time = time::of_seconds_or_nanoseconds(i64::try_from(count).ok()?);
                let stamp = rest.get(..=length)?;
                if !stamp.ends_with(b" ") {
                    return None;
                }
                scratch.opentsdb.is(stamp, 0, time);
                length + 1
            }
        };
        let rest = &rest[length..];
        let (value, length) = number::plain(rest)?;
        let rest = rest[length..].strip_prefix(tags)?.strip_prefix(b"\n")?;
        Some((value, input.len() - rest.len()))
    })();
    let Some((value, length)) = found else {
        return Ok(None);
    };
    sink.push(group, scratch.opentsdb.time, &[value])?;
    Ok(Some(length))
}

fn put<S: Sink>(text: &[u8], sink: &mut S, scratch: &mut Scratch) -> Result<()> {
    let mut rest = text;
    let mut word = || {
        rest = rest.trim_ascii_start();
        let length = rest.iter().position(u8::is_ascii_whitespace);
        let (word, left) = rest.split_at(length.unwrap_or(rest.len()));
        rest = left;
        word
    };
    if word() != b"put" {
        return Err(Wrong::parser("the only command is put", text));
    }
    let (metric, stamp, value) = (word(), word(), word());
    let time = time::seconds_or_nanoseconds(stamp)
        .ok_or_else(|| Wrong::parser("no stamp: seconds or nanoseconds", text))?;
    let value = number::parse(value).ok_or_else(|| Wrong::parser("not a value", text))?;
    if rest.trim_ascii().is_empty() {
        return Err(Wrong::parser("the series has no tag", text));
    }
    // As it stands around stamp and value, so that the next one is told at a glance.
    let key = &mut scratch.key;
    key.clear();
    key.extend_from_slice(metric);
    key.push(b' ');
    key.extend_from_slice(rest);
    let group = match sink.find(key) {
        Some(group) => group,
        None => {
            let name = series::of_opentsdb(metric, rest, text)?;
            sink.define(key, &[metric.len() as u32 + 1], &[name])?
        }
    };
    sink.push(group, time, &[value])
}

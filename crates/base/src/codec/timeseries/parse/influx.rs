//! Influx's line protocol: `measurement,tag=v field=1.5,field2=2i stamp`.
//!
//! Numbers are points; text and booleans are not, and are refused rather than dropped.

use super::{line, number, series, time};
use super::{Progress, Result, Scratch, Sink, Step, Wrong, COLUMNS, MESSAGE};

/// Takes the whole lines off the front of `input`; a stamp counts `unit` nanoseconds.
pub fn read<S: Sink>(
    input: &[u8],
    unit: i64,
    sink: &mut S,
    scratch: &mut Scratch,
) -> Result<Progress> {
    let mut consumed = 0;
    loop {
        if let Some(length) = usual(&input[consumed..], unit, sink, scratch)? {
            consumed += length;
            continue;
        }
        let Some((text, end)) = line(input, consumed, MESSAGE)? else {
            let step = Step::Read;
            return Ok(Progress { consumed, step });
        };
        consumed = end;
        match text.trim_ascii_start() {
            b"#flush" => {
                let step = Step::Flush;
                return Ok(Progress { consumed, step });
            }
            [] | [b'#', ..] => {}
            text => point(text, unit, sink, scratch)?,
        }
    }
}

/// A line whose measurement, tags and fields are the expected ones, all plain numbers.
/// Its length with its end; None: it takes a closer look.
#[inline]
fn usual<S: Sink>(
    input: &[u8],
    unit: i64,
    sink: &mut S,
    scratch: &mut Scratch,
) -> Result<Option<usize>> {
    let Some(group) = sink.guess() else {
        return Ok(None);
    };
    let width = sink.width(group);
    let (key, cut) = sink.key(group);
    let (head, fields) = key.split_at(cut);
    let found = (|| {
        if cut == 0 || !input.starts_with(head) {
            return None;
        }
        let mut at = head.len();
        let mut names = fields;
        for value in &mut scratch.values[..width] {
            // The name as the key has it, the equals sign included.
            let length = names.iter().position(|&byte| byte == b'=')? + 1;
            let (name, rest) = names.split_at(length);
            names = rest;
            let text = input[at..].strip_prefix(name)?;
            let (found, length) = number::plain(text)?;
            *value = found;
            at += name.len() + length;
            if matches!(input.get(at), Some(b'i' | b'u')) {
                at += usize::from(is_whole(&text[..length]));
            }
            let last = names.is_empty();
            if *input.get(at)? != if last { b' ' } else { b',' } {
                return None;
            }
            at += 1;
        }
        let rest = &input[at..];
        let length = rest.iter().take(24).position(|&byte| byte == b'\n')?;
        let stamp = &rest[..length];
        scratch.time = time::counted(stamp, unit)?;
        Some(at + length + 1)
    })();
    // The thread's other parsers go by the stamp that is written here.
    scratch.stamp.clear();
    let Some(length) = found else {
        return Ok(None);
    };
    sink.push(group, scratch.time, &scratch.values[..width])?;
    Ok(Some(length))
}

fn point<S: Sink>(text: &[u8], unit: i64, sink: &mut S, scratch: &mut Scratch) -> Result<()> {
    let head = series::split(text, b' ').next().unwrap_or_default();
    let rest = text[head.len()..].trim_ascii_start();
    let mut names: Vec<&[u8]> = Vec::new();
    let fields = series::split(rest, b' ').next().unwrap_or_default();
    for field in series::split(fields, b',') {
        let name = series::split(field, b'=').next().unwrap_or_default();
        let value = field
            .get(name.len() + 1..)
            .and_then(numeric)
            .ok_or_else(|| Wrong::parser("a field is not name=number", text))?;
        if names.contains(&name) {
            return Err(Wrong::parser("a field stands twice", text));
        }
        if names.len() == COLUMNS {
            let why = format!("more than {COLUMNS} fields");
            return Err(Wrong::parser(why, text));
        }
        scratch.values[names.len()] = value;
        names.push(name);
    }
    let stamp = rest[fields.len()..].trim_ascii();
    let time = match stamp {
        b"" => sink.now(),
        _ => time::counted(stamp, unit).ok_or_else(|| Wrong::parser("not a stamp", text))?,
    };
    let key = &mut scratch.key;
    key.clear();
    key.extend_from_slice(head);
    key.push(b' ');
    for name in &names {
        key.extend_from_slice(name);
        key.push(b'=');
    }
    let group = match sink.find(key) {
        Some(group) => group,
        None => {
            let series = series::of_influx(head, &names, text)?;
            sink.define(key, head.len() + 1, &series)?
        }
    };
    sink.push(group, time, &scratch.values[..names.len()])
}

/// What may stand before an `i`.
fn is_whole(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn numeric(text: &[u8]) -> Option<f64> {
    match text.split_last()? {
        (b'i' | b'u', digits) => is_whole(digits).then(|| number::parse(digits)).flatten(),
        // Only what begins as a number does: `true`, `"text"` and `nan` are not.
        _ if text[0].is_ascii_digit() || matches!(text[0], b'-' | b'+' | b'.') => {
            number::parse(text).filter(|value| value.is_finite())
        }
        _ => None,
    }
}

//! Influx's line protocol: `measurement,tag=v field=1.5,field2=2i stamp`.
//!
//! Numbers are points; text and booleans are not, and are refused rather than dropped.

use super::{begins, digits, line, number, series, time};
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
    let (key, cuts) = sink.key(group);
    let found = (|| {
        let (&head, ends) = cuts.split_first()?;
        let mut from = head as usize;
        if !input.starts_with(&key[..from]) {
            return None;
        }
        let mut at = from;
        for (value, &end) in scratch.values[..width].iter_mut().zip(ends) {
            // The name as the key has it, the equals sign included.
            let name = &key[from..end as usize];
            from = end as usize;
            if !begins(&input[at..], name) {
                return None;
            }
            let text = &input[at + name.len()..];
            let (found, length) = number::plain(text)?;
            *value = found;
            at += name.len() + length;
            if matches!(input.get(at), Some(b'i' | b'u')) {
                at += usize::from(is_integer(&text[..length]));
            }
            let last = from == key.len();
            if *input.get(at)? != if last { b' ' } else { b',' } {
                return None;
            }
            at += 1;
        }
        let rest = &input[at..];
        if let Some(length) = scratch.influx.again(rest, unit) {
            return Some(at + length);
        }
        let (count, length) = digits::parse_digits(rest)?;
        let stamp = rest.get(..=length)?;
        if !stamp.ends_with(b"\n") {
            return None;
        }
        let time = i64::try_from(count).ok()?.checked_mul(unit)?;
        scratch.influx.is(stamp, unit, time);
        Some(at + length + 1)
    })();
    let Some(length) = found else {
        return Ok(None);
    };
    sink.push(group, scratch.influx.time, &scratch.values[..width])?;
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
    let cuts = &mut scratch.cuts;
    cuts.clear();
    cuts.push(key.len() as u32);
    for name in &names {
        key.extend_from_slice(name);
        key.push(b'=');
        cuts.push(key.len() as u32);
    }
    let group = match sink.find(key) {
        Some(group) => group,
        None => {
            let series = series::of_influx(head, &names, text)?;
            sink.define(key, cuts, &series)?
        }
    };
    sink.push(group, time, &scratch.values[..names.len()])
}

/// What may stand before an `i`.
fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn numeric(text: &[u8]) -> Option<f64> {
    match text.split_last()? {
        (b'i' | b'u', digits) => is_integer(digits).then(|| number::parse(digits)).flatten(),
        // Only what begins as a number does: `true`, `"text"` and `nan` are not.
        _ if text[0].is_ascii_digit() || matches!(text[0], b'-' | b'+' | b'.') => {
            number::parse(text).filter(|value| value.is_finite())
        }
        _ => None,
    }
}

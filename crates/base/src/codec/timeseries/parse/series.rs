//! Names of series: what a protocol writes -> `metric tag=value tag=value`, tags sorted
//! by name, one blank between.

use super::{Result, Wrong, COLUMNS};

type Tag<'a> = (&'a [u8], &'a [u8]);

/// Canonical names of a RESP series line (without sign and end), one a column.
pub fn of_resp(line: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut words = words(line);
    let metrics = words
        .next()
        .ok_or_else(|| Wrong::parser("the series has no name", line))?;
    let tags = tags(words, line)?;
    if tags.is_empty() {
        return Err(Wrong::parser("the series has no tag", line));
    }
    let metrics: Vec<&[u8]> = metrics.split(|&byte| byte == b'|').collect();
    if metrics.len() > COLUMNS {
        let why = format!("a compound name has more than {COLUMNS} columns");
        return Err(Wrong::parser(why, line));
    }
    metrics
        .into_iter()
        .map(|metric| canonical(metric, &tags, line))
        .collect()
}

/// The canonical name of an OpenTSDB line's metric and tags.
pub fn of_opentsdb(metric: &[u8], rest: &[u8], line: &[u8]) -> Result<Vec<u8>> {
    canonical(metric, &tags(words(rest), line)?, line)
}

/// The canonical names of an Influx line: `head` is the measurement and its tags as they
/// are written, escapes and all (they stay, as a bare blank would end a tag).
pub fn of_influx(head: &[u8], fields: &[&[u8]], line: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut parts = split(head, b',');
    let measurement = parts.next().unwrap_or_default();
    let tags = tags(parts, line)?;
    fields
        .iter()
        .map(|&field| match field {
            b"" => Err(Wrong::parser("a field has no name", line)),
            b"value" => canonical(measurement, &tags, line),
            _ if measurement.is_empty() => Err(Wrong::parser("no measurement", line)),
            _ => canonical(&[measurement, b".", field].concat(), &tags, line),
        })
        .collect()
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b' ' || byte == b'\t')
        .filter(|word| !word.is_empty())
}

/// Cut at `mark`, except where a backslash stands before it.
pub fn split(text: &[u8], mark: u8) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    text.split(move |&byte| {
        let cut = byte == mark && !escaped;
        escaped = byte == b'\\' && !escaped;
        cut
    })
}

fn tags<'a>(words: impl Iterator<Item = &'a [u8]>, line: &[u8]) -> Result<Vec<Tag<'a>>> {
    let mut tags = Vec::new();
    for word in words {
        let cut = split(word, b'=').next().map_or(0, <[u8]>::len);
        match (&word[..cut], word.get(cut + 1..)) {
            (name, Some(value)) if !name.is_empty() && !value.is_empty() => {
                tags.push((name, value));
            }
            _ => return Err(Wrong::parser("a tag is not name=value", line)),
        }
    }
    tags.sort_unstable();
    if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Wrong::parser("a tag stands twice", line));
    }
    Ok(tags)
}

fn canonical(metric: &[u8], tags: &[Tag<'_>], line: &[u8]) -> Result<Vec<u8>> {
    if metric.is_empty() {
        return Err(Wrong::parser("a metric has no name", line));
    }
    let mut name = metric.to_vec();
    for (tag, value) in tags {
        name.push(b' ');
        name.extend_from_slice(tag);
        name.push(b'=');
        name.extend_from_slice(value);
    }
    // Other programs read these names as text.
    if name.iter().any(u8::is_ascii_control) || std::str::from_utf8(&name).is_err() {
        return Err(Wrong::parser("a name is not printable UTF-8", line));
    }
    Ok(name)
}

//! Influx line protocol: `measurement,tag=v field=1.5,field2=2i time_ns`, a line a measurement.
//!
//! A metric is a measurement and a field with a dot between, cut at its last one; what has no
//! dot is a measurement with the field `value`.

use std::borrow::Cow;

use super::stamp::{nanoseconds, Stamp};
use super::{Digits, Text, VALUE};
use crate::data::points::{Block, Layout};

#[derive(Debug, Clone)]
pub struct Influx {
    digits: Digits,
    stamp: Stamp,
    lines: Vec<Line>,
    /// The tags of the keys with commas between, one after the other.
    tags: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes of a row's lines at most.
    longest: usize,
}

#[derive(Debug, Clone)]
struct Line {
    /// `measurement,`.
    head: Vec<u8>,
    /// Columns, and ` field=` (the first) or `,field=`, without its first byte.
    fields: Vec<(usize, Vec<u8>)>,
}

/// Names of fields and tags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    #[default]
    AsTheyAre,
    /// As QuestDB takes them for columns: others have `_` in place of each character that it
    /// refuses.
    Columns,
}

impl Names {
    pub fn written(self, name: &str) -> Cow<'_, str> {
        let refused = |letter: char| "?.,'\"\\/:)(+-*%~".contains(letter);
        match self == Self::Columns && name.contains(refused) {
            true => Cow::Owned(name.replace(refused, "_")),
            false => Cow::Borrowed(name),
        }
    }

    /// The same of the names among `a=b c=d`.
    fn tags(self, tags: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(tags.len());
        for tag in tags.split(|byte| *byte == b' ') {
            let end = tag.iter().position(|byte| *byte == b'=').unwrap_or(0);
            let (name, value) = tag.split_at(end);
            if !out.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(self.written(&String::from_utf8_lossy(name)).as_bytes());
            out.extend_from_slice(value);
        }
        out
    }
}

impl Influx {
    pub fn new(digits: Digits, names: Names, layout: &Layout) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (column, metric) in layout.metrics().iter().enumerate() {
            let (measurement, field) = metric
                .name
                .rsplit_once('.')
                .unwrap_or((&metric.name, "value"));
            let head = format!("{measurement},").into_bytes();
            let field = format!("{}=", names.written(field)).into_bytes();
            let field = (column, field);
            match lines.iter_mut().find(|line| line.head == head) {
                Some(line) => line.fields.push(field),
                None => lines.push(Line {
                    head,
                    fields: vec![field],
                }),
            }
        }
        let mut tags = Vec::new();
        let mut ends = Vec::with_capacity(layout.keys());
        for key in 0..layout.keys() as u32 {
            tags.extend(names.tags(layout.tags(key)));
            ends.push(tags.len());
        }
        let around = layout.longest_tags() + 32;
        let fields = |line: &Line| -> usize {
            line.fields
                .iter()
                .map(|(_, text)| text.len() + 1 + VALUE)
                .sum()
        };
        let longest = lines
            .iter()
            .map(|line| line.head.len() + around + fields(line))
            .sum();
        Self {
            digits,
            stamp: Stamp::default(),
            lines,
            tags,
            ends,
            longest,
        }
    }

    pub fn write(&mut self, block: &Block, layout: &Layout, out: &mut Text) {
        let metrics = layout.metrics();
        let width = metrics.len();
        for (row, values) in block.values.chunks_exact(width.max(1)).enumerate() {
            out.room(self.longest);
            let key = block.keys[row] as usize;
            let from = if key == 0 { 0 } else { self.ends[key - 1] };
            let tags = &self.tags[from..self.ends[key]];
            let stamp = self.stamp.of(block.times[row], |time, text| {
                text.push(b' ');
                nanoseconds(time, text);
                text.push(b'\n');
            });
            for line in &self.lines {
                let mut points = 0;
                for (column, field) in &line.fields {
                    if block.absent.get(row * width + column) == Some(&true) {
                        continue;
                    }
                    if points == 0 {
                        out.put(&line.head);
                        out.put(tags);
                        out.put_short(*b" ");
                    } else {
                        out.put_short(*b",");
                    }
                    points += 1;
                    out.put(field);
                    out.put_value(values[*column], metrics[*column].integer, self.digits);
                    if metrics[*column].integer {
                        out.put_short(*b"i");
                    }
                }
                if points > 0 {
                    out.put(stamp);
                    out.end(points);
                }
            }
        }
    }
}

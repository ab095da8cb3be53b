//! RESP as Akumuli reads it: a series line, a time, a value or a row of values.

use super::stamp::{iso, Stamp};
use super::{Digits, Text, VALUE};
use crate::data::points::{Block, Layout};

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// All metrics of a set of tags at one time: `+a|b tags`, time, `*2`, values.
    #[default]
    Rows,
    /// One point.
    Values,
    /// As rows; the series line is a number that the connection's first message has said.
    Dictionary,
}

#[derive(Debug, Clone)]
pub struct Resp {
    form: Form,
    digits: Digits,
    stamp: Stamp,
    /// `+a|b|c `.
    compound: Vec<u8>,
    /// Bytes of a message at most.
    longest: usize,
}

impl Resp {
    pub fn new(form: Form, digits: Digits, layout: &Layout) -> Self {
        let names: Vec<&str> = layout
            .metrics()
            .iter()
            .map(|metric| &*metric.name)
            .collect();
        let compound = format!("+{} ", names.join("|")).into_bytes();
        let series = compound.len() + layout.longest_tags() + 64;
        Self {
            form,
            digits,
            stamp: Stamp::default(),
            longest: match form {
                Form::Values => (series + VALUE) * names.len(),
                Form::Rows | Form::Dictionary => series + VALUE * names.len(),
            },
            compound,
        }
    }

    /// The dictionary, if series are to be called by numbers.
    pub fn preamble(&self, layout: &Layout) -> Vec<u8> {
        let mut text = Vec::new();
        if self.form == Form::Dictionary {
            text.extend_from_slice(format!("*{}\r\n", 2 * layout.keys()).as_bytes());
            for key in 0..layout.keys() as u32 {
                text.extend_from_slice(&self.compound);
                text.extend_from_slice(layout.tags(key));
                text.extend_from_slice(format!("\r\n:{key}\r\n").as_bytes());
            }
        }
        text
    }

    pub fn write(&mut self, block: &Block, layout: &Layout, out: &mut Text) {
        let width = layout.metrics().len();
        let whole: Vec<bool> = layout
            .metrics()
            .iter()
            .map(|metric| metric.integer)
            .collect();
        let values = block.values.chunks_exact(width.max(1));
        for (row, values) in values.enumerate() {
            let (key, time) = (block.keys[row], block.times[row]);
            out.room(self.longest);
            let absent = block.absent.get(row * width..(row + 1) * width);
            let absent = absent.filter(|absent| absent.contains(&true));
            if self.form == Form::Values || absent.is_some() {
                self.write_some(key, time, values, absent, layout, out);
                continue;
            }
            match self.form {
                Form::Dictionary => {
                    out.put_short(*b":");
                    out.number(|room| super::integer(key.into(), room));
                }
                _ => {
                    out.put(&self.compound);
                    out.put(layout.tags(key));
                }
            }
            out.put(self.stamp.of(time, |time, text| {
                text.extend_from_slice(b"\r\n+");
                iso(time, text);
                text.extend_from_slice(format!("\r\n*{width}\r\n").as_bytes());
            }));
            for (value, whole) in values.iter().zip(&whole) {
                put_value(*value, *whole, self.digits, out);
            }
            out.end(width as u64);
        }
    }

    /// A message a value, for those that are there.
    fn write_some(
        &self,
        key: u32,
        time: i64,
        values: &[f64],
        absent: Option<&[bool]>,
        layout: &Layout,
        out: &mut Text,
    ) {
        let mut stamp = b"\r\n+".to_vec();
        iso(time, &mut stamp);
        stamp.extend_from_slice(b"\r\n");
        out.room((self.longest + VALUE) * values.len());
        for (at, (value, metric)) in values.iter().zip(layout.metrics()).enumerate() {
            if absent.is_some_and(|absent| absent[at]) {
                continue;
            }
            out.put_short(*b"+");
            out.put(metric.name.as_bytes());
            out.put_short(*b" ");
            out.put(layout.tags(key));
            out.put(&stamp);
            put_value(*value, metric.integer, self.digits, out);
            out.end(1);
        }
    }
}

/// `:digits` where it is a whole number and not negative, `+text` else.
#[inline]
fn put_value(value: f64, whole: bool, digits: Digits, out: &mut Text) {
    let unsigned = whole & (value >= 0.0);
    out.put_short([if unsigned { b':' } else { b'+' }]);
    out.put_value(value, whole, digits);
    out.put_short(*b"\r\n");
}

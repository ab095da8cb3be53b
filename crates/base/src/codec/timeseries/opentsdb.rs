//! OpenTSDB's telnet style: `put <metric> <time> <value> tag=v ...`, a line a point.

use super::stamp::{seconds, Stamp};
use super::{Digits, Text, VALUE};
use crate::data::points::{Block, Layout};

#[derive(Debug, Clone)]
pub struct OpenTsdb {
    digits: Digits,
    stamp: Stamp,
    /// `put <metric> `, one a metric.
    heads: Vec<Vec<u8>>,
    /// Bytes of a line at most.
    longest: usize,
}

impl OpenTsdb {
    pub fn new(digits: Digits, layout: &Layout) -> Self {
        let head = |name: &str| format!("put {name} ").into_bytes();
        let metrics = layout.metrics().iter();
        let heads: Vec<_> = metrics.map(|metric| head(&metric.name)).collect();
        let name = heads.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            digits,
            stamp: Stamp::default(),
            heads,
            longest: name + layout.longest_tags() + VALUE + 32,
        }
    }

    pub fn write(&mut self, block: &Block, layout: &Layout, out: &mut Text) {
        let metrics = layout.metrics();
        let width = metrics.len();
        for (row, values) in block.values.chunks_exact(width.max(1)).enumerate() {
            out.room(self.longest * width);
            let tags = layout.tags(block.keys[row]);
            let stamp = self.stamp.of(block.times[row], |time, text| {
                seconds(time, text);
                text.push(b' ');
            });
            for (at, value) in values.iter().enumerate() {
                if block.absent.get(row * width + at) == Some(&true) {
                    continue;
                }
                out.put(&self.heads[at]);
                out.put(stamp);
                out.put_value(*value, metrics[at].integer, self.digits);
                out.put_short(*b" ");
                out.put(tags);
                out.put_short(*b"\n");
                out.end(1);
            }
        }
    }
}

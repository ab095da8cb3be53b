//! Points as text, in the three protocols: where the text is cut makes no difference, and
//! none of it panics. The first two bytes say which protocol and where.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use venturi_core::codec::timeseries::parse::{influx, opentsdb, resp};
use venturi_core::codec::timeseries::parse::{Group, Progress, Result, Scratch, Sink, Step};

#[derive(Default)]
struct Kept {
    groups: Vec<(Vec<u8>, Vec<u32>, usize)>,
    keys: HashMap<Vec<u8>, Group>,
    points: Vec<(Group, i64, Vec<u64>)>,
}

impl Sink for Kept {
    fn guess(&self) -> Option<Group> {
        self.groups.len().checked_sub(1).map(|last| last as Group)
    }

    fn key(&self, group: Group) -> (&[u8], &[u32]) {
        let (key, cuts, _) = &self.groups[group as usize];
        (key, cuts)
    }

    fn find(&self, key: &[u8]) -> Option<Group> {
        self.keys.get(key).copied()
    }

    fn define(&mut self, key: &[u8], cuts: &[u32], series: &[Vec<u8>]) -> Result<Group> {
        assert!(series.iter().all(|name| std::str::from_utf8(name).is_ok()));
        let group = self.groups.len() as Group;
        self.groups
            .push((key.to_vec(), cuts.to_vec(), series.len()));
        self.keys.insert(key.to_vec(), group);
        Ok(group)
    }

    fn width(&self, group: Group) -> usize {
        self.groups[group as usize].2
    }

    fn push(&mut self, group: Group, time: i64, values: &[f64]) -> Result<()> {
        let bits = values.iter().map(|value| value.to_bits()).collect();
        self.points.push((group, time, bits));
        Ok(())
    }

    fn now(&self) -> i64 {
        0
    }
}

/// Rows of groups, other steps, and whether it went wrong.
type Heard = (Vec<(Group, i64, Vec<u64>)>, Vec<Step>, bool);

fn read(language: u8, bytes: &[u8], cut: usize) -> Heard {
    let mut kept = Kept::default();
    let mut scratch = Scratch::default();
    let mut reader = resp::Reader::new(Arc::new(AtomicUsize::new(50)));
    let mut steps = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = end.saturating_add(cut).min(bytes.len());
        loop {
            let seen = &bytes[start..end];
            let progress = match language % 3 {
                0 => reader.read(seen, &mut kept, &mut scratch),
                1 => opentsdb::read(seen, &mut kept, &mut scratch),
                _ => influx::read(seen, 1, &mut kept, &mut scratch),
            };
            match progress {
                Err(_) => return (kept.points, steps, true),
                Ok(Progress { consumed, step }) => {
                    start += consumed;
                    if step == Step::Read {
                        break;
                    }
                    steps.push(step);
                }
            }
        }
    }
    (kept.points, steps, false)
}

pub fn run(input: &[u8]) {
    let (language, rest) = super::first(input);
    let (cut, bytes) = super::first(rest);
    let whole = read(language, bytes, usize::MAX);
    assert_eq!(whole, read(language, bytes, usize::from(cut) + 1));
}

//! The samples of one end: columns of equal length, a row an instant (`SAMPLES` of
//! docs/format.md), and the form in which a server hands them over.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::readers::network::Interface;
use crate::error::{Error, Result};

/// An hour at 100 ms. Over this every second row goes, and the interval doubles.
pub const MOST_ROWS: usize = 36_000;

/// Numbers in all columns together, 32 MB: with many cores and threads the rows are fewer.
const MOST_VALUES: usize = 4_000_000;

/// What a column is called; a name that came over the network is one of ours too.
type Name = Cow<'static, str>;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// By the monotonic clock of its machine, or since the start instant once shifted.
    pub t_ns: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thread_names: Vec<String>,
    #[serde(flatten)]
    pub columns: BTreeMap<Name, Vec<i64>>,
    /// A list an item (stream, thread, CPU, connection).
    #[serde(flatten)]
    pub lists: BTreeMap<Name, Vec<Vec<i64>>>,
    #[serde(skip)]
    pub facts: Facts,
    /// CPU that the sampling has cost so far.
    #[serde(skip)]
    pub cost_ns: Vec<i64>,
}

/// What does not change from row to row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub quota_cores: Option<f64>,
    pub interface: Option<Interface>,
}

impl Series {
    pub fn rows(&self) -> usize {
        self.t_ns.len()
    }

    pub fn begin_row(&mut self, t_ns: i64) {
        self.t_ns.push(t_ns);
    }

    /// A value of this row. One that is not known leaves the column as it was, or away.
    pub fn put(&mut self, name: &'static str, value: Option<u64>) {
        let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else {
            return;
        };
        let rows = self.rows();
        let column = self.columns.entry(Cow::Borrowed(name)).or_default();
        push(column, rows, value, value);
    }

    /// The value of one of many. `before`: what it was when it was not yet seen; `None`: the same.
    pub fn put_item(&mut self, name: &'static str, item: usize, value: u64, before: Option<i64>) {
        let Ok(value) = i64::try_from(value) else {
            return;
        };
        let rows = self.rows();
        let list = self.lists.entry(Cow::Borrowed(name)).or_default();
        if list.len() <= item {
            list.resize_with(item + 1, Vec::new);
        }
        push(&mut list[item], rows, value, before.unwrap_or(value));
    }

    /// Ends the row: what was not read stays as it was.
    pub fn end_row(&mut self, cost_ns: u64) {
        let rows = self.rows();
        self.cost_ns.push(cost_ns as i64);
        let lists = self.lists.values_mut().flatten();
        for column in self.columns.values_mut().chain(lists) {
            let last = column.last().copied().unwrap_or(0);
            column.resize(rows, last);
        }
    }

    /// Whether it is time to halve the resolution.
    pub fn is_full(&self) -> bool {
        let width = self.columns.len() + self.lists.values().map(Vec::len).sum::<usize>() + 2;
        self.rows() >= MOST_ROWS || self.rows() * width >= MOST_VALUES
    }

    /// Leaves out every second row.
    pub fn halve(&mut self) {
        self.each(&|column| {
            let mut at = 0;
            column.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        });
    }

    /// From this row on.
    pub fn since(&self, row: usize) -> Series {
        let mut series = self.clone();
        series.each(&|column| {
            column.drain(..row.min(column.len()));
        });
        series
    }

    /// The interface that was counted is not the one that carried the bytes.
    pub fn forget_network(&mut self) {
        self.columns.retain(|name, _| !name.starts_with("net_"));
        self.facts.interface = None;
    }

    /// Adds the lists of another series, as they were at the time of each row or last before.
    pub fn join(&mut self, other: &Series) {
        let at: Vec<usize> = self
            .t_ns
            .iter()
            .map(|t| {
                other
                    .t_ns
                    .partition_point(|known| known <= t)
                    .saturating_sub(1)
            })
            .collect();
        let taken = |column: &Vec<i64>| {
            at.iter()
                .filter_map(|row| column.get(*row))
                .copied()
                .collect()
        };
        for (name, list) in &other.lists {
            self.lists
                .insert(name.clone(), list.iter().map(taken).collect());
        }
    }

    /// Moves the rows to another clock: `zero` becomes 0.
    pub fn shift(&mut self, zero: i64) {
        self.t_ns
            .iter_mut()
            .for_each(|t| *t = t.saturating_sub(zero));
    }

    fn each(&mut self, act: &dyn Fn(&mut Vec<i64>)) {
        act(&mut self.t_ns);
        act(&mut self.cost_ns);
        let lists = self.lists.values_mut().flatten();
        self.columns.values_mut().chain(lists).for_each(act);
    }

    /// For the way over the network: differences, which are a third as long.
    pub fn pack(&self) -> Packed {
        let by_item =
            |list: &Vec<Vec<i64>>| list.iter().map(|column| differences(column)).collect();
        Packed {
            t_ns: differences(&self.t_ns),
            cost_ns: differences(&self.cost_ns),
            thread_names: self.thread_names.clone(),
            columns: self
                .columns
                .iter()
                .map(|(name, column)| (name.to_string(), differences(column)))
                .collect(),
            lists: self
                .lists
                .iter()
                .map(|(name, list)| (name.to_string(), by_item(list)))
                .collect(),
            facts: self.facts.clone(),
        }
    }
}

fn push(column: &mut Vec<i64>, rows: usize, value: i64, before: i64) {
    let last = column.last().copied().unwrap_or(before);
    column.resize(rows.saturating_sub(1), last);
    column.push(value);
}

fn differences(column: &[i64]) -> Vec<i64> {
    let mut last = 0;
    column
        .iter()
        .map(|value| value.wrapping_sub(std::mem::replace(&mut last, *value)))
        .collect()
}

fn sums(mut column: Vec<i64>) -> Vec<i64> {
    let mut sum = 0i64;
    for value in &mut column {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
    column
}

/// A series as a server hands it over. It comes from a peer: `unpack` checks it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Packed {
    t_ns: Vec<i64>,
    cost_ns: Vec<i64>,
    thread_names: Vec<String>,
    columns: BTreeMap<String, Vec<i64>>,
    lists: BTreeMap<String, Vec<Vec<i64>>>,
    facts: Facts,
}

impl Packed {
    pub fn unpack(self) -> Result<Series> {
        let rows = self.t_ns.len();
        let whole = |column: &Vec<i64>| column.len() == rows;
        let lists = self.lists.values().flatten();
        let plain = |name: &String| {
            name.len() < 64 && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_')
        };
        // `t_ns` and `thread_names` lie beside the columns in the record.
        let column = |name: &String| plain(name) && name != "t_ns" && !is_list(name);
        let list = |name: &String| plain(name) && name != "thread_names" && is_list(name);
        if !lists.chain(self.columns.values()).all(whole)
            || !whole(&self.cost_ns)
            || !self.columns.keys().all(column)
            || !self.lists.keys().all(list)
        {
            return Err(Error::protocol(
                "the server's samples are not columns of one length",
            ));
        }
        let series = self.summed();
        let lists = series.lists.values().flatten();
        let mut counts = series.columns.values().chain(lists).flatten();
        if counts.any(|count| *count < 0) || !series.t_ns.is_sorted() {
            return Err(Error::protocol(
                "the server's samples are not counts in the order of time",
            ));
        }
        Ok(series)
    }

    fn summed(self) -> Series {
        Series {
            t_ns: sums(self.t_ns),
            cost_ns: sums(self.cost_ns),
            thread_names: self.thread_names,
            columns: self
                .columns
                .into_iter()
                .map(|(name, column)| (Cow::Owned(name), sums(column)))
                .collect(),
            lists: self
                .lists
                .into_iter()
                .map(|(name, list)| (Cow::Owned(name), list.into_iter().map(sums).collect()))
                .collect(),
            facts: self.facts,
        }
    }
}

/// Whether a column of docs/format.md holds a list in each row.
fn is_list(name: &str) -> bool {
    let prefixes = ["thread_", "core_", "socket_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || name == "frequency_khz"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rows: i64) -> Series {
        let mut series = Series::default();
        for row in 0..rows {
            series.begin_row(1000 + 10 * row);
            series.put("user_ns", Some(100 * row as u64));
            series.put("rss_bytes", (row != 1).then_some(7));
            series.put("never", None);
            series.put_item("thread_cpu_ns", 0, row as u64, Some(0));
            if row >= 2 {
                series.put_item("thread_cpu_ns", 1, 5, Some(0));
                series.put_item("core_busy_ns", 0, 9, None);
            }
            series.end_row(row as u64);
        }
        series
    }

    #[test]
    fn columns_are_of_one_length_whenever_they_come() {
        let series = series(4);
        assert_eq!(series.columns["user_ns"], [0, 100, 200, 300]);
        assert_eq!(series.columns["rss_bytes"], [7, 7, 7, 7]);
        assert!(!series.columns.contains_key("never"));
        assert_eq!(
            series.lists["thread_cpu_ns"],
            [vec![0, 1, 2, 3], vec![0, 0, 5, 5]]
        );
        assert_eq!(series.lists["core_busy_ns"], [[9, 9, 9, 9]]);
    }

    #[test]
    fn halved_cut_and_shifted() {
        let mut one = series(5);
        one.shift(1000);
        one.halve();
        assert_eq!(one.t_ns, [0, 20, 40]);
        assert_eq!(one.columns["user_ns"], [0, 200, 400]);
        assert_eq!(one.lists["thread_cpu_ns"][0], [0, 2, 4]);
        assert_eq!(one.cost_ns, [0, 2, 4]);
        let rest = one.since(2);
        assert_eq!(
            (rest.t_ns.as_slice(), rest.columns["user_ns"].as_slice()),
            (&[40][..], &[400][..])
        );
        assert!(!one.is_full());
        assert!(series(MOST_ROWS as i64).is_full());
    }

    #[test]
    fn joined_by_time() {
        let mut one = Series::default();
        let mut other = Series::default();
        for (t, also) in [(10, true), (20, false), (30, true), (40, false)] {
            one.begin_row(t);
            one.end_row(0);
            if also {
                other.begin_row(t);
                other.put_item("socket_rtt_ns", 0, t as u64, None);
                other.end_row(0);
            }
        }
        one.join(&other);
        assert_eq!(one.lists["socket_rtt_ns"], [[10, 10, 30, 30]]);
        one.join(&Series::default());
        assert_eq!(one.lists.len(), 1);
    }

    #[test]
    fn packed_and_unpacked_it_is_the_same() {
        let one = series(5);
        let text = serde_json::to_string(&one.pack()).unwrap();
        let packed: Packed = serde_json::from_str(&text).unwrap();
        assert_eq!(packed.unpack().unwrap(), one);
        let mut broken = one.pack();
        broken.t_ns.pop();
        assert!(broken.unpack().is_err());
        let mut strange = one.pack();
        strange.columns.insert("../../x".into(), vec![0; 5]);
        assert!(strange.unpack().is_err());
    }

    #[test]
    fn what_a_peer_may_not_send() {
        let refused = |spoil: &dyn Fn(&mut Packed)| {
            let mut packed = series(5).pack();
            spoil(&mut packed);
            packed.unpack().unwrap_err().message
        };
        let names = "columns of one length";
        assert!(refused(&|p| drop(p.columns.insert("t_ns".into(), vec![0; 5]))).contains(names));
        assert!(
            refused(&|p| drop(p.columns.insert("thread_cpu_ns".into(), vec![0; 5])))
                .contains(names)
        );
        for list in ["user_ns", "thread_names"] {
            assert!(
                refused(&|p| drop(p.lists.insert(list.into(), vec![vec![0; 5]]))).contains(names)
            );
        }
        let counts = "counts in the order of time";
        assert!(refused(&|p| p.t_ns[2] = -1).contains(counts));
        // The sum of the differences runs over.
        let over = vec![i64::MAX, 1, 0, 0, 0];
        assert!(
            refused(&|p| drop(p.columns.insert("user_ns".into(), over.clone()))).contains(counts)
        );
        assert!(
            refused(&|p| p.lists.get_mut("thread_cpu_ns").unwrap()[0][0] = -1).contains(counts)
        );
    }

    #[test]
    fn as_json_the_columns_lie_side_by_side() {
        let mut one = series(1);
        one.thread_names = vec!["main".into()];
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!(json["t_ns"][0], 1000);
        assert_eq!(json["user_ns"][0], 0);
        assert_eq!(json["thread_cpu_ns"][0][0], 0);
        assert_eq!(json["thread_names"][0], "main");
        assert!(json.get("cost_ns").is_none() && json.get("facts").is_none());
    }
}

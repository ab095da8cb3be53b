//! Points of a user's own table: a column of time, columns of tags, columns of values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use xxhash_rust::xxh3::xxh3_64;

use super::file;
use super::points::{Block, Layout, Metric, Rows};
use super::view::{Values, View};
use crate::codec::timeseries::{check_names, is_plain};
use crate::error::{Error, Result};
use crate::spec::Ingest;

/// A table, sorted by time. A row whose values are all missing is left out.
#[derive(Debug)]
pub struct Table {
    metrics: Vec<Metric>,
    /// The keys' tags, and the hash by which each is dealt to a stream.
    keys: Vec<(String, u64)>,
    /// Row by row.
    key_of: Vec<u32>,
    times: Vec<i64>,
    values: Vec<f64>,
    /// Empty where all values are there.
    absent: Vec<bool>,
    points: u64,
}

impl Table {
    /// Reads the IPC file that was made of the file `path`.
    pub fn read(path: &str, ipc: &str, roles: &Ingest) -> Result<Self> {
        let (_, batches) = file::read(path, ipc)?;
        Self::of(&batches, roles).map_err(|error| error.context(path))
    }

    fn of(batches: &[RecordBatch], roles: &Ingest) -> Result<Self> {
        check_names(roles.tags.iter().chain(&roles.metric).map(String::as_str))?;
        check_names(roles.values.iter().map(String::as_str))?;
        if roles.values.is_empty() {
            return Err(Error::usage("ingest.values: name at least one column"));
        }
        if roles.tags.is_empty() && roles.metric.is_none() {
            return Err(Error::usage(
                "ingest.tags: name at least one column, or give metric: a series has a tag",
            ));
        }
        let metric = |value: &String| Metric {
            name: match &roles.metric {
                Some(prefix) => format!("{prefix}.{value}"),
                None => value.clone(),
            },
            // Where the column is an integer in every batch.
            integer: batches.iter().all(|batch| {
                let column = batch.column_by_name(value);
                column.is_some_and(|column| *column.data_type() == DataType::Int64)
            }),
        };
        let mut table = Self {
            metrics: roles.values.iter().map(metric).collect(),
            keys: Vec::new(),
            key_of: Vec::new(),
            times: Vec::new(),
            values: Vec::new(),
            absent: Vec::new(),
            points: 0,
        };
        let mut known = HashMap::new();
        for batch in batches {
            table.add(batch, roles, &mut known)?;
        }
        if table.points == 0 {
            return Err(Error::usage("there is not a single value in it to ingest"));
        }
        if table.points == table.values.len() as u64 {
            table.absent = Vec::new();
        }
        if table.key_of.len() > u32::MAX as usize {
            return Err(Error::usage("more than 4294967295 rows"));
        }
        Ok(table)
    }

    fn add(
        &mut self,
        batch: &RecordBatch,
        roles: &Ingest,
        known: &mut HashMap<String, u32>,
    ) -> Result<()> {
        let times = times(column(batch, "time", &roles.time)?, &roles.time)?;
        let mut tags = Vec::with_capacity(roles.tags.len());
        for name in &roles.tags {
            tags.push((name.as_str(), texts(column(batch, "tags", name)?, name)?));
        }
        // Sorted, as a series' canonical name has them.
        tags.sort_by_key(|tag| tag.0);
        let mut values: Vec<Float64Array> = Vec::with_capacity(roles.values.len());
        for name in &roles.values {
            let column = column(batch, "values", name)?;
            let doubles = match column.data_type() {
                DataType::Int64 => {
                    let integers = column.as_primitive::<Int64Type>();
                    if let Some(v) = integers
                        .iter()
                        .flatten()
                        .find(|v| (*v as f64) as i128 != i128::from(*v))
                    {
                        return Err(Error::usage(format!(
                            "values column {name:?} has {v}, which no point holds to the last digit: cast it to float64"
                        )));
                    }
                    integers.unary(|v| v as f64)
                }
                DataType::Float64 => column.as_primitive::<Float64Type>().clone(),
                _ => return Err(wrong("values", name, column, "float64 or int64")),
            };
            values.push(doubles);
        }
        let mut text = String::new();
        for (row, time) in times.into_iter().enumerate() {
            if self.times.last().is_some_and(|last| *last > time) {
                return Err(Error::usage("its rows are not sorted by time"));
            }
            let there = |at: usize| {
                let value = values[at].value(row);
                (values[at].is_valid(row) && value.is_finite()).then_some(value)
            };
            let here = (0..values.len()).filter(|at| there(*at).is_some()).count();
            if here == 0 {
                continue;
            }
            text.clear();
            for (name, values) in &tags {
                let value = values[row].as_str();
                if !is_plain(value) {
                    return Err(Error::usage(format!(
                        "tag {name}: {value:?} cannot be a tag's value: it must not be empty, and blanks, = , | \" have a meaning in the protocols"
                    )));
                }
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(name);
                text.push('=');
                text.push_str(value);
            }
            if text.is_empty() {
                // Every protocol wants a tag.
                text = format!("source={}", roles.metric.as_deref().unwrap_or_default());
            }
            let key = match known.get(&text) {
                Some(key) => *key,
                None => {
                    let key = self.keys.len() as u32;
                    self.keys.push((text.clone(), xxh3_64(text.as_bytes())));
                    known.insert(text.clone(), key);
                    key
                }
            };
            self.key_of.push(key);
            self.times.push(time);
            self.points += here as u64;
            for at in 0..values.len() {
                let value = there(at);
                self.values.push(value.unwrap_or(0.0));
                self.absent.push(value.is_none());
            }
        }
        Ok(())
    }

    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    pub fn points(&self) -> u64 {
        self.points
    }

    /// The rows of one of so many streams: those of the series that fall to it by the hash of
    /// their tags.
    pub fn share(self: &Arc<Self>, stream: usize, streams: usize) -> (Layout, TableRows) {
        let mine = |key: &(String, u64)| key.1 % streams as u64 == stream as u64;
        let mut layout = Layout::new(self.metrics.clone());
        let own: Vec<Option<u32>> = self
            .keys
            .iter()
            .map(|key| mine(key).then(|| layout.add(key.0.as_bytes())))
            .collect();
        let rows = (0..self.key_of.len() as u32)
            .filter_map(|row| own[self.key_of[row as usize] as usize].map(|key| (row, key)))
            .collect();
        let rows = TableRows {
            table: self.clone(),
            rows,
            at: 0,
        };
        (layout, rows)
    }
}

fn column<'a>(batch: &'a RecordBatch, role: &str, name: &str) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| Error::usage(format!("ingest.{role}: there is no column {name:?}")))
}

fn wrong(role: &str, name: &str, column: &ArrayRef, wanted: &str) -> Error {
    let kind = column.data_type();
    Error::usage(format!("ingest.{role}: {name} is {kind}, not {wanted}"))
}

fn times(column: &ArrayRef, name: &str) -> Result<Vec<i64>> {
    if column.null_count() > 0 {
        return Err(Error::usage(format!("ingest.time: {name} has nulls")));
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let times = column.as_primitive::<TimestampNanosecondType>();
            Ok(times.values().to_vec())
        }
        DataType::Int64 => Ok(column.as_primitive::<Int64Type>().values().to_vec()),
        _ => Err(wrong("time", name, column, "a time in nanoseconds")),
    }
}

/// A column of text, a text a row.
fn texts(column: &ArrayRef, name: &str) -> Result<Vec<String>> {
    let not_text = || wrong("tags", name, column, "text");
    let view = View::of(name, column).map_err(|_| not_text())?;
    let Values::Text(texts) = &view.values else {
        return Err(not_text());
    };
    match view.nulls() {
        Some(_) => Err(Error::usage(format!("ingest.tags: {name} has nulls"))),
        None => Ok((0..column.len())
            .map(|row| texts.value(row).to_owned())
            .collect()),
    }
}

pub struct TableRows {
    table: Arc<Table>,
    /// Rows of the table, and their keys in the stream's layout.
    rows: Vec<(u32, u32)>,
    at: usize,
}

impl TableRows {
    /// Of the stream, from the first on.
    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

impl Rows for TableRows {
    fn fill(&mut self, rows: usize, block: &mut Block) -> Result<()> {
        let table = &self.table;
        let width = table.metrics.len();
        let until = self.rows.len().min(self.at.saturating_add(rows));
        for (row, key) in &self.rows[self.at..until] {
            let row = *row as usize;
            block.keys.push(*key);
            block.times.push(table.times[row]);
            let cells = row * width..(row + 1) * width;
            block.values.extend_from_slice(&table.values[cells.clone()]);
            if !table.absent.is_empty() {
                block.absent.extend_from_slice(&table.absent[cells]);
            }
        }
        self.at = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray, TimestampNanosecondArray};

    use super::*;

    fn batch(
        times: Vec<i64>,
        hosts: Vec<&str>,
        a: Vec<Option<f64>>,
        b: Vec<Option<f64>>,
    ) -> RecordBatch {
        RecordBatch::try_from_iter([
            (
                "ts",
                Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef,
            ),
            ("host", Arc::new(StringArray::from(hosts)) as ArrayRef),
            ("a", Arc::new(Float64Array::from(a)) as ArrayRef),
            ("b", Arc::new(Float64Array::from(b)) as ArrayRef),
        ])
        .unwrap()
    }

    fn roles(json: &str) -> Ingest {
        serde_json::from_str(json).unwrap()
    }

    const ROLES: &str = r#"{"time": "ts", "tags": ["host"], "values": ["a", "b"], "metric": "m"}"#;

    #[test]
    fn rows_are_dealt_by_their_tags() {
        let batch = batch(
            vec![1, 2, 2, 3],
            vec!["x", "y", "z", "x"],
            vec![Some(1.0), None, Some(f64::NAN), Some(4.0)],
            vec![Some(5.0), Some(6.0), None, None],
        );
        let table = Arc::new(Table::of(&[batch], &roles(ROLES)).unwrap());
        // The row of z has no value.
        assert_eq!(table.points(), 4);
        assert_eq!(table.metrics()[1].name, "m.b");
        let mut digests = Vec::new();
        for streams in [1, 2, 7] {
            let (mut digest, mut points) = (0u64, 0);
            for stream in 0..streams {
                let (layout, mut rows) = table.share(stream, streams);
                loop {
                    let mut block = Block::default();
                    rows.fill(2, &mut block).unwrap();
                    if block.rows() == 0 {
                        break;
                    }
                    assert!(block.times.is_sorted());
                    points += block.points();
                    digest = digest.wrapping_add(block.digest(&layout));
                }
            }
            assert_eq!(points, 4);
            digests.push(digest);
        }
        assert!(digests.iter().all(|digest| *digest == digests[0]));
    }

    #[test]
    fn what_cannot_be_points_is_said() {
        let fine = || {
            batch(
                vec![1, 2],
                vec!["x", "y"],
                vec![Some(1.0); 2],
                vec![Some(1.0); 2],
            )
        };
        let said =
            |batch: RecordBatch, json: &str| Table::of(&[batch], &roles(json)).unwrap_err().message;
        for (json, says) in [
            (
                r#"{"time": "t", "tags": ["host"], "values": ["a"]}"#,
                "no column \"t\"",
            ),
            (
                r#"{"time": "a", "tags": ["host"], "values": ["a"]}"#,
                "a time in nanoseconds",
            ),
            (
                r#"{"time": "ts", "tags": ["a"], "values": ["b"]}"#,
                "not text",
            ),
            (
                r#"{"time": "ts", "tags": ["host"], "values": ["host"]}"#,
                "not float64",
            ),
            (
                r#"{"time": "ts", "tags": ["host"], "values": []}"#,
                "at least one",
            ),
            (
                r#"{"time": "ts", "tags": [], "values": ["a"]}"#,
                "a series has a tag",
            ),
            (
                r#"{"time": "ts", "tags": [], "values": ["a"], "metric": "a b"}"#,
                "\"a b\"",
            ),
        ] {
            assert!(said(fine(), json).contains(says), "{}", said(fine(), json));
        }
        let unsorted = batch(
            vec![2, 1],
            vec!["x", "y"],
            vec![Some(1.0); 2],
            vec![Some(1.0); 2],
        );
        assert!(said(unsorted, ROLES).contains("sorted"));
        let blank = batch(vec![1], vec!["New York"], vec![Some(1.0)], vec![None]);
        assert!(said(blank, ROLES).contains("New York"));
        let empty = batch(vec![1], vec!["x"], vec![None], vec![None]);
        assert!(said(empty, ROLES).contains("single value"));
        let plain = roles(r#"{"time": "ts", "tags": [], "values": ["a"], "metric": "m"}"#);
        let table = Arc::new(Table::of(&[fine()], &plain).unwrap());
        let layout = table.share(0, 1).0;
        assert_eq!(
            (layout.tags(0), layout.metrics()[0].integer),
            (&b"source=m"[..], false)
        );
        // Whole numbers are written as such.
        let times = TimestampNanosecondArray::from(vec![1, 2]);
        let whole = Int64Array::from(vec![Some(-3), None]);
        let columns: [(_, ArrayRef); 2] = [("ts", Arc::new(times)), ("a", Arc::new(whole))];
        let whole = RecordBatch::try_from_iter(columns).unwrap();
        let table = Arc::new(Table::of(&[whole], &plain).unwrap());
        let (layout, mut rows) = table.share(0, 1);
        let mut block = Block::default();
        rows.fill(2, &mut block).unwrap();
        assert_eq!(
            (layout.metrics()[0].integer, block.values),
            (true, vec![-3.0])
        );
    }
}

//! A head's points -> a file of `points/`, sorted by series and time.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::files::Summed;
use super::head::{Frozen, Part};
use super::levels::Levels;
use super::pages::{self, Column, Compressor};
use super::registry::Registry;
use super::totals::Totals;
use venturi_base::data::points::series_hash;

/// Readers work on a row group each.
const GROUP_POINTS: usize = 1 << 20;
/// Shorter series share a page; longer ones are cut.
const PAGE_LEAST: usize = 1024;
const PAGE_MOST: usize = 32 << 10;

/// A column of a part: some points of a series.
#[derive(Debug, Clone, Copy)]
struct Piece {
    series: u32,
    part: u32,
    column: u32,
}

/// A sealed series and what is in it.
#[derive(Debug, Clone)]
pub struct Line {
    pub series: u32,
    pub name: Box<[u8]>,
    pub totals: Totals,
}

pub fn text(name: &str) -> Result<TypePtr> {
    let text = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::String));
    text.build().map(Arc::new)
}

pub fn stamp(name: &str) -> Result<TypePtr> {
    let logical = LogicalType::timestamp(true, TimeUnit::NANOS);
    let stamp = Type::primitive_type_builder(name, Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(logical));
    stamp.build().map(Arc::new)
}

pub fn number(name: &str) -> Result<TypePtr> {
    let number = Type::primitive_type_builder(name, Physical::DOUBLE);
    let number = number.with_repetition(Repetition::REQUIRED);
    number.build().map(Arc::new)
}

pub fn properties() -> Arc<WriterProperties> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("venturi ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(pages::compression())
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true);
    Arc::new(properties.build())
}

fn schema() -> Result<TypePtr> {
    let fields = vec![
        text("series")?,
        text("metric")?,
        stamp("time")?,
        number("value")?,
    ];
    let schema = Type::group_type_builder("points").with_fields(fields);
    schema.build().map(Arc::new)
}

/// Writes the file and tells each series' totals, in the file's order, and its checksum.
pub fn write(
    path: &Path,
    frozen: &Frozen,
    registry: &Registry,
    sync: bool,
) -> Result<(Vec<Line>, u64)> {
    let file = BufWriter::with_capacity(1 << 20, Summed::create(path)?);
    let mut file = SerializedFileWriter::new(file, schema()?, properties())?;
    let pieces = pieces(frozen, registry);
    let mut lines: Vec<Line> = Vec::new();
    let mut zstd = pages::compressor()?;
    let mut group = RowGroup::new();
    for run in pieces.chunk_by(|a, b| a.series == b.series) {
        let series = run[0].series;
        let name: Box<[u8]> = registry.names().get(series).into();
        let hash = series_hash(&name);
        group.gather(run, &frozen.parts);
        let (times, values) = (&group.times, &group.values);
        let points = times.iter().copied().zip(values.iter().copied());
        let totals = Totals::of(hash, points);
        group.begin(&name);
        let mut done = 0;
        while done < group.times.len() {
            let room = GROUP_POINTS - group.points;
            let end = group.times.len().min(done + room);
            group.take(done..end, &mut zstd)?;
            done = end;
            if group.points == GROUP_POINTS {
                group.close(&mut file, &mut zstd)?;
                if done < group.times.len() {
                    group.begin(&name);
                }
            }
        }
        lines.push(Line {
            series,
            name,
            totals,
        });
    }
    group.close(&mut file, &mut zstd)?;
    let checksum = finish(file, sync)?;
    Ok((lines, checksum))
}

/// Ends the file and tells its checksum.
pub fn finish(mut file: SerializedFileWriter<BufWriter<Summed>>, sync: bool) -> Result<u64> {
    file.finish()?;
    let inner = file.inner_mut();
    inner.flush()?;
    let written = inner.get_ref();
    if sync {
        written.file.sync_all()?;
    }
    Ok(written.checksum())
}

/// All columns of all parts in the order of their series' names.
fn pieces(frozen: &Frozen, registry: &Registry) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (part, points) in frozen.parts.iter().enumerate() {
        for (column, &series) in points.series.iter().enumerate() {
            pieces.push(Piece {
                series,
                part: part as u32,
                column: column as u32,
            });
        }
    }
    let names = registry.names();
    // Stable, as points of one time stay in the order in which they came.
    pieces.sort_by(|a, b| names.get(a.series).cmp(names.get(b.series)));
    pieces
}

/// The columns of times and values.
#[derive(Default)]
struct Points {
    time: Column,
    value: Column,
    levels: Levels,
    /// Of the last page: series that are read together have the same times.
    last_times: Vec<i64>,
    buffer: Vec<u8>,
}

impl Points {
    fn page(&mut self, times: &[i64], values: &[f64], zstd: &mut Compressor) -> Result<()> {
        let (count, buffer) = (times.len(), &mut self.buffer);
        if self.last_times == times {
            self.time.again(count);
        } else {
            pages::deltas(times, buffer);
            let encoding = Encoding::DELTA_BINARY_PACKED;
            self.time.data(encoding, buffer, count, zstd)?;
            self.last_times.clear();
            self.last_times.extend_from_slice(times);
        }
        let encoding = if self.levels.page(values, buffer) {
            Encoding::RLE_DICTIONARY
        } else {
            pages::split_bytes(values, buffer);
            Encoding::BYTE_STREAM_SPLIT
        };
        self.value.data(encoding, buffer, count, zstd)
    }

    /// The values' dictionary, once all pages are there.
    fn dictionary(&mut self, zstd: &mut Compressor) -> Result<()> {
        if self.levels.len() > 0 {
            self.levels.plain(&mut self.buffer);
            self.value
                .dictionary(&self.buffer, self.levels.len(), zstd)?;
        }
        Ok(())
    }
}

struct RowGroup {
    /// Of the series at hand.
    times: Vec<i64>,
    values: Vec<f64>,
    /// Of the page that short series share.
    page_times: Vec<i64>,
    page_values: Vec<f64>,
    columns: Points,
    /// The series of this group and their runs.
    names: Vec<Box<[u8]>>,
    runs: Vec<(u32, usize)>,
    points: usize,
    first: i64,
    last: i64,
}

impl RowGroup {
    fn new() -> Self {
        Self {
            times: Vec::new(),
            values: Vec::new(),
            page_times: Vec::new(),
            page_values: Vec::new(),
            columns: Points::default(),
            names: Vec::new(),
            runs: Vec::new(),
            points: 0,
            first: i64::MAX,
            last: i64::MIN,
        }
    }

    /// A series' points from all its pieces, sorted by time.
    fn gather(&mut self, run: &[Piece], parts: &[Part]) {
        self.times.clear();
        self.values.clear();
        for piece in run {
            let part = &parts[piece.part as usize];
            let (width, column) = (part.series.len(), piece.column as usize);
            self.times.extend_from_slice(&part.stamps);
            let rows = part.values.chunks_exact(width);
            self.values.extend(rows.map(|row| row[column]));
        }
        if !self.times.is_sorted() {
            let mut order: Vec<usize> = (0..self.times.len()).collect();
            order.sort_by_key(|&at| self.times[at]);
            self.times = order.iter().map(|&at| self.times[at]).collect();
            self.values = order.iter().map(|&at| self.values[at]).collect();
        }
    }

    /// What is taken from now on belongs to this series.
    fn begin(&mut self, name: &[u8]) {
        self.runs.push((self.names.len() as u32, 0));
        self.names.push(name.into());
    }

    fn take(&mut self, range: std::ops::Range<usize>, zstd: &mut Compressor) -> Result<()> {
        let count = range.len();
        if let Some(run) = self.runs.last_mut() {
            run.1 += count;
        }
        self.points += count;
        self.first = self.first.min(self.times[range.start]);
        self.last = self.last.max(self.times[range.end - 1]);
        if count >= PAGE_LEAST {
            // A page of its own: the last one may not be a rest of a few points.
            self.flush(zstd)?;
            let pages = count.div_ceil(PAGE_MOST);
            for page in 0..pages {
                let from = range.start + count * page / pages;
                let to = range.start + count * (page + 1) / pages;
                let (times, values) = (&self.times[from..to], &self.values[from..to]);
                self.columns.page(times, values, zstd)?;
            }
            return Ok(());
        }
        self.page_times
            .extend_from_slice(&self.times[range.clone()]);
        self.page_values.extend_from_slice(&self.values[range]);
        if self.page_times.len() >= PAGE_LEAST * 4 {
            self.flush(zstd)?;
        }
        Ok(())
    }

    /// Writes the page that short series share.
    fn flush(&mut self, zstd: &mut Compressor) -> Result<()> {
        if !self.page_times.is_empty() {
            self.columns
                .page(&self.page_times, &self.page_values, zstd)?;
            self.page_times.clear();
            self.page_values.clear();
        }
        Ok(())
    }

    /// Ends the row group and is ready for the next one.
    fn close(
        &mut self,
        file: &mut SerializedFileWriter<BufWriter<Summed>>,
        zstd: &mut Compressor,
    ) -> Result<()> {
        self.flush(zstd)?;
        self.columns.dictionary(zstd)?;
        let done = std::mem::replace(self, Self::new());
        // The series at hand may go on in the next group.
        (self.times, self.values) = (done.times, done.values);
        if done.points == 0 {
            return Ok(());
        }
        let schema = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        let metrics: Vec<&[u8]> = done.names.iter().map(|name| metric(name)).collect();
        let series: Vec<&[u8]> = done.names.iter().map(|name| &name[..]).collect();
        for (place, texts) in [series, metrics].into_iter().enumerate() {
            let (column, statistics) = dictionary(&texts, &done.runs, done.points, zstd)?;
            column.close(schema[place].clone(), statistics, &mut group)?;
        }
        let range = Statistics::int64(Some(done.first), Some(done.last), None, Some(0), false);
        let Points { time, value, .. } = done.columns;
        time.close(schema[2].clone(), Some(range), &mut group)?;
        value.close(schema[3].clone(), None, &mut group)?;
        group.close()?;
        Ok(())
    }
}

pub fn metric(name: &[u8]) -> &[u8] {
    // A blank of the name itself has a backslash before it.
    venturi_base::codec::timeseries::parse::series::split(name, b' ')
        .next()
        .unwrap_or_default()
}

/// A column of sorted texts: equal neighbours share an entry.
fn dictionary(
    texts: &[&[u8]],
    runs: &[(u32, usize)],
    points: usize,
    zstd: &mut Compressor,
) -> Result<(Column, Option<Statistics>)> {
    let mut entries: Vec<&[u8]> = Vec::new();
    let mut merged: Vec<(u32, usize)> = Vec::new();
    for &(text, length) in runs {
        let text = texts[text as usize];
        if entries.last() == Some(&text) {
            if let Some(run) = merged.last_mut() {
                run.1 += length;
            }
        } else {
            merged.push((entries.len() as u32, length));
            entries.push(text);
        }
    }
    let mut buffer = Vec::new();
    entries
        .iter()
        .for_each(|text| pages::plain_text(text, &mut buffer));
    let mut column = Column::default();
    column.dictionary(&buffer, entries.len(), zstd)?;
    pages::runs(&merged, entries.len(), &mut buffer);
    column.data(Encoding::RLE_DICTIONARY, &buffer, points, zstd)?;
    let range = entries.iter().min().zip(entries.iter().max());
    let statistics = range.map(|(least, most)| pages::text_range(least, most));
    Ok((column, statistics))
}

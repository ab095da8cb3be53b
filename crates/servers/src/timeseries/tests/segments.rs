use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

use super::super::points::{write_points, Part};
use super::super::segment;
use super::super::series::{Registry, Totals};
use super::Folder;
use venturi_base::data::points::series_hash;

/// Its series, its metric, its time and the bits of its value.
type Point = (String, String, i64, u64);
/// Names of series, and rows of a stamp and their values.
type Source<'a> = (Vec<&'a str>, Vec<(i64, Vec<f64>)>);

/// All points of a file.
fn points(path: &Path) -> Vec<Point> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let mut points = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let text = |column: usize, at| batch.column(column).as_string::<i32>().value(at).to_owned();
        let times = batch.column(2).as_primitive::<TimestampNanosecondType>();
        let values = batch.column(3).as_primitive::<Float64Type>();
        points.extend((0..batch.num_rows()).map(|at| {
            let value = values.value(at).to_bits();
            (text(0, at), text(1, at), times.value(at), value)
        }));
    }
    points
}

fn parts(registry: &Registry, parts: &[Source<'_>]) -> Vec<Part> {
    let part = |(names, rows): &Source<'_>| Part {
        series: names
            .iter()
            .map(|name| registry.register(name.as_bytes()).unwrap())
            .collect(),
        stamps: rows.iter().map(|(time, _)| *time).collect(),
        values: rows.iter().flat_map(|(_, values)| values.clone()).collect(),
    };
    parts.iter().map(part).collect()
}

fn check(sources: &[Source<'_>]) {
    let folder = Folder::new();
    let registry = Registry::new(1000);
    let parts = parts(&registry, sources);
    let path = folder.0.join("points.parquet");
    let (lines, _) = write_points(&path, &parts, &registry, false).unwrap();
    let mut expected: Vec<(String, i64, u64)> = Vec::new();
    for (names, rows) in sources {
        for (time, values) in rows {
            for (name, value) in names.iter().zip(values) {
                expected.push((name.to_string(), *time, value.to_bits()));
            }
        }
    }
    expected.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let wanted = expected.iter().map(|(name, time, value)| {
        let metric = name.split(' ').next().unwrap();
        (name.clone(), metric.to_owned(), *time, *value)
    });
    assert!(points(&path).into_iter().eq(wanted));
    for line in &lines {
        let name = std::str::from_utf8(&line.name).unwrap();
        let own = expected.iter().filter(|it| it.0 == name);
        let own = own.map(|it| (it.1, f64::from_bits(it.2)));
        assert_eq!(line.totals, Totals::of(series_hash(&line.name), own));
    }
    assert_eq!(
        segment::promised_rows(&path).unwrap(),
        expected.len() as u64
    );
    let path = folder.0.join("series.parquet");
    segment::write_series(&path, &lines, false).unwrap();
    let read = segment::read_series(&path).unwrap();
    let written = lines.iter().map(|it| (it.name.to_vec(), it.totals));
    assert_eq!(read, written.collect::<Vec<_>>());
    assert_eq!(segment::count_points(&path).unwrap(), expected.len() as u64);
}

#[test]
fn long_and_short_series_late_points_and_several_sources() {
    let long: Vec<(i64, Vec<f64>)> = (0..40_000)
        .map(|at| (at * 1_000_000_000, vec![at as f64 * 0.1, 7.0]))
        .collect();
    let short: Vec<(i64, Vec<f64>)> = (0..10).map(|at| (20 - at, vec![at as f64])).collect();
    let same = vec![(5, vec![-0.0]), (5, vec![0.5]), (3, vec![f64::INFINITY])];
    check(&[
        (vec!["b host=1", "a host=1"], long),
        (vec!["a host=2"], short.clone()),
        (vec!["c host=1"], same.clone()),
        (vec!["c host=1"], same),
    ]);
    let far = vec![(i64::MAX, vec![1.0]), (i64::MIN + 1, vec![2.0])];
    check(&[(vec!["a x=y"], far)]);
}

#[test]
fn a_series_goes_on_in_the_next_row_group() {
    let rows = |from: i64| {
        (from..from + 600_000)
            .map(|at| (at, vec![at as f64]))
            .collect()
    };
    check(&[(vec!["a x=1"], rows(0)), (vec!["b x=1"], rows(7))]);
}

/// Some values of so many, in any order.
fn levels(rows: usize, many: u64, from: u64) -> Vec<(i64, Vec<f64>)> {
    let mut state = from;
    let mut next = || {
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        state = state.wrapping_mul(FACTOR).wrapping_add(1);
        (from + (state >> 33) % many) as f64 * 0.1
    };
    let rows = (0..rows as i64).map(|at| (at * 1_000_000_000, vec![next()]));
    rows.collect()
}

/// Values by a dictionary, and pages without: of noise, and once the dictionary is full.
#[test]
fn levels_and_noise_in_one_row_group() {
    let names: Vec<String> = (0..120).map(|at| format!("m a={at:03}")).collect();
    let mut parts: Vec<Source<'_>> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let many = [1, 2, 100, 120, u64::MAX][at % 5];
        // Short ones share a page.
        let rows = [2000, 30][at / 5 % 2];
        parts.push((vec![name], levels(rows, many, 10_000 * at as u64)));
    }
    let special = [-0.0, 0.0, f64::INFINITY, 5e-324, f64::MAX];
    let rows = (0..1100).map(|at| (at, vec![special[at as usize * 3 % 5]]));
    parts.push((vec!["o c=1"], rows.collect()));
    for (at, name) in ["p d=1", "p d=2", "p d=3", "p d=4"].iter().enumerate() {
        parts.push((vec![name], levels(10_000, 600, 5_000_000 * (1 + at as u64))));
    }
    check(&parts);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_levels(series in prop::collection::vec((1usize..3000, 1u64..400, any::<u32>()), 1..6)) {
        let names = ["m a=1", "m a=2", "n a=1", "o a=1", "o a=2"];
        let made = |(name, &(rows, many, from)): (&&'static str, &(usize, u64, u32))| {
            (vec![*name], levels(rows, many, from.into()))
        };
        check(&names.iter().zip(&series).map(made).collect::<Vec<_>>());
    }

    #[test]
    fn any_points(rows in prop::collection::vec((0usize..4, any::<i64>(), -1e9f64..1e9), 1..400), step in 0i64..5) {
        let names = ["m a=1", "m a=2", "n a=1", "o a=1"];
        let mut parts: Vec<Source<'_>> =
            names.iter().map(|name| (vec![*name], Vec::new())).collect();
        for (series, time, value) in rows {
            parts[series].1.push((if step == 0 { time } else { time % 1000 * step }, vec![value]));
        }
        parts.retain(|(_, rows)| !rows.is_empty());
        check(&parts);
    }
}

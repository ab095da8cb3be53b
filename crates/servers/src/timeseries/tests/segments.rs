use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use proptest::prelude::*;

use super::super::head::{Frozen, Part};
use super::super::registry::Registry;
use super::super::segment;
use super::super::totals::Totals;
use super::Folder;
use venturi_base::data::points::series_hash;

/// Its series, its metric, and the bits of its value.
type Point = (String, String, u64);
/// Names of series, and rows of a stamp and their values.
type Source<'a> = (Vec<&'a str>, Vec<(i64, Vec<f64>)>);

/// All points of a file, by the crate's own reader.
fn points(path: &Path) -> Vec<Point> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let text = |at| row.get_string(at).unwrap().clone();
        (text(0), text(1), row.get_double(3).unwrap().to_bits())
    })
    .collect()
}

fn frozen(registry: &Registry, parts: &[Source<'_>]) -> Frozen {
    let parts = parts.iter().map(|(names, rows)| Part {
        series: names
            .iter()
            .map(|name| registry.register(name.as_bytes()).unwrap())
            .collect(),
        stamps: rows.iter().map(|(time, _)| *time).collect(),
        values: rows.iter().flat_map(|(_, values)| values.clone()).collect(),
    });
    Frozen {
        id: 1,
        parts: parts.collect(),
        log: None,
    }
}

/// Times are compared through the totals: the crate's rows have no nanoseconds.
fn check(parts: &[Source<'_>]) {
    let folder = Folder::new();
    let registry = Registry::new(1000);
    let frozen = frozen(&registry, parts);
    let path = folder.0.join("points.parquet");
    let (lines, _) = segment::write_points(&path, &frozen, &registry, false).unwrap();
    let mut expected: Vec<(String, i64, u64)> = Vec::new();
    for (names, rows) in parts {
        for (time, values) in rows {
            for (name, value) in names.iter().zip(values) {
                expected.push((name.to_string(), *time, value.to_bits()));
            }
        }
    }
    expected.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let wanted = expected.iter().map(|(name, _, value)| {
        let metric = name.split(' ').next().unwrap();
        (name.clone(), metric.to_owned(), *value)
    });
    assert_eq!(points(&path), wanted.collect::<Vec<_>>());
    let stamps: Vec<i64> = expected.iter().map(|it| it.1).collect();
    assert_eq!(times(&path), stamps);
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

fn times(path: &Path) -> Vec<i64> {
    use parquet::column::reader::get_typed_column_reader;
    use parquet::data_type::Int64Type;
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut times = Vec::new();
    for place in 0..reader.num_row_groups() {
        let group = reader.get_row_group(place).unwrap();
        let rows = group.metadata().num_rows() as usize;
        let mut column = get_typed_column_reader::<Int64Type>(group.get_column_reader(2).unwrap());
        let wanted = times.len() + rows;
        while times.len() < wanted {
            let missing = wanted - times.len();
            let read = column.read_records(missing, None, None, &mut times);
            read.unwrap();
        }
    }
    times
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

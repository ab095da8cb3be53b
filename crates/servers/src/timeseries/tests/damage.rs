//! Any bit of any file of a store turns: it is named, and no answer has anything of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{json, Value};

use super::super::config::ServerSpec;
use super::super::files::{self, Damaged, Segment};
use super::super::recover;
use super::super::store::Store;
use super::{ask, connect, flushed, rows, spec, start_one, statistics, Folder};
use venturi_testkit::assert_contains;

/// A store of two segments, of an odd and an even host.
fn two_segments() -> Folder {
    let folder = Folder::new();
    for host in 0..2 {
        let server = start_one(&folder);
        let text = rows(host + 1, 10 * host..10 * host + 10) + "+FLUSH\r\n";
        assert!(ask(&server, "resp", text.as_bytes()).starts_with("+OK"));
        server.stop();
    }
    folder
}

pub fn files(folder: &Folder, below: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.0.join(below)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn look(folder: &Folder) -> (Vec<Segment>, Vec<Damaged>) {
    let found = files::look(&folder.0).unwrap();
    (found.segments, found.damaged)
}

fn open(folder: &Folder) -> Arc<Store> {
    let text = spec(folder, json!({"threads": 1, "max_series": 100})).to_string();
    recover::open(ServerSpec::parse(&text).unwrap()).unwrap()
}

/// Points, series and checksum, and the damaged files.
fn told(store: &Store) -> (Value, Vec<String>) {
    let told = store.statistics(&[]);
    let named = told["recovered"]["damaged"].as_array().unwrap().iter();
    let named = named.map(|it| it["file"].as_str().unwrap().to_owned());
    let held = json!([told["points"], told["series"], told["checksum"]]);
    (held, named.collect())
}

fn name(folder: &Folder, path: &Path) -> String {
    path.strip_prefix(&folder.0).unwrap().display().to_string()
}

#[test]
fn every_byte_of_a_segment() {
    let folder = two_segments();
    let (segments, damaged) = look(&folder);
    assert_eq!((segments.len(), damaged), (2, Vec::new()));
    let whole = told(&open(&folder));
    let mut positions = 0;
    for place in 0..2 {
        let (bad, good) = (&segments[place], &segments[1 - place]);
        let moved = [&bad.points, &bad.series].map(|path| (path, fs::read(path).unwrap()));
        for (path, _) in &moved {
            fs::remove_file(path).unwrap();
        }
        let (rest, named) = told(&open(&folder));
        assert!(named.is_empty() && rest != whole.0);
        for (path, bytes) in &moved {
            fs::write(path, bytes).unwrap();
        }
        for (path, bytes) in &moved {
            // One checksum has all bytes.
            for at in (0..bytes.len()).step_by(5) {
                let mut turned = bytes.clone();
                turned[at] ^= 1 << (at % 8);
                fs::write(path, &turned).unwrap();
                let (segments, damaged) = look(&folder);
                let left = std::slice::from_ref(good);
                assert_eq!(segments, left, "{} {at}", path.display());
                assert_eq!(damaged.len(), 1, "{damaged:?}");
                assert_eq!(damaged[0].file, name(&folder, path));
                // The store itself asks the same, and takes longer.
                if at % 40 == 0 {
                    let said = told(&open(&folder));
                    assert_eq!(said, (rest.clone(), vec![name(&folder, path)]), "{at}");
                }
                positions += 1;
            }
            fs::write(path, bytes).unwrap();
        }
    }
    assert!(positions > 600, "{positions}");
    assert_eq!(told(&open(&folder)), whole);
}

#[test]
fn points_that_are_gone_are_missed() {
    let folder = two_segments();
    let (segments, _) = look(&folder);
    fs::remove_file(&segments[0].points).unwrap();
    let (_, named) = told(&open(&folder));
    assert_eq!(named, [name(&folder, &segments[0].series)]);
}

#[test]
fn every_byte_of_a_segments_names() {
    let folder = two_segments();
    let (segments, _) = look(&folder);
    let whole = told(&open(&folder));
    for path in [&segments[0].points, &segments[0].series] {
        let known = path.file_name().unwrap().to_str().unwrap().as_bytes();
        for at in 0..known.len() {
            let mut turned = known.to_vec();
            turned[at] ^= 1;
            if turned[at] == b'/' {
                continue; // no name has it
            }
            let other = path.with_file_name(std::str::from_utf8(&turned).unwrap());
            fs::rename(path, &other).unwrap();
            let (found, damaged) = look(&folder);
            assert_eq!(found, [segments[1].clone()], "{}", other.display());
            let (_, named) = told(&open(&folder));
            assert!(!named.is_empty(), "{}", other.display());
            assert!(damaged.iter().all(|it| named.contains(&it.file)));
            // The last letters are what makes it a file of a segment: of points whose are not
            // right, only the start knows that they are missing.
            assert!(!damaged.is_empty() || at >= known.len() - ".parquet".len());
            // Nothing is lost by a start: once it is mended, all is there.
            fs::rename(&other, path).unwrap();
            assert_eq!(told(&open(&folder)), whole);
        }
    }
}

#[test]
fn every_byte_of_a_log() {
    let folder = Folder::new();
    let server = start_one(&folder);
    let mut socket = connect(&server, "resp");
    for step in 0..3 {
        flushed(&mut socket, &rows(2, step..step + 1), 4 * (step + 1));
    }
    let crashed = folder.copy();
    let (log, bytes) = {
        let path = files(&crashed, "log").remove(0);
        let bytes = fs::read(&path).unwrap();
        (name(&crashed, &path), bytes)
    };
    let after = |bytes: &[u8]| {
        let copy = Folder::new();
        fs::create_dir_all(copy.0.join("log")).unwrap();
        fs::write(copy.0.join(&log), bytes).unwrap();
        let (held, named) = told(&open(&copy));
        (held, named, files(&copy, "log").len())
    };
    let (whole, named, _) = after(&bytes);
    assert_eq!((&whole[0], named.len()), (&json!(12), 0));
    // What a log has up to each of its bytes, by how much that is.
    let mut parts = BTreeMap::new();
    // (Each byte is looked at in `logs`.)
    for end in (0..bytes.len()).step_by(5) {
        let (told, _, kept) = after(&bytes[..end]);
        assert_eq!(kept, 0, "{end}");
        parts.insert(told[0].as_u64().unwrap(), told);
    }
    assert_eq!(parts.keys().copied().collect::<Vec<_>>(), [0, 4, 8]);
    for at in (0..bytes.len()).step_by(5) {
        let mut turned = bytes.clone();
        turned[at] ^= 1 << (at % 8);
        let (told, named, kept) = after(&turned);
        assert_eq!(kept, 1, "{at}");
        assert_eq!(named, std::slice::from_ref(&log), "{at}");
        assert_eq!(Some(&told), parts.get(&told[0].as_u64().unwrap()), "{at}");
    }
}

/// Every file and what is in it.
fn everything(folder: &Folder) -> BTreeMap<PathBuf, Vec<u8>> {
    let below = ["points", "series", "log"].map(|below| files(folder, below));
    let content = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    below.into_iter().flatten().map(content).collect()
}

#[test]
fn too_many_series_are_an_error_before_anything_is_touched() {
    let folder = Folder::new();
    let server = start_one(&folder);
    flushed(&mut connect(&server, "resp"), &rows(10, 0..10), 200);
    let logged = folder.copy();
    drop(server);
    for folder in [logged, folder] {
        fs::write(
            folder.0.join("points/0000000000000099.parquet.tmp"),
            b"half",
        )
        .unwrap();
        let before = everything(&folder);
        let few = spec(&folder, json!({"max_series": 19})).to_string();
        let error = recover::open(ServerSpec::parse(&few).unwrap()).unwrap_err();
        assert_contains(&error.message, "more series than --max-series 19 allows");
        assert_eq!(everything(&folder), before);
        let (held, named) = told(&open(&folder));
        let seen = (&held[0], &held[1], named.len());
        assert_eq!(seen, (&json!(200), &json!(20), 0));
    }
}

/// What a crash at any step leaves of a log and its segment, and what is put back by hand.
#[test]
fn a_log_goes_only_when_its_segment_has_all_of_it() {
    let folder = Folder::new();
    let server = start_one(&folder);
    let mut socket = connect(&server, "resp");
    let mut ends = Vec::new();
    for step in 0..3 {
        flushed(&mut socket, &rows(2, step..step + 1), 4 * (step + 1));
        ends.push(statistics(&server)["log_bytes"].as_u64().unwrap() as usize);
    }
    let crashed = folder.copy();
    let log = files(&crashed, "log").remove(0);
    let whole = fs::read(&log).unwrap();
    let mut bad = whole.clone();
    bad[ends[0] + 20] ^= 1;
    fs::write(&log, &bad).unwrap();
    let (first, _) = told(&open(&crashed));
    assert_eq!(first[0], 4);
    let damaged = log.with_extension("log.damaged");
    assert_eq!(files(&crashed, "log"), std::slice::from_ref(&damaged));
    let kept = || -> Vec<_> {
        let files = files(&crashed, "log");
        files.iter().map(|it| name(&crashed, it)).collect()
    };
    for (content, goes) in [
        (&whole[..ends[0]], true),
        (&bad[..], false),
        (&whole[..], false),
    ] {
        let mut expected = kept();
        if !goes {
            expected.insert(0, name(&crashed, &log));
        }
        fs::write(&log, content).unwrap();
        assert_eq!(told(&open(&crashed)), (first.clone(), expected.clone()));
        // Every start names all that were kept, and none takes the place of another one.
        assert!(!log.exists() && kept().len() == expected.len());
        assert_eq!(told(&open(&crashed)), (first.clone(), kept()));
        assert_eq!(fs::read(&damaged).unwrap(), bad);
    }
}

#[test]
fn two_files_of_one_segment_and_one_that_is_nobodys() {
    let folder = two_segments();
    let path = files(&folder, "points").remove(0);
    let twin = path.with_file_name("0000000000000001-ffffffffffffffff.parquet");
    fs::copy(&path, &twin).unwrap();
    fs::write(path.with_file_name("mine.parquet"), b"x").unwrap();
    fs::write(path.with_file_name("notes.txt"), b"x").unwrap();
    // Of a segment that was being made, its end has never been there; of the other, it is gone.
    let half = path.with_file_name("0000000000000099.parquet.tmp");
    fs::write(&half, b"half").unwrap();
    let series = files(&folder, "series").remove(1);
    let bytes = fs::read(&series).unwrap();
    fs::write(&series, &bytes[..bytes.len() - 9]).unwrap();
    let mine = "points/mine.parquet".to_owned();
    let (held, named) = told(&open(&folder));
    assert_eq!(held[0], 20);
    assert_eq!(named, [name(&folder, &twin), mine, name(&folder, &series)]);
    assert!(!half.exists() && series.exists());
}

use std::fs;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::super::log::{replay, Damage, Log, Replay};
use super::Folder;

#[derive(Default)]
struct Kept {
    groups: Vec<Vec<Vec<u8>>>,
    rows: Vec<(u32, i64, Vec<u64>)>,
}

impl Replay for Kept {
    fn define(&mut self, names: Vec<&[u8]>) -> Option<()> {
        self.groups
            .push(names.iter().map(|name| name.to_vec()).collect());
        Some(())
    }

    fn width(&self, group: u32) -> Option<usize> {
        self.groups.get(group as usize).map(Vec::len)
    }

    fn row(&mut self, group: u32, time: i64, values: &[f64]) {
        let bits = values.iter().map(|value| value.to_bits()).collect();
        self.rows.push((group, time, bits));
    }
}

/// A log of some records; where each ends and how many rows there are up to there.
fn write(folder: &Folder, turns: &[Vec<i64>]) -> (std::path::PathBuf, Vec<(u64, usize)>) {
    let path = folder.0.join("a.log");
    let mut log = Log::create(path.clone()).unwrap();
    let mut ends = vec![(log.length, 0)];
    let mut rows = 0;
    for (number, turn) in turns.iter().enumerate() {
        let names = [format!("a n={number}"), format!("b n={number}")];
        log.define(names.iter().map(|name| name.as_bytes()));
        for &time in turn {
            log.row(number as u32, time, &[time as f64, f64::NAN]);
            rows += 1;
        }
        log.write().unwrap();
        ends.push((log.length, rows));
    }
    (path, ends)
}

/// Cut at every byte, and with a bit turned in each.
#[test]
fn damage_at_every_byte() {
    let folder = Folder::new();
    let (path, ends) = write(&folder, &[vec![1, 2, 3], vec![4], vec![5, 6]]);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut turned = whole.clone();
        turned[at] ^= 1 << (at % 8);
        let before = ends.iter().rev().find(|(end, _)| *end <= at as u64);
        let &(offset, rows) = before.unwrap_or(&(0, 0));
        // A turned one is kept: it would be thrown away if it were told as torn.
        for (bytes, torn) in [(&whole[..at], true), (&turned, false)] {
            fs::write(&path, bytes).unwrap();
            let mut kept = Kept::default();
            let damage = replay(&path, &mut kept).unwrap();
            let lost = bytes.len() as u64 - offset;
            let expected = (lost > 0).then_some(Damage { offset, lost, torn });
            assert_eq!((damage, kept.rows.len()), (expected, rows), "{at}");
        }
    }
}

#[test]
fn a_log_of_another_version_is_an_error_that_names_it() {
    let folder = Folder::new();
    let path = folder.0.join("a.log");
    fs::write(&path, b"VENTLOG1 and more").unwrap();
    let error = replay(&path, &mut Kept::default()).unwrap_err();
    assert!(error.to_string().contains("log format 1"), "{error}");
}

/// The most that a file may have, which is as good as a full disk; no other test has such files.
const ROOM: u64 = 1 << 40;

fn limit_files(bytes: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read and write the struct they are given, nothing else.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit), 0);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

/// A disk is full and is freed again: a record then begins where the last whole one ends.
#[test]
fn no_hole_after_a_write_that_failed() {
    let folder = Folder::new();
    let mut log = Log::create(folder.0.join("a.log")).unwrap();
    log.file.set_len(ROOM - 50).unwrap();
    log.length = ROOM - 50;
    limit_files(ROOM);
    log.define([&b"a n=1"[..]].into_iter());
    log.row(0, 1, &[1.0; 9]);
    let failed = log.write();
    limit_files(u64::MAX);
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::EFBIG));
    log.row(0, 2, &[2.0]);
    let bytes = log.write().unwrap();
    assert_eq!(log.file.metadata().unwrap().len(), ROOM - 50 + bytes);
    let mut length = [0; 4];
    let file = fs::File::open(&log.path).unwrap();
    file.read_exact_at(&mut length, ROOM - 50).unwrap();
    assert_eq!(u64::from(u32::from_le_bytes(length)) + 16, bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_was_written_comes_back(turns in prop::collection::vec(prop::collection::vec(any::<i64>(), 1..20), 1..6)) {
        let folder = Folder::new();
        let (path, _) = write(&folder, &turns);
        let mut kept = Kept::default();
        prop_assert_eq!(replay(&path, &mut kept).unwrap(), None);
        let expected: Vec<_> = turns
            .iter()
            .enumerate()
            .flat_map(|(number, turn)| turn.iter().map(move |&time| (number as u32, time)))
            .map(|(number, time)| (number, time, vec![(time as f64).to_bits(), f64::NAN.to_bits()]))
            .collect();
        prop_assert_eq!(kept.rows, expected);
    }

    #[test]
    fn garbage_is_no_panic(bytes: Vec<u8>) {
        let folder = Folder::new();
        let path = folder.0.join("a.log");
        fs::write(&path, [b"VENTLOG2", &bytes[..]].concat()).unwrap();
        replay(&path, &mut Kept::default()).unwrap();
    }
}

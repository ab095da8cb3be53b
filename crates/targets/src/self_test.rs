//! What verification must find in counts that are written down here. They are of what no trial of
//! `venturi prove` meets: a stranger's server, a store that holds too much.

use crate::read::{self, Baseline, Summed};
use crate::reference::{compared, Planned};
use crate::timeseries::verify::{compare, Held, Stored};
use crate::{Doubt, Tally};
use venturi_base::os::machine::Place;
use venturi_base::spec::{Operation, TrialSpec, Verify};

/// Takes an answer: its name, what it should be, what it is, and its unit.
pub type Tell<'a> = &'a mut dyn FnMut(&'static str, i64, i64, &'static str);

pub fn answers(tell: Tell<'_>) {
    tallies(tell);
    for (part, held, checksum, wrong) in [
        ("points-all", 100, 7, false),
        ("points-fewer", 99, 7, true),
        ("points-more", 101, 7, true),
        ("points-others", 100, 8, true),
    ] {
        tell(
            part,
            wrong.into(),
            store_is_wrong(held, checksum).into(),
            "",
        );
    }
    for (part, rows, wrong) in [
        ("planned-all", 100, false),
        ("planned-fewer", 99, true),
        ("planned-more", 101, true),
    ] {
        tell(part, wrong.into(), get_is_wrong(rows).into(), "");
    }
    for (part, rows, sum, checksum, wrong) in [
        ("read-all", 100, 7, 9, false),
        ("read-fewer", 99, 7, 9, true),
        ("read-other-sums", 100, 8, 9, true),
        ("read-other-rows", 100, 7, 8, true),
    ] {
        let found = read_is_wrong(rows, sum, checksum);
        tell(part, wrong.into(), found.into(), "");
    }
}

/// Two lanes of one stream.
fn tallies(tell: Tell<'_>) {
    let lane = |times: u64| Tally {
        rows: 3 * times,
        // Together 2^64 and 1, which wraps to 1.
        checksum: if times == 1 { u64::MAX } else { 2 },
        wire_bytes: 5 * times,
        doubt: Doubt {
            batches: 7 * times,
            rows: 11 * times,
            ..Doubt::default()
        },
        retries: 13 * times,
        ..Tally::default()
    };
    let both = lane(1).plus(&lane(2));
    for (part, expected, found, unit) in [
        ("lanes-rows", 9, both.rows, "rows"),
        ("lanes-wire", 15, both.wire_bytes, "B"),
        ("lanes-doubtful", 21, both.doubt.batches, ""),
        ("lanes-doubtful-rows", 33, both.doubt.rows, "rows"),
        ("lanes-retries", 39, both.retries, ""),
    ] {
        tell(part, expected, found as i64, unit);
    }
    tell("lanes-checksum", 1, both.checksum as i64, "");
}

/// 100 points were sent to a store that held none.
fn store_is_wrong(points: u64, checksum: u64) -> bool {
    let held = |points, checksum: u64| {
        Held::Reference(Stored {
            software: String::new(),
            place: Place::default(),
            points,
            checksum: format!("{checksum:016x}"),
            stored_bytes: None,
        })
    };
    let sent = Tally {
        rows: 100,
        checksum: 7,
        ..Tally::default()
    };
    let (before, after) = (held(0, 0), held(points, checksum));
    compare(&before, &after, &[sent], Verify::Checksum, true)
        .mismatch
        .is_some()
}

/// A database had said that there are 100 rows, whose sum is 7 and whose digest is 9.
fn read_is_wrong(rows: u64, sum: i128, checksum: u64) -> bool {
    let spec = TrialSpec::parse(
        r#"{"trial": "known", "target": "postgres://h", "operation": "get", "data": {"source": "remote"},
            "rows_per_batch": 1, "streams": 1, "threads": 1}"#,
    );
    let mut there = Baseline {
        rows: 100,
        checksum: Some(9),
        ..Baseline::default()
    };
    there.sums[0] = 7;
    let mut received = Tally {
        rows,
        checksum,
        ..Tally::default()
    };
    received.sums[0] = sum;
    let summed = Summed::new([("a".to_owned(), Some("sum(a)".to_owned()))]);
    spec.is_ok_and(|spec| {
        let compared = read::compare(&spec, &summed, Some(&there), 1, &[received]);
        compared.mismatch.is_some()
    })
}

/// A server that does not account for what it sent had said that there are 100 rows.
fn get_is_wrong(rows: u64) -> bool {
    let planned = Planned {
        operation: Operation::Get,
        rows: Some(100),
        fixed_work: true,
    };
    let received = Tally {
        rows,
        ..Tally::default()
    };
    compared(Verify::Count, &planned, None, &[received])
        .mismatch
        .is_some()
}

//! Answers that are known beforehand: each follows from the definition at the function that is
//! asked. They are about what `venturi prove` has no trials of: strings, lists and nulls, several
//! servers, another machine, samples with known contents. Those of verification are with the targets.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use serde::Serialize;

use venturi_base::codec::account::Account;
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::align::{align, Trip};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::cpu::{self, CpuTime};
use venturi_base::meter::readers::network::Interface;
use venturi_base::meter::resources::End;
use venturi_base::meter::series::{Facts, Series};
use venturi_targets::self_test::Tell;

/// What a figure should be, and what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    pub part: &'static str,
    pub expected: i64,
    pub found: i64,
    pub unit: &'static str,
}

pub fn answers() -> Result<Vec<Answer>> {
    let mut found = Vec::new();
    let mut tell = |part, expected: i64, answer: i64, unit| {
        found.push(Answer {
            part,
            expected,
            found: answer,
            unit,
        });
    };
    payloads(&mut tell);
    digests(&mut tell)?;
    servers(&mut tell);
    processes(&mut tell);
    clocks(&mut tell);
    stages(&mut tell);
    samples(&mut tell)?;
    venturi_targets::self_test::answers(&mut tell);
    Ok(found)
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn numbers(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn lists(values: &[&[i32]]) -> ArrayRef {
    let values = values
        .iter()
        .map(|list| Some(list.iter().copied().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(values))
}

fn batch(columns: &[&ArrayRef]) -> RecordBatch {
    let named = ["a", "b"].into_iter().zip(columns);
    RecordBatch::try_from_iter(named.map(|(name, column)| (name, Arc::clone(column))))
        .expect("columns of one length")
}

fn payloads(tell: Tell<'_>) {
    let cases = [
        // Four offsets of 4 bytes, and the text.
        (
            "payload-of-strings",
            19,
            strings(&[Some("ab"), Some("c"), Some("")]),
        ),
        // Three values, and a bit for each.
        ("payload-with-nulls", 25, numbers(&[Some(1), None, Some(3)])),
        // Three offsets, and three values of 4 bytes.
        ("payload-of-lists", 24, lists(&[&[1, 2], &[3]])),
    ];
    for (part, expected, column) in cases {
        tell(
            part,
            expected,
            payload_bytes(&batch(&[&column])) as i64,
            "B",
        );
    }
}

fn digests(tell: Tell<'_>) -> Result<()> {
    let (one, two) = (numbers(&[Some(1), Some(2)]), numbers(&[Some(2), Some(1)]));
    let long = numbers(&[Some(7), Some(1), Some(2)]);
    let cases = [
        (
            "digest-of-ends",
            true,
            batch(&[&strings(&[Some("ab"), Some("c")])]),
            batch(&[&strings(&[Some("a"), Some("bc")])]),
        ),
        (
            "digest-of-nulls",
            true,
            batch(&[&numbers(&[None, Some(1)])]),
            batch(&[&numbers(&[Some(1), None])]),
        ),
        (
            "digest-of-lists",
            true,
            batch(&[&lists(&[&[1, 2], &[3]])]),
            batch(&[&lists(&[&[1], &[2, 3]])]),
        ),
        ("digest-of-rows", true, batch(&[&one]), batch(&[&two])),
        (
            "digest-of-columns",
            true,
            batch(&[&one, &two]),
            batch(&[&two, &one]),
        ),
        (
            "digest-of-a-slice",
            false,
            batch(&[&one]),
            batch(&[&long.slice(1, 2)]),
        ),
    ];
    for (part, differ, one, two) in cases {
        let found = digest(&one)? != digest(&two)?;
        tell(part, i64::from(differ), i64::from(found), "");
    }
    Ok(())
}

/// Two servers of one trial.
fn servers(tell: Tell<'_>) {
    let account = |rows: u64, checksum: u64| Account {
        streams: 1,
        rows,
        batches: rows / 10,
        payload_bytes: rows * 8,
        checksum: format!("{checksum:016x}"),
        stages: [("decode".to_owned(), rows)].into(),
        user_ns: rows,
        system_ns: rows / 2,
        ..Account::default()
    };
    let both = account(100, u64::MAX).plus(account(300, 2));
    let checksum = i64::from_str_radix(&both.checksum, 16).unwrap_or(-1);
    for (part, expected, found, unit) in [
        ("servers-rows", 400, both.rows, "rows"),
        ("servers-batches", 40, both.batches, ""),
        ("servers-payload", 3200, both.payload_bytes, "B"),
        ("servers-stages", 400, both.stages["decode"], "ns"),
        ("servers-cpu", 600, both.user_ns + both.system_ns, "ns"),
    ] {
        tell(part, expected, found as i64, unit);
    }
    tell("servers-checksum", 1, checksum, "");
}

/// Servers that do not tell their CPU time, looked at from outside.
fn processes(tell: Tell<'_>) {
    let used = |user_ns| {
        Some(CpuTime {
            user_ns,
            system_ns: 2 * user_ns,
        })
    };
    let told = |all: &[Option<CpuTime>]| {
        let all = cpu::together(all.iter().copied());
        all.map_or(-1, |cpu| cpu.total() as i64)
    };
    tell("cpu-of-two", 3 * 12, told(&[used(5), used(7)]), "ns");
    tell("cpu-of-one-untold", -1, told(&[used(5), None]), "ns");
}

/// A clock that is 1 ms ahead, seen over a way there and back of 40 µs, and over a worse one.
fn clocks(tell: Tell<'_>) {
    let trips = [(0, 400_000, 900_000), (2_000_000, 3_020_000, 2_040_000)];
    let trips = trips.map(|(sent_ns, server_ns, received_ns)| Trip {
        sent_ns,
        server_ns,
        received_ns,
    });
    let clock = align(&trips).unwrap_or_default();
    tell("server-clock-ahead", 1_000_000, clock.offset_ns, "ns");
    tell(
        "server-clock-unsure",
        20_000,
        clock.uncertainty_ns as i64,
        "ns",
    );
}

/// The stages in which a worker waits are those whose name says so.
fn stages(tell: Tell<'_>) {
    for stage in Stage::ALL {
        let waits = stage.name().starts_with("await_");
        tell(stage.name(), i64::from(waits), i64::from(stage.waits()), "");
    }
}

/// Two samples, 200 ms apart, of a machine with two cores, one and a half of them busy.
fn samples(tell: Tell<'_>) -> Result<()> {
    const MS: u64 = 1_000_000;
    let interface = Interface {
        name: "eth0".to_owned(),
        loopback: false,
        speed_bits_per_second: None,
    };
    let mut series = Series {
        facts: Facts {
            interface: Some(interface),
            quota_cores: None,
        },
        ..Series::default()
    };
    let grown = [
        ("host_total_ns", 400 * MS),
        ("host_busy_ns", 300 * MS),
        ("host_user_ns", 200 * MS),
        ("host_system_ns", 100 * MS),
        ("host_softirq_ns", 0),
        ("host_irq_ns", 0),
        ("host_steal_ns", 40 * MS),
        ("host_iowait_ns", 0),
        ("user_ns", 60 * MS),
        ("system_ns", 20 * MS),
        ("run_delay_ns", 5 * MS),
        ("net_rx_bytes", 1000),
        ("net_tx_bytes", 3000),
        ("net_rx_packets", 1),
        ("net_tx_packets", 3),
        ("net_rx_drops", 0),
        ("net_tx_drops", 2),
        ("disk_read_bytes", 10),
        ("disk_written_bytes", 30),
        ("disk_busy_ns", 50 * MS),
    ];
    let (first, last) = (5_000 * MS, 5_200 * MS);
    for (t, times) in [(first, 1), (last, 2)] {
        series.begin_row(t as i64);
        for (name, more) in grown {
            series.put(name, Some(times * more));
        }
        series.end_row(0);
    }
    // As a server hands them over.
    let series = series.pack().unpack()?;
    let untold = || Error::new(Kind::Internal, "two samples tell nothing");
    let end = End::of(&series, "self", first as i64, last as i64).ok_or_else(untold)?;
    let (host, network, disk, process) = (
        end.host.ok_or_else(untold)?,
        end.network.ok_or_else(untold)?,
        end.disk.ok_or_else(untold)?,
        end.process.ok_or_else(untold)?,
    );
    let percent = |share: f64| (share * 100.0).round() as i64;
    let at = series.t_ns.first().copied().unwrap_or_default();
    for (part, expected, found, unit) in [
        ("samples-begin", first as i64, at, "ns"),
        (
            "samples-window",
            200 * MS as i64,
            end.window_ns as i64,
            "ns",
        ),
        ("samples-busy", 75, percent(host.busy_share), "%"),
        ("samples-stolen", 10, percent(host.steal_share), "%"),
        ("samples-user", 60 * MS as i64, process.user_ns as i64, "ns"),
        (
            "samples-system",
            20 * MS as i64,
            process.system_ns as i64,
            "ns",
        ),
        ("samples-received", 1000, network.rx_bytes as i64, "B"),
        ("samples-sent", 3000, network.tx_bytes as i64, "B"),
        ("samples-dropped", 2, network.tx_drops as i64, ""),
        ("samples-read", 10, disk.read_bytes as i64, "B"),
        ("samples-written", 30, disk.written_bytes as i64, "B"),
        ("samples-disk-busy", 25, percent(disk.busy_share), "%"),
    ] {
        tell(part, expected, found, unit);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_as_known() {
        for answer in answers().unwrap() {
            assert_eq!(answer.found, answer.expected, "{}", answer.part);
        }
    }
}

//! Probes of the physical limits that results are held against.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Operation};
use venturi_engine::{Control, Failure, Outcome};
use venturi_targets::reference;

pub mod cipher;
pub mod codec;
pub mod disk;
pub mod memory;
pub mod pipe;

use venturi_base::net::tcp::{self, Flow, Placement, RemoteEnd};
use venturi_base::os::pin::allowed;

/// What Python asks for: raw TCP to or from the host of a reference server, or a raw Unix socket to
/// or from one of this host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSpec {
    /// URL of the reference Flight server that starts the far end.
    pub target: String,
    /// Options of the target, as a trial's.
    #[serde(default)]
    pub options: BTreeMap<String, serde_json::Value>,
    pub direction: Operation,
    pub streams: usize,
    /// Of this end, as the trial has them; as many as connections where nothing is said.
    #[serde(default)]
    pub threads: Option<usize>,
    /// Of all placements together.
    pub duration_ns: u64,
    /// CPUs of this end's threads, as a trial's.
    #[serde(default)]
    pub pin: Option<Vec<usize>>,
    /// Whether the far end is known to run on this machine, whatever its address: then each placement is
    /// tried.
    #[serde(default)]
    pub near: bool,
}

impl ProbeSpec {
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the probe's spec: {error}")))
    }
}

/// What Python asks for: a limit of this host.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum HostSpec {
    /// Copies in memory on so many threads.
    Memory { threads: usize, duration_ns: u64 },
    /// Writes into a directory, `fsync`, `direct` or `commit`, so many bytes at most.
    Disk {
        name: String,
        path: PathBuf,
        most_bytes: u64,
        duration_ns: u64,
    },
    /// Codecs by the names of ceiling lines: `ipc-encode`, `zstd:7-decode`.
    Codec {
        name: String,
        data: Data,
        rows_per_batch: usize,
        duration_ns: u64,
    },
    /// TLS's cipher, `seal` or `open`.
    Cipher { name: String, duration_ns: u64 },
    /// Pipes of the kernel, as a trial's streams and threads.
    Pipe {
        direction: Operation,
        streams: usize,
        threads: usize,
        duration_ns: u64,
        #[serde(default)]
        pin: Option<Vec<usize>>,
    },
}

impl HostSpec {
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the probe's spec: {error}")))
    }
}

/// What Python gets: the measured part of a ceiling line (docs/format.md).
#[derive(Debug, Clone, Serialize)]
pub struct ProbeRecord {
    pub bytes: u64,
    /// Of a codec: what these bytes of payload were encoded as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoded_bytes: Option<u64>,
    pub interval_ns: u64,
    pub outcome: Outcome,
    pub error: Option<Failure>,
}

impl ProbeRecord {
    pub fn to_json(&self) -> String {
        // Numbers and texts only: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Probes raw sockets; whatever goes wrong is in the record.
pub fn run(spec: &ProbeSpec, control: &Control) -> ProbeRecord {
    recorded("the raw probe", || probe(spec, control))
}

/// Probes a limit of this host; whatever goes wrong is in the record.
pub fn run_host(spec: &HostSpec, control: &Control) -> ProbeRecord {
    let cancelled = || control.cancelled();
    let mut encoded = None;
    let found = recorded("the probe of this host", || match spec {
        HostSpec::Memory {
            threads,
            duration_ns,
        } => memory::copy(*threads, lasting(*duration_ns)?, &cancelled),
        HostSpec::Disk {
            name,
            path,
            most_bytes,
            duration_ns,
        } => disk::write(
            path,
            disk::Way::of_name(name)?,
            *most_bytes,
            lasting(*duration_ns)?,
            &cancelled,
        ),
        HostSpec::Codec {
            name,
            data,
            rows_per_batch,
            duration_ns,
        } => {
            let work = codec::Work::of_name(name)?;
            let lasting = lasting(*duration_ns)?;
            let found = codec::run(work, data, *rows_per_batch, lasting, &cancelled)?;
            encoded = Some(found.encoded);
            Ok(found.payload)
        }
        HostSpec::Cipher { name, duration_ns } => cipher::run(
            cipher::Work::of_name(name)?,
            lasting(*duration_ns)?,
            &cancelled,
        ),
        HostSpec::Pipe {
            direction,
            streams,
            threads,
            duration_ns,
            pin,
        } => pipe::run(
            Flow {
                operation: *direction,
                streams: *streams,
                threads: *threads,
                duration: lasting(*duration_ns)?,
                pin: pin.as_deref(),
            },
            &cancelled,
        ),
    });
    ProbeRecord {
        encoded_bytes: encoded,
        ..found
    }
}

fn lasting(duration_ns: u64) -> Result<Duration> {
    match Duration::from_nanos(duration_ns) {
        time if time.is_zero() || time > tcp::LONGEST => Err(Error::usage(
            "the probe's duration must be above 0, an hour at most",
        )),
        time => Ok(time),
    }
}

fn recorded(what: &str, work: impl FnOnce() -> Result<tcp::Probe>) -> ProbeRecord {
    let panicked = |_| Err(Error::new(Kind::Internal, format!("{what} panicked")));
    match catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked) {
        Ok(probe) => ProbeRecord {
            bytes: probe.bytes,
            encoded_bytes: None,
            interval_ns: probe.interval_ns,
            outcome: Outcome::Ok,
            error: None,
        },
        Err(error) => ProbeRecord {
            bytes: 0,
            encoded_bytes: None,
            interval_ns: 0,
            outcome: match error.kind {
                Kind::Cancelled => Outcome::Interrupted,
                _ => Outcome::Failed,
            },
            error: Some(Failure::new(error, None)),
        },
    }
}

/// A limit is the most that can be had. Within one machine that depends on where the ends
/// run, so each placement that a trial can fall into has its share of the time, and the
/// best counts.
fn probe(spec: &ProbeSpec, control: &Control) -> Result<tcp::Probe> {
    let asking = reference::raw_peer(&spec.target, &spec.options);
    let (addr, ticket) = venturi_base::net::runtime::block_on(asking)??;
    let ticket = ticket.unwrap_or(tcp::OPEN);
    let peer = RemoteEnd { addr, ticket };
    let near = spec.near || peer.is_near();
    let placements: &[Placement] = match near && allowed()?.len() > 1 {
        true => &[Placement::Free, Placement::OneCpu, Placement::Apart],
        false => &[Placement::Free],
    };
    let flow = Flow {
        operation: spec.direction,
        streams: spec.streams,
        threads: spec.threads.unwrap_or(spec.streams),
        duration: lasting(spec.duration_ns)? / placements.len() as u32,
        pin: spec.pin.as_deref(),
    };
    let mut best: Option<tcp::Probe> = None;
    for placement in placements {
        let found = tcp::probe(&peer, flow, *placement, &|| control.cancelled())?;
        if best.is_none_or(|best| found.rate() > best.rate()) {
            best = Some(found);
        }
    }
    best.ok_or_else(|| Error::new(Kind::Internal, "raw sockets: nothing was probed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_a_failed_probe() {
        let spec = r#"{"target": "flight://127.0.0.1:1", "direction": "get", "streams": 1,
            "duration_ns": 1000}"#;
        let record = run(&ProbeSpec::parse(spec).unwrap(), &Control::new());
        assert_eq!(record.outcome, Outcome::Failed);
        let error = record.error.unwrap();
        assert_eq!(error.kind, Kind::Unreachable, "{}", error.message);
        assert!(ProbeSpec::parse("{}").is_err());
    }

    #[test]
    fn a_host_is_probed_by_what_its_spec_names() {
        let answer = |spec: &str| run_host(&HostSpec::parse(spec).unwrap(), &Control::new());
        let data = r#""data": {"source": "records"}, "rows_per_batch": 1000"#;
        let record = answer(&format!(
            r#"{{"kind": "codec", "name": "lz4-encode", {data}, "duration_ns": 1000000}}"#
        ));
        assert_eq!((record.outcome, record.error), (Outcome::Ok, None));
        assert!(record.bytes >= 32_000 && record.interval_ns >= 1_000_000);
        assert!(record
            .encoded_bytes
            .is_some_and(|encoded| encoded >= record.bytes));
        for wrong in [
            r#"{"kind": "memory", "threads": 0, "duration_ns": 1000}"#,
            r#"{"kind": "memory", "threads": 1, "duration_ns": 0}"#,
            r#"{"kind": "pipe", "direction": "get", "streams": 0, "threads": 1, "duration_ns": 1}"#,
            r#"{"kind": "disk", "name": "paper", "path": "/tmp", "most_bytes": 1, "duration_ns": 1}"#,
        ] {
            assert_eq!(answer(wrong).error.unwrap().kind, Kind::Usage, "{wrong}");
        }
        assert!(HostSpec::parse(r#"{"kind": "tape", "duration_ns": 1}"#).is_err());
    }

    #[test]
    fn a_panic_is_a_failed_probe() {
        let record = recorded("it", || panic!("on purpose"));
        assert_eq!(record.outcome, Outcome::Failed);
        assert_eq!(record.error.unwrap().kind, Kind::Internal);
    }
}

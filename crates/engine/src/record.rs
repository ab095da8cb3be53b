//! The trial record: what Rust answers. The fields are those of docs/format.md.

use std::collections::BTreeMap;

use serde::Serialize;

use super::errors::Errors;
use super::observe::Samples;
use venturi_base::error::{Error, Kind};
use venturi_base::meter::clock::PoolTime;
use venturi_base::meter::clock::Workers;
use venturi_base::meter::cpu::CpuTime;
use venturi_base::meter::histogram::{Latency, Recorder};
use venturi_base::meter::resources::Resources;
use venturi_base::spec::Verify;
use venturi_targets::{hosts, Identity, Verification};

/// Nanoseconds by the stage's name.
pub type Stages = BTreeMap<&'static str, u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Failed,
    /// Cancelled; everything that was measured until then is here.
    Interrupted,
}

#[derive(Debug, Clone, Serialize)]
pub struct Record {
    pub outcome: Outcome,
    pub error: Option<Failure>,
    pub target: Identity,
    pub counts: RecordCounts,
    pub times: Times,
    pub verification: Verification,
    /// Batches that failed; `None`: none did.
    pub errors: Option<Errors>,
    pub cpu: Cpu,
    pub stages: StagesOfBoth,
    pub resources: Option<Resources>,
    pub workers: WorkersOfBoth,
    /// Workers beside the streams; their time is in `stages` and `workers` too. `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<PoolsOfBoth>,
    pub streams: Vec<StreamRecord>,
    pub latency: Latencies,
    pub schedule: Option<Schedule>,
    pub pin: Option<Vec<usize>>,
    pub instrument: Cost,
    pub samples: Option<Samples>,
}

/// Why a trial failed, and on which stream where it was one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
    pub stream: Option<usize>,
}

impl Failure {
    pub fn new(error: Error, stream: Option<usize>) -> Self {
        Self {
            kind: error.kind,
            message: error.message,
            stream,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct RecordCounts {
    pub rows: u64,
    pub batches: u64,
    pub payload_bytes: u64,
    pub wire_bytes: u64,
    /// What the target holds afterwards, where it tells.
    pub stored_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Times {
    pub started_unix_ns: u64,
    /// Plan, connect and warm up, data made.
    pub setup_ns: u64,
    /// From the start instant to the last stream's last batch.
    pub interval_ns: u64,
    pub verify_ns: u64,
    /// How much later than the start instant, as it was agreed, the last stream began.
    pub start_skew_ns: u64,
    /// From the moment every stream had moved its first batch until the first ended.
    pub steady_ns: u64,
    pub steady_rows: u64,
    pub steady_payload_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cpu {
    /// This process during the interval.
    pub client: CpuTime,
    /// As the server accounts for it, or as the system does where it is a process here.
    pub server: Option<CpuTime>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct StagesOfBoth {
    pub client: Stages,
    pub server: Option<Stages>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct WorkersOfBoth {
    pub client: Workers,
    pub server: Option<Workers>,
}

/// By the pool's name.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PoolsOfBoth {
    pub client: BTreeMap<String, PoolTime>,
    pub server: BTreeMap<String, PoolTime>,
}

/// One stream; times in ns since the start instant.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamRecord {
    pub stream: usize,
    pub thread: usize,
    pub rows: u64,
    pub batches: u64,
    pub payload_bytes: u64,
    pub start_ns: u64,
    pub first_batch_ns: u64,
    pub end_ns: u64,
    pub connect_ns: u64,
    pub stages: Stages,
}

#[derive(Debug, Clone, Serialize)]
pub struct Latencies {
    /// A batch from when the one before was done (closed loop) or it was sent (open).
    pub service: Latency,
    /// Open loop: from when it was intended to be sent.
    pub response: Option<Latency>,
}

/// How an open loop kept its schedule.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Schedule {
    /// Batches per second, all streams of this process.
    pub rate: f64,
    /// Slots whose time came.
    pub intended: u64,
    /// Batches sent over 0.1 ms after their slot.
    pub late: u64,
    pub max_lag_ns: u64,
}

/// What the measuring cost.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    pub clock_read_ns: f64,
    pub clock_reads: u64,
    /// Of the workers' time.
    pub share: f64,
}

impl Record {
    /// The record of a trial of which nothing is known yet.
    pub(super) fn empty(requested: Verify, address: &str) -> Self {
        Self {
            outcome: Outcome::Ok,
            error: None,
            target: Identity {
                address: hosts::printable(address),
                ..Identity::default()
            },
            counts: RecordCounts::default(),
            times: Times::default(),
            verification: Verification::of(requested, 0),
            errors: None,
            cpu: Cpu::default(),
            stages: StagesOfBoth::default(),
            resources: None,
            workers: WorkersOfBoth::default(),
            pools: None,
            streams: Vec::new(),
            latency: Latencies {
                service: Recorder::new().latency(),
                response: None,
            },
            schedule: None,
            pin: None,
            instrument: Cost::default(),
            samples: None,
        }
    }

    /// The trial has failed (or was cancelled). The first reason stands.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.error.is_none() {
            self.outcome = match failure.kind {
                Kind::Cancelled => Outcome::Interrupted,
                _ => Outcome::Failed,
            };
            self.error = Some(failure);
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        let all = &mut self.verification.note;
        *all = Some(match all.take() {
            Some(before) => format!("{before}; {note}"),
            None => note.to_owned(),
        });
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| {
            // Only a bug comes here; a record must never be lost for it.
            let message = format!("the record cannot be written: {error}");
            let error = serde_json::json!({"kind": "internal", "message": message, "stream": null});
            serde_json::json!({"outcome": "failed", "error": error}).to_string()
        })
    }
}

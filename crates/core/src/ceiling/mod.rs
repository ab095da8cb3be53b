//! Probes of the physical limits that results are held against.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Control, Failure, Outcome};
use crate::error::{Error, Kind, Result};
use crate::spec::Operation;
use crate::target::flight;

pub mod tcp;

use tcp::Placement;

/// What Python asks for: raw TCP to or from the host of a reference server.
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
    pub message_bytes: usize,
    pub duration_ns: u64,
}

impl ProbeSpec {
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the probe's spec: {error}")))
    }
}

/// What Python gets: the measured part of a ceiling line (docs/format.md).
#[derive(Debug, Clone, Serialize)]
pub struct ProbeRecord {
    pub bytes: u64,
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

/// Probes; whatever goes wrong is in the record.
pub fn run(spec: &ProbeSpec, control: &Control) -> ProbeRecord {
    let found = catch_unwind(AssertUnwindSafe(|| probe(spec, control)))
        .unwrap_or_else(|_| Err(Error::new(Kind::Internal, "raw TCP: the probe panicked")));
    match found {
        Ok(probe) => ProbeRecord {
            bytes: probe.bytes,
            interval_ns: probe.interval_ns,
            outcome: Outcome::Ok,
            error: None,
        },
        Err(error) => ProbeRecord {
            bytes: 0,
            interval_ns: 0,
            outcome: match error.kind {
                Kind::Cancelled => Outcome::Interrupted,
                _ => Outcome::Failed,
            },
            error: Some(Failure::new(error, None)),
        },
    }
}

/// A ceiling is the most that can be had. Within one machine that depends on where the
/// ends run, so half of the time goes to each placement, and the better one counts.
fn probe(spec: &ProbeSpec, control: &Control) -> Result<tcp::Probe> {
    let peer = crate::engine::block_on(flight::tcp_port(&spec.target, &spec.options))??;
    let placements: &[Placement] = match peer.ip().is_loopback() {
        true => &[Placement::Free, Placement::OneCpu],
        false => &[Placement::Free],
    };
    let share = Duration::from_nanos(spec.duration_ns) / placements.len() as u32;
    let mut best: Option<tcp::Probe> = None;
    for placement in placements {
        let found = tcp::probe(
            peer,
            spec.direction,
            spec.streams,
            spec.message_bytes,
            share,
            *placement,
            &|| control.cancelled(),
        )?;
        if best.is_none_or(|best| found.rate() > best.rate()) {
            best = Some(found);
        }
    }
    best.ok_or_else(|| Error::new(Kind::Internal, "raw TCP: nothing was probed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_a_failed_probe() {
        let spec = r#"{"target": "flight://127.0.0.1:1", "direction": "get", "streams": 1,
            "message_bytes": 1000, "duration_ns": 1000}"#;
        let record = run(&ProbeSpec::parse(spec).unwrap(), &Control::new());
        assert_eq!(record.outcome, Outcome::Failed);
        assert_eq!(record.error.unwrap().kind, Kind::Unreachable);
        assert!(ProbeSpec::parse("{}").is_err());
    }
}

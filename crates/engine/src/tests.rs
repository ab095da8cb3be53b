//! The engine's behaviour against a target that does what each test tells it.

mod ends;
mod line_up;
mod peer;
mod records;
mod servers;
mod shares;
mod upserts;

use peer::Peer;

use super::*;
use venturi_base::error::Kind;
use venturi_base::spec::TrialSpec;

fn run_peer(spec: &TrialSpec, peer: Peer) -> Record {
    run_on(spec, Box::new(peer), &Control::new())
}

/// A spec for so many streams and threads, with more fields in JSON.
fn spec(streams: usize, threads: usize, more: &str) -> TrialSpec {
    let fields = format!(r#"{{"streams": {streams}, "threads": {threads}{more}}}"#);
    venturi_testkit::parse(serde_json::from_str(&fields).unwrap())
}

//! The engine's behaviour against a target that does what each test tells it.

mod ends;
mod line_up;
mod open_loop;
mod peer;
mod records;
mod servers;
mod shares;
mod upserts;

use peer::{spec, Peer};

use super::*;
use venturi_base::error::Kind;
use venturi_base::spec::TrialSpec;

fn run_peer(spec: &TrialSpec, peer: Peer) -> Record {
    run_on(spec, Box::new(peer), &Control::new())
}

//! Drives N streams on T threads: barrier, fixed work or fixed time, pacing, cancel.
//!
//! `run` takes a spec and always answers with a record: whatever goes wrong, a panic
//! included, becomes the record's error, with everything that was measured until then.
//!
//! A thread runs its streams' sessions by polls on an event loop of its own. Per batch
//! the engine does one poll, one histogram record and one store to each counter; the
//! only clock read is the session's own mark at the batch's end.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

mod conductor;
mod control;
mod driver;
mod errors;
mod lane;
mod marks;
mod observe;
mod pace;
pub mod record;
mod stop;
mod summary;
mod tallies;
mod trial;
mod worker;

#[cfg(test)]
mod tests;

pub use control::{Control, Phase, Progress};
pub use errors::Errors;
pub use record::{Failure, Outcome, Record};

use venturi_base::error::Error;
use venturi_base::spec::TrialSpec;
use venturi_targets::Target;

/// Runs a trial against the target that its URL names.
pub fn run(spec: TrialSpec, control: &Control) -> Record {
    let spec = Arc::new(spec);
    let made = catch_unwind(AssertUnwindSafe(|| {
        venturi_targets::systems::for_spec(spec.clone())
    }));
    match made {
        Ok(Ok(target)) => run_on(&spec, target, control),
        Ok(Err(error)) => failed(&spec, control, error),
        Err(panic) => failed(&spec, control, Error::panicked(&*panic)),
    }
}

/// The same against a given target.
pub fn run_on(spec: &TrialSpec, mut target: Box<dyn Target>, control: &Control) -> Record {
    let mut record = Record::empty(spec.verify, &spec.target);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        trial::run(spec, &mut *target, control, &mut record);
    }));
    if let Err(panic) = ran {
        record.fail(Failure::new(Error::panicked(&*panic), None));
    }
    control.enter(Phase::Done);
    record
}

fn failed(spec: &TrialSpec, control: &Control, error: Error) -> Record {
    let mut record = Record::empty(spec.verify, &spec.target);
    record.fail(Failure::new(error, None));
    control.enter(Phase::Done);
    record
}

//! `adbc://`: any ADBC driver, a shared library that is loaded into the client's process; of one database, a
//! connection a stream.
//!
//! A driver's calls block, and may never return. So it is called as a plugin is (`plugin::Caller`): each stream's
//! calls have a thread of their own, and what they take is `Stage::Driver`.

mod code;
mod driver;
mod options;
mod plan;
mod stream;

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::Arc;

use crate::plugin::{once, Callee, Caller, Planned, Plugin, Stream, Turns};
use crate::read::{Checks, Partition};
use crate::systems::System;
use crate::{each, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::Source;
use venturi_base::error::Result;
use venturi_base::meter::clock::Stage;
use venturi_base::spec::{Data, Operation, TrialSpec};

use code::Code;
use options::Options;
use stream::Arriving;

const CALLEE: Callee = Callee {
    name: "the driver",
    stage: Stage::Driver,
};

/// How many streams' calls may run at a time. A put's only hand batches to ingests, which have threads of
/// their own; one that waits for a lock of another ingest must not keep that one's batches away.
fn turns(spec: &TrialSpec) -> usize {
    match spec.operation {
        Operation::Get => spec.threads,
        _ => spec.streams,
    }
}

/// Any ADBC driver.
pub const SYSTEM: System = System {
    scheme: "adbc",
    operations: &[Operation::Get, Operation::Put],
    driver: true,
    keeps: true,
    target: |spec| Ok(Box::new(Adbc::new(spec)?)),
    ..System::NOTHING
};

pub struct Adbc {
    spec: Arc<TrialSpec>,
    code: Arc<Code>,
    turns: Arc<Turns>,
    stuck: Arc<AtomicUsize>,
    source: Option<Source>,
    planned: Planned,
}

impl Adbc {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let options = Options::of(&spec)?;
        Ok(Self {
            code: Arc::new(Code::new(spec.clone(), options)),
            turns: Arc::new(Turns::new(turns(&spec))),
            spec,
            stuck: Arc::default(),
            source: None,
            planned: Planned::default(),
        })
    }

    /// A call of the driver outside the clock.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Code) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let code = self.code.clone();
        once(self.stuck.clone(), move || call(&code)).await
    }

    async fn stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.code.planned()?;
        let get = self.spec.operation == Operation::Get;
        let checks = Checks {
            summed: (!plan.summed.columns.is_empty()).then(|| plan.summed.clone()),
            digest: plan.digest,
        };
        let name = self.code.options().name.as_str();
        if get && plan.statements.get(stream).is_none_or(Option::is_none) {
            return Ok(Box::new(Partition::<Arriving>::new(
                None,
                checks,
                name.into(),
            )));
        }
        let (caller, _) = Caller::open(
            (CALLEE, self.code.clone()),
            self.spec.operation,
            stream,
            self.turns.clone(),
            self.stuck.clone(),
        )
        .await?;
        if get {
            let rows = Arriving::new(caller, self.spec.rows_per_batch);
            return Ok(Box::new(Partition::new(Some(rows), checks, name.into())));
        }
        // What was sent is known, and is read back afterwards.
        let counted = Arc::new(AtomicBool::new(true));
        let source = self.source.as_ref();
        Ok(Box::new(Stream::new(
            caller, &self.spec, source, false, counted,
        )))
    }
}

impl Target for Adbc {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.source = match &self.spec.data {
                Data::Remote => None,
                data => Some(Source::make(data, self.spec.rows_per_batch)?),
            };
            let source = self.source.clone();
            self.planned = self.call(move |code| code.plan(source)).await?;
            Ok(Identity {
                address: self.planned.address.clone().unwrap_or_default(),
                software: Some(self.planned.software.clone()).filter(|text| !text.is_empty()),
                protocol: "adbc".into(),
                ..Identity::default()
            })
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.planned.rows
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        let tallies = tallies.to_vec();
        Box::pin(self.call(move |code| code.verify(&tallies)))
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.call(|code| code.close()))
    }
}

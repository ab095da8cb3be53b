//! From a spec's points to a stream's batches of bytes: inline, or all of them before the clock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use crate::codec::timeseries::{Text, Writer};
use crate::data::metrics::{Metrics, WIDTH};
use crate::data::points::{Block, Layout, Rows, POINT_BYTES};
use crate::error::{Error, Kind, Result};
use crate::meter::clock::{Stage, StageClock};
use crate::spec::{Generate, TrialSpec, Verify};
use crate::target::Moved;

/// Bytes of all batches that are made before the clock, at most.
const MOST_AHEAD: usize = 2 << 30;

/// No format says a point in fewer, on the mean.
const LEAST_BYTES: u64 = 8;

fn too_much() -> Error {
    Error::new(
        Kind::Memory,
        "generate = \"ahead\" would keep more than 2 GiB of bytes in memory: give fewer rows_per_stream, or generate = \"inline\"",
    )
}

/// A batch, ready to be sent.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub text: Text,
    pub points: u64,
    /// The sum of the points' digests, where asked for.
    pub digest: u64,
}

impl Batch {
    pub fn moved(&self) -> Moved {
        Moved {
            rows: self.points,
            bytes: self.points * POINT_BYTES,
        }
    }
}

/// Where all streams' points come from.
pub struct Supply {
    spec: Arc<TrialSpec>,
    metrics: Metrics,
    /// Bytes made ahead so far.
    ahead: AtomicUsize,
}

/// How a system's words for the points of a layout are made.
pub type Speak<'a> = &'a dyn Fn(&Layout) -> Writer;

impl Supply {
    pub fn new(spec: &Arc<TrialSpec>) -> Result<Self> {
        let none = || Error::usage("an ingest needs points: metrics");
        let metrics = Metrics::of(&spec.data).ok_or_else(none)?;
        metrics.share(0, spec.streams)?;
        let supply = Self {
            spec: spec.clone(),
            metrics,
            ahead: AtomicUsize::new(0),
        };
        let least = supply
            .planned_points()
            .unwrap_or(0)
            .saturating_mul(LEAST_BYTES);
        match spec.generate {
            Generate::Ahead if least > MOST_AHEAD as u64 => Err(too_much()),
            _ => Ok(supply),
        }
    }

    /// Names of all metrics.
    pub fn metrics(&self) -> Vec<String> {
        let metrics = Metrics::metrics();
        metrics.into_iter().map(|metric| metric.name).collect()
    }

    /// Points of all streams, where it is known before how many there are.
    pub fn planned_points(&self) -> Option<u64> {
        let streams = self.spec.streams;
        let mut points = 0u64;
        for stream in 0..streams {
            let hosts = self.metrics.share(stream, streams).ok()?;
            let all = match self.metrics.steps {
                Some(steps) => Some(steps.checked_mul(hosts.end - hosts.start)?),
                None => None,
            };
            let rows = match (self.rows(), all) {
                (Some(rows), Some(all)) => rows.min(all),
                (rows, all) => rows.or(all)?,
            };
            points = points.checked_add(rows.checked_mul(WIDTH as u64)?)?;
        }
        (self.spec.duration_ns.is_none()).then_some(points)
    }

    /// Rows of a stream, rounded up.
    fn rows(&self) -> Option<u64> {
        let points = self.spec.rows_per_stream?;
        Some(points.div_ceil(WIDTH as u64))
    }

    /// What a stream sends: first of all some bytes, then batches.
    pub fn stream(&self, stream: usize, speak: Speak<'_>) -> Result<(Vec<u8>, Maker)> {
        let hosts = self.metrics.share(stream, self.spec.streams)?;
        let layout = self.metrics.layout(hosts.clone());
        let writer = speak(&layout);
        let preamble = writer.preamble(&layout);
        let mut making = Making {
            rows: Box::new(self.metrics.walk(hosts)),
            writer,
            layout,
            block: Block::default(),
            rows_per_batch: (self.spec.rows_per_batch / WIDTH).max(1),
            left: self.rows(),
            digests: self.spec.verify == Verify::Checksum,
        };
        if self.spec.generate == Generate::Inline {
            return Ok((preamble, Maker::Inline(Box::new(making))));
        }
        let mut batches = VecDeque::new();
        let mut clock = StageClock::start();
        loop {
            let mut batch = Batch::default();
            if !making.next(&mut batch, &mut clock)? {
                return Ok((preamble, Maker::Ahead(batches)));
            }
            batch.text.shrink();
            let size = batch.text.size();
            if self.ahead.fetch_add(size, Relaxed) + size > MOST_AHEAD {
                return Err(too_much());
            }
            batches.push_back(batch);
        }
    }
}

/// A stream's batches.
pub enum Maker {
    Inline(Box<Making>),
    Ahead(VecDeque<Batch>),
}

impl Maker {
    /// Puts the next batch in the place of the one before; false: there is none.
    pub fn next(&mut self, batch: &mut Batch, clock: &mut StageClock) -> Result<bool> {
        match self {
            Self::Inline(making) => making.next(batch, clock),
            Self::Ahead(batches) => match batches.pop_front() {
                Some(next) => {
                    *batch = next;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }
}

/// Points become text here.
pub struct Making {
    rows: Box<dyn Rows>,
    writer: Writer,
    layout: Layout,
    block: Block,
    rows_per_batch: usize,
    /// Rows still to come; `None`: as many as there are.
    left: Option<u64>,
    digests: bool,
}

impl Making {
    fn next(&mut self, batch: &mut Batch, clock: &mut StageClock) -> Result<bool> {
        let most = self.left.unwrap_or(u64::MAX);
        let rows = most.min(self.rows_per_batch as u64) as usize;
        self.block.clear();
        self.rows.fill(rows, &mut self.block)?;
        clock.mark(Stage::Generate);
        if self.block.rows() == 0 {
            return Ok(false);
        }
        self.left = self.left.map(|left| left - self.block.rows() as u64);
        batch.text.clear();
        self.writer
            .write(&self.block, &self.layout, &mut batch.text);
        clock.mark(Stage::Encode);
        batch.points = batch.text.points();
        if self.digests {
            batch.digest = self.block.digest(&self.layout);
            clock.mark(Stage::Verify);
        }
        Ok(true)
    }
}

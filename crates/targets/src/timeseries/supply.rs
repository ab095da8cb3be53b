//! From a spec's points to a stream's batches of bytes: inline, all of them before the clock, or
//! out of archives.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use crate::{Moved, Tally};
use venturi_base::codec::timeseries::{Text, Writer};
use venturi_base::data::archive::{Manifest, Reader};
use venturi_base::data::metrics::{Metrics, WIDTH};
use venturi_base::data::points::{Block, Layout, Rows, POINT_BYTES};
use venturi_base::data::table::Table;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::{Data, Generate, TrialSpec, Verify};

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

    /// All of it is out: it is counted, and its text makes room for the next one's.
    pub fn done(&mut self, tally: &mut Tally) -> Moved {
        tally.rows += self.points;
        tally.checksum = tally.checksum.wrapping_add(self.digest);
        self.text.clear();
        self.moved()
    }
}

/// Where all streams' points come from.
pub struct Supply {
    spec: Arc<TrialSpec>,
    points: Points,
    /// Bytes made ahead so far.
    ahead: AtomicUsize,
}

enum Points {
    Metrics(Metrics),
    Table(Arc<Table>),
    Archives(PathBuf, Manifest),
}

/// How a system's words for the points of a layout are made.
pub type Speak<'a> = &'a dyn Fn(&Layout) -> Writer;

impl Supply {
    pub fn new(spec: &Arc<TrialSpec>) -> Result<Self> {
        let points = match &spec.data {
            Data::File { path, ipc } => {
                let roles = spec.ingest.as_ref().ok_or_else(|| {
                    Error::usage("an ingest of a file needs ingest: which columns are what")
                })?;
                Points::Table(Arc::new(Table::read(path, ipc, roles)?))
            }
            Data::Archive { path } => {
                let directory = PathBuf::from(path);
                let manifest = Manifest::read(&directory)?;
                let archives = manifest.archives.len();
                if spec.streams > archives {
                    return Err(Error::usage(format!(
                        "{} streams for {archives} archives: an archive is sent by one stream, so there must be at least as many archives as streams",
                        spec.streams
                    )));
                }
                Points::Archives(directory, manifest)
            }
            data => {
                let metrics = Metrics::of(data).ok_or_else(|| {
                    Error::usage("an ingest needs points: metrics, an archive or a file")
                })?;
                metrics.share(0, spec.streams)?;
                Points::Metrics(metrics)
            }
        };
        let supply = Self {
            spec: spec.clone(),
            points,
            ahead: AtomicUsize::new(0),
        };
        let least = supply.points_of(spec.own()).unwrap_or(0);
        let least = least.saturating_mul(LEAST_BYTES);
        match supply.is_ahead() && least > MOST_AHEAD as u64 {
            true => Err(too_much()),
            false => Ok(supply),
        }
    }

    /// Archives are text already: neither ahead nor inline means anything to them.
    fn is_ahead(&self) -> bool {
        self.spec.generate == Generate::Ahead && !self.is_archive()
    }

    pub fn is_archive(&self) -> bool {
        matches!(self.points, Points::Archives(..))
    }

    /// All points that there are, where they end by themselves.
    pub fn total(&self) -> Option<u64> {
        match &self.points {
            Points::Metrics(_) => None,
            Points::Table(table) => Some(table.points()),
            Points::Archives(_, manifest) => Some(manifest.points),
        }
    }

    /// Names of all metrics.
    pub fn metrics(&self) -> Vec<String> {
        let names = |metrics: &[venturi_base::data::points::Metric]| {
            metrics.iter().map(|metric| metric.name.clone()).collect()
        };
        match &self.points {
            Points::Metrics(_) => names(&Metrics::metrics()),
            Points::Table(table) => names(table.metrics()),
            Points::Archives(_, manifest) => manifest.metrics.clone(),
        }
    }

    /// Points of all streams, where it is known before how many there are.
    pub fn planned_points(&self) -> Option<u64> {
        self.points_of(0..self.spec.streams)
    }

    /// The same of some streams; of points that end by themselves all.
    fn points_of(&self, streams: Range<usize>) -> Option<u64> {
        if self.spec.duration_ns.is_some() {
            return None;
        }
        let Points::Metrics(metrics) = &self.points else {
            return self.total().filter(|_| self.spec.rows_per_stream.is_none());
        };
        let mut points = 0u64;
        for stream in streams {
            let hosts = metrics.share(stream, self.spec.streams).ok()?;
            let all = match metrics.steps {
                Some(steps) => Some(steps.checked_mul(hosts.end - hosts.start)?),
                None => None,
            };
            let rows = match (self.rows(WIDTH), all) {
                (Some(rows), Some(all)) => rows.min(all),
                (rows, all) => rows.or(all)?,
            };
            points = points.checked_add(rows.checked_mul(WIDTH as u64)?)?;
        }
        Some(points)
    }

    /// Rows of a stream, rounded up.
    fn rows(&self, width: usize) -> Option<u64> {
        let points = self.spec.rows_per_stream?;
        Some(points.div_ceil(width as u64))
    }

    /// What a stream sends: first of all some bytes, then batches.
    pub fn stream(&self, stream: usize, speak: Speak<'_>) -> Result<(Vec<u8>, Maker)> {
        let streams = self.spec.streams;
        let (layout, rows, there): (Layout, Box<dyn Rows>, _) = match &self.points {
            Points::Metrics(metrics) => {
                let hosts = metrics.share(stream, streams)?;
                let walk = metrics.walk(hosts.clone());
                (metrics.layout(hosts), Box::new(walk), None)
            }
            Points::Table(table) => {
                let (layout, rows) = table.share(stream, streams);
                let there = rows.count() as u64;
                (layout, Box::new(rows), Some(there))
            }
            Points::Archives(directory, manifest) => {
                return Ok((Vec::new(), self.archived(stream, directory, manifest)?));
            }
        };
        let width = layout.metrics().len().max(1);
        let writer = speak(&layout);
        let preamble = writer.preamble(&layout);
        let mut making = Making {
            rows,
            writer,
            layout,
            block: Block::default(),
            rows_per_batch: (self.spec.rows_per_batch / width).max(1),
            left: self.rows(width).into_iter().chain(there).min(),
            digests: self.spec.verify == Verify::Checksum,
        };
        if !self.is_ahead() {
            return Ok((preamble, Maker::Inline(Box::new(making))));
        }
        let mut batches = VecDeque::new();
        let mut clock = StageClock::start();
        loop {
            halt::check()?;
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

    /// Every so many-th archive is this stream's.
    fn archived(&self, stream: usize, directory: &Path, manifest: &Manifest) -> Result<Maker> {
        let archives = manifest.archives.iter().skip(stream);
        let archives = archives
            .step_by(self.spec.streams)
            .map(|archive| Ok((manifest.path(directory, archive)?, archive.clone())))
            .collect::<Result<Vec<_>>>()?;
        let points = self.spec.rows_per_batch as u64;
        let reader = Reader::start(stream, archives, manifest.message(), points)?;
        Ok(Maker::Archived(Box::new(Archived {
            reader,
            message: manifest.message(),
            left: self.spec.rows_per_stream,
        })))
    }
}

/// A stream's batches.
pub enum Maker {
    Inline(Box<Making>),
    Ahead(VecDeque<Batch>),
    Archived(Box<Archived>),
}

impl Maker {
    /// Whether it is known that there is no batch to come.
    pub fn is_spent(&self) -> bool {
        match self {
            Self::Inline(making) => making.left == Some(0),
            Self::Archived(archived) => archived.left == Some(0),
            Self::Ahead(batches) => batches.is_empty(),
        }
    }

    /// Puts the next batch in the place of the one before; false: there is none. Who must wait
    /// waits for a batch to be made.
    pub fn poll_next(
        &mut self,
        batch: &mut Batch,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<bool>> {
        match self {
            Self::Inline(making) => Poll::Ready(making.next(batch, clock)),
            Self::Archived(archived) => {
                let next = archived.poll_next(batch, cx);
                clock.mark(Stage::Generate);
                if next.is_pending() {
                    clock.wait(Stage::Generate);
                }
                next
            }
            Self::Ahead(batches) => Poll::Ready(Ok(match batches.pop_front() {
                Some(next) => {
                    *batch = next;
                    true
                }
                None => false,
            })),
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
    /// Rows still to come; `None`: nobody knows.
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

/// Text comes gunzipped from another thread here.
pub struct Archived {
    reader: Reader,
    message: (u64, u64),
    /// Points still to come; `None`: as many as there are.
    left: Option<u64>,
}

impl Archived {
    fn poll_next(&mut self, batch: &mut Batch, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        if self.left == Some(0) {
            return Poll::Ready(Ok(false));
        }
        let Some(chunk) = ready!(self.reader.poll_next(cx)) else {
            return Poll::Ready(Ok(false));
        };
        let chunk = chunk?;
        self.left = self.left.map(|left| left.saturating_sub(chunk.points));
        batch.points = chunk.points;
        batch.digest = chunk.digest;
        let used = batch.text.replace(chunk.bytes, self.message);
        self.reader.give_back(used);
        Poll::Ready(Ok(true))
    }
}

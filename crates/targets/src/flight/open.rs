//! A stream is opened: its connection, a batch to warm it up, its session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Context, Poll};

use super::call::Link;
use super::options::{Address, Connections};
use super::plan::Plan;
use super::session::{GetSession, PutSession};
use super::{drive, named, Flight};
use crate::{Moved, Session, Tally};
use venturi_base::codec::flight::{COMPRESSION_HEADER, SAMPLE_HEADER, TRIAL_HEADER, VERIFY_HEADER};
use venturi_base::codec::ipc::Encoder;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::StageClock;
use venturi_base::spec::{Operation, Verify};

/// The connections of a group of streams, and which streams use each.
pub(super) type Links = BTreeMap<Address, (Link, BTreeSet<usize>)>;

impl Flight {
    fn trial_headers(&self) -> Vec<(String, Vec<u8>)> {
        let verify: &[u8] = match self.spec.verify {
            Verify::Checksum => b"checksum",
            Verify::Count => b"count",
            Verify::None => b"none",
        };
        let mut headers = vec![
            (
                TRIAL_HEADER.to_owned(),
                self.spec.trial.clone().into_bytes(),
            ),
            (VERIFY_HEADER.to_owned(), verify.to_vec()),
        ];
        // Where the clock runs already, a call of its own would be in the interval.
        if self.spec.include_setup && self.spec.sample_interval_ns > 0 {
            let interval = self.spec.sample_interval_ns.to_string().into_bytes();
            headers.push((SAMPLE_HEADER.to_owned(), interval));
        }
        if let (Operation::Get, Some(name)) = (self.spec.operation, &self.options.compression) {
            headers.push((COMPRESSION_HEADER.to_owned(), name.clone().into_bytes()));
        }
        headers
    }

    /// Can the two ends' checksums be compared?
    pub(super) fn has_checksum(&self) -> bool {
        self.spec.verify == Verify::Checksum && self.identity.reference
    }

    /// A schema may be beyond Flight, and a batch beyond a gRPC message: said before any
    /// connection is made.
    pub(super) fn encoder(&self, source: &Source) -> Result<Encoder> {
        Encoder::new(&source.schema(), self.options.compression()?)
    }

    pub(super) async fn open_stream(
        &self,
        stream: usize,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        if self.options.connections != Connections::Shared {
            links.clear();
        }
        let session = match self.spec.operation {
            Operation::Get => self.open_get(stream, plan, links).await?,
            Operation::Put | Operation::Upsert | Operation::Ingest => {
                self.open_put(stream, plan, links).await?
            }
        };
        if self.servers.len() == 1 {
            return Ok(session);
        }
        let mut places: Vec<_> = match plan.pieces.get(stream) {
            Some(pieces) => pieces.iter().map(|it| it.address.authority()).collect(),
            None => vec![self.server_of(stream).address.authority()],
        };
        places.dedup();
        let place = places.join(" or ");
        Ok(Box::new(Placed { session, place }))
    }

    async fn open_get(
        &self,
        stream: usize,
        plan: &Plan,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let mut pieces = VecDeque::new();
        for piece in &plan.pieces[stream] {
            let link = self.linked(&piece.address, stream, links).await?;
            pieces.push_back((link, piece.ticket.clone()));
        }
        let first = plan.pieces[stream].first().zip(pieces.front());
        if let (Some(ticket), Some((piece, (link, _)))) = (&plan.warm_up, first) {
            let pieces = [(link.clone(), ticket.clone())].into();
            let warm_up = GetSession::new(pieces, vec![], false, None);
            let warm_up = drive(Box::new(warm_up), usize::MAX);
            self.within(&piece.address, "warming up", warm_up).await?;
        }
        let stop = self.identity.reference.then(|| self.spec.trial.clone());
        let session = GetSession::new(pieces, self.trial_headers(), self.has_checksum(), stop);
        Ok(Box::new(session.slowed(self.handicap.clone())))
    }

    async fn open_put(
        &self,
        stream: usize,
        plan: &Plan,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let source = self
            .source
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Internal, "a put without data"))?;
        let server = self.server_of(stream);
        let link = self.linked(&server.address, stream, links).await?;
        let ack = self.options.ack;
        if plan.discards {
            let warm_up = PutSession::new(
                link.clone(),
                vec![],
                plan.descriptor(stream),
                self.encoder(source)?,
                source.cursor(Some(self.spec.rows_per_batch as u64)),
                false,
                ack,
            );
            let warm_up = drive(Box::new(warm_up), usize::MAX);
            self.within(&server.address, "warming up", warm_up).await?;
        }
        let session = PutSession::new(
            link,
            self.trial_headers(),
            plan.descriptor(stream),
            self.encoder(source)?,
            source.cursor(self.spec.rows_per_stream),
            self.has_checksum(),
            ack,
        );
        let session = session.slowed(self.handicap.clone());
        Ok(Box::new(match self.spec.rate {
            None => session.gathering(),
            Some(_) => session,
        }))
    }

    /// The connection to a place, which streams of the trial use.
    async fn linked(&self, address: &Address, stream: usize, links: &mut Links) -> Result<Link> {
        if let Some((link, streams)) = links.get_mut(address) {
            streams.insert(stream);
            return Ok(link.clone());
        }
        let link = self.link_to(address, self.server_of(stream)).await?;
        if self.options.connections == Connections::Shared {
            // How many streams it takes: one too many is an error before the trial begins.
            self.within(address, "its SETTINGS", link.settled()).await?;
        }
        link.watch(&self.sockets);
        links.insert(address.clone(), (link.clone(), [stream].into()));
        Ok(link)
    }
}

/// A stream of one of several servers: its errors say which.
struct Placed {
    session: Box<dyn Session>,
    place: String,
}

impl Placed {
    fn at<T>(&self, polled: Poll<Result<T>>) -> Poll<Result<T>> {
        polled.map_err(|error| named(error, &self.place))
    }
}

impl Session for Placed {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let polled = self.session.poll_batch(cx, clock);
        self.at(polled)
    }

    fn is_spent(&self) -> bool {
        self.session.is_spent()
    }

    fn idle(&mut self) {
        self.session.idle();
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let polled = self.session.poll_finish(cx, clock);
        self.at(polled)
    }

    fn progress(&self) -> u64 {
        self.session.progress()
    }

    fn tally(&self) -> Tally {
        self.session.tally()
    }
}

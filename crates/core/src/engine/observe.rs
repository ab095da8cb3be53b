//! What a trial is seen through: the sampler of this end, and what the server sampled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::record::Record;
use crate::meter::align::Clock;
use crate::meter::counters::Counters;
use crate::meter::resources::{End, Resources};
use crate::meter::sampler::{monotonic_at, Prepared, Sampler, Taken};
use crate::meter::series::Series;
use crate::meter::sockets::Sockets;
use crate::spec::TrialSpec;
use crate::target::{Identity, Watched};

/// `samples` of the record; times since the start instant.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    pub client: Series,
    pub server: Option<Series>,
}

/// One a trial. Where no samples are wanted it does nothing.
#[derive(Debug, Default)]
pub struct Observer {
    prepared: Option<Prepared>,
    sampler: Option<Sampler>,
    taken: Option<Taken>,
    start: Option<Instant>,
}

impl Observer {
    /// Opens what will be read: before any clock.
    pub fn new(spec: &TrialSpec, counters: &Arc<[Counters]>) -> Self {
        let interval = Duration::from_nanos(spec.sample_interval_ns);
        let prepared = (!interval.is_zero()).then(|| Prepared::new(interval, counters.clone()));
        Self {
            prepared,
            ..Self::default()
        }
    }

    /// Now it is known where the bytes go, and who serves. A reference server samples itself.
    pub fn aim(&mut self, identity: &Identity, sockets: Option<Arc<Sockets>>) {
        let Some(prepared) = &mut self.prepared else {
            return;
        };
        prepared.connections(sockets);
        if let Some(route) = &identity.route {
            prepared.aim(route);
        }
        let here = identity.same_machine == Some(true) && !identity.reference;
        if let Some(pid) = identity
            .pid
            .filter(|pid| here && *pid != std::process::id())
        {
            prepared.watch(pid);
        }
    }

    /// The first row. Once more is harmless.
    pub fn take(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            prepared.take();
        }
    }

    /// Goes on from the start instant.
    pub fn begin(&mut self, start: Instant, record: &mut Record) {
        self.start = Some(start);
        match self.prepared.take().map(|prepared| prepared.begin(start)) {
            Some(Ok(sampler)) => self.sampler = Some(sampler),
            Some(Err(error)) => record.note(&format!("no samples: {error}")),
            None => {}
        }
    }

    /// Takes the last row.
    pub fn stop(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            self.taken = sampler.stop();
        }
    }

    /// Fills `resources` and `samples`; `watched` is the server's own account.
    pub fn conclude(self, record: &mut Record, watched: Option<Watched>) {
        let (Some(taken), Some(start)) = (self.taken, self.start) else {
            return;
        };
        let start = monotonic_at(start);
        let end = i64::try_from(record.times.interval_ns).unwrap_or(i64::MAX);
        let mut client = taken.client;
        client.shift(start);
        let seen = End::of(&client, "self", 0, end);
        let same_machine = record.target.same_machine;
        let (clock, server, by) = match (watched, taken.server) {
            (Some(Watched { mut series, clock }), _) => {
                series.shift(start.saturating_add(clock.offset_ns));
                (Some(clock), Some(series), "self")
            }
            (None, Some(mut series)) => {
                series.shift(start);
                (Some(Clock::default()), Some(series), "client")
            }
            (None, None) => (None, None, "self"),
        };
        let mut served = server
            .as_ref()
            .and_then(|series| End::of(series, by, 0, end));
        if by == "client" {
            served = served.map(|served| served.beside(seen.as_ref()));
        }
        let servers = record.target.servers;
        if let Some(served) = served.as_mut().filter(|_| servers > 1) {
            served.of_servers = Some(servers);
        }
        record.resources = Some(Resources::of(same_machine, clock, seen, served));
        record.samples = Some(Samples { client, server });
    }
}

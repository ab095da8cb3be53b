//! What a trial is seen through: the sampler of this end, and what the server sampled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::record::{Failure, Outcome, Record};
use venturi_base::error::{Error, Kind};
use venturi_base::meter::align::Clock;
use venturi_base::meter::counters::Counters;
use venturi_base::meter::resources::{End, Resources};
use venturi_base::meter::sampler::{monotonic_at, Prepared, Sampler, Taken};
use venturi_base::meter::series::Series;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::TrialSpec;
use venturi_targets::{Identity, Watched};

/// `samples` of the record; times since the start instant.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    pub client: Series,
    pub server: Option<Series>,
}

/// One a trial. Where no samples are wanted it does nothing.
#[derive(Debug, Default)]
pub struct Observer {
    /// The roles of Venturi's helpers, in the order in which they are watched.
    helpers: Vec<String>,
    prepared: Option<Prepared>,
    sampler: Option<Sampler>,
    taken: Option<Taken>,
    start: Option<Instant>,
}

impl Observer {
    /// Opens what will be read: before any clock.
    pub fn new(spec: &TrialSpec, counters: &Arc<[Counters]>) -> Self {
        let interval = Duration::from_nanos(spec.sample_interval_ns);
        let prepared = (!interval.is_zero()).then(|| {
            let mut prepared = Prepared::new(interval, counters.clone());
            prepared.watch_helpers(spec.helpers.values().copied());
            prepared
        });
        Self {
            helpers: spec.helpers.keys().cloned().collect(),
            prepared,
            ..Self::default()
        }
    }

    /// Now it is known where the bytes go, and who serves.
    pub fn aim(&mut self, identity: &Identity, sockets: Option<Arc<Sockets>>) {
        let Some(prepared) = &mut self.prepared else {
            return;
        };
        prepared.connections(sockets);
        if let Some(route) = &identity.route {
            prepared.aim(route);
        }
        if !identity.programs.is_empty() {
            return prepared.watch(&identity.programs);
        }
        let here = identity.shares_cpus() == Some(true) && !identity.samples_itself;
        if let Some(pid) = identity
            .pid
            .filter(|pid| here && *pid != std::process::id())
        {
            prepared.watch(&[pid]);
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
        let same_machine = record.target.shares_cpus();
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
            served = served.map(|served| served.on_clients_host(seen.as_ref()));
        }
        let servers = record.target.servers;
        if let Some(served) = served.as_mut().filter(|_| servers > 1) {
            served.of_servers = Some(servers);
        }
        let mut resources = Resources::of(same_machine, clock, seen, served);
        for (role, mut series) in self.helpers.into_iter().zip(taken.helpers) {
            series.shift(start);
            if let Some(found) = End::of(&series, "client", 0, end) {
                resources.helpers.insert(role, found);
            }
        }
        record.resources = Some(resources);
        record.samples = Some(Samples { client, server });
        judge(record);
    }
}

/// An end that did not run for a larger part of the interval than this has no figure: it would be
/// off by about as much. 5 % is where whole-interval and steady figures may not differ any more.
const MOST_PAUSED: f64 = 0.05;

/// Fails a trial of which too much passed while an end stood still; where it has failed already,
/// that is a part of the reason.
fn judge(record: &mut Record) {
    let Some(resources) = &record.resources else {
        return;
    };
    let ends = [("client", &resources.client), ("server", &resources.server)];
    let paused = ends.map(|(name, end)| {
        let process = end.as_ref().and_then(|end| end.process.as_ref());
        (name, process.and_then(|process| process.paused_ns))
    });
    for (name, paused_ns) in paused {
        let Some(paused_ns) = paused_ns.filter(|ns| *ns > 0) else {
            continue;
        };
        let interval_ns = record.times.interval_ns;
        let said = format!(
            "the {name} did not run for {:.2} s of an interval of {:.2} s: its process was stopped \
             or frozen, or its machine was paused or suspended",
            paused_ns as f64 / 1e9,
            interval_ns as f64 / 1e9
        );
        match &mut record.error {
            Some(error) if record.outcome == Outcome::Failed => {
                error.message = format!("{}; {said}", error.message);
            }
            None if paused_ns as f64 > MOST_PAUSED * interval_ns as f64 => {
                record.fail(Failure::new(Error::new(Kind::Paused, said), None));
            }
            _ => {}
        }
    }
}

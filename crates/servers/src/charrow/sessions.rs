//! Which queries there are, by id.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::query::{named, Query, Shape};
use super::query::{Leaving, Seat};
use venturi_base::error::{Error, Kind, Result};

/// How long a query is remembered for partitions that come late ...
const REMEMBERED: Duration = Duration::from_secs(60);
/// ... and, where they have numbers, for those that come twice.
const REMEMBERED_NUMBERED: Duration = Duration::from_secs(3600);
/// Queries that are over and still remembered.
const MOST_REMEMBERED: usize = 512;

pub struct Sessions {
    queries: Mutex<HashMap<String, Arc<Query>>>,
    /// That run at a time. An eighth more is kept for clients that run none.
    most: usize,
}

impl Sessions {
    pub fn new(most: usize) -> Self {
        Self {
            queries: Mutex::default(),
            most,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Arc<Query>>) -> T) -> T {
        act(&mut self.queries.lock())
    }

    /// The query of this id. If there is none, `begin` makes it, and the flag is true.
    pub fn join(
        &self,
        id: &str,
        text: &str,
        shape: Shape,
        client: Option<IpAddr>,
        sit: impl Fn(&Query) -> Result<Seat>,
        begin: impl FnOnce() -> Query,
    ) -> Result<(Arc<Query>, Seat, bool)> {
        self.with(|queries| {
            forget_old(queries);
            if let Some(query) = queries.get(id) {
                if !query.asks(text) {
                    return Err(Error::new(
                        Kind::Usage,
                        format!("query id {} is that of another query, with another text: give each query its own id", named(id)),
                    ));
                }
                if query.shape != shape {
                    return Err(Error::new(
                        Kind::Usage,
                        format!("query {} runs with another compression or checksum: all its partitions have to ask for the same", named(id)),
                    ));
                }
                let seat = sit(query)?;
                return Ok((query.clone(), seat, false));
            }
            let (mut count, mut runs_one) = (0, false);
            for query in running(queries) {
                count += 1;
                runs_one |= network(query.client) == network(client);
            }
            let kept = if runs_one { 0 } else { self.most.div_ceil(8) };
            if count >= self.most + kept {
                return Err(Error::new(
                    Kind::Memory,
                    format!(
                        "{} already, and this server runs no more at a time (--max-queries)",
                        match count {
                            1 => "1 query runs".to_owned(),
                            count => format!("{count} queries run"),
                        }
                    ),
                ));
            }
            let mut query = begin();
            query.is_only = !runs_one;
            let query = Arc::new(query);
            let seat = sit(&query)?;
            queries.insert(id.to_owned(), query.clone());
            Ok((query, seat, true))
        })
    }

    /// A partition has had its end, or leaves before it; nobody joins meanwhile. An error: the
    /// query has failed for all by that.
    pub fn leave(&self, query: &Arc<Query>, seat: &Seat, leaving: Leaving) -> Option<Error> {
        self.with(|queries| {
            let lost = query.leave(seat, leaving);
            let is_known = queries
                .get(&query.id)
                .is_some_and(|known| Arc::ptr_eq(known, query));
            if is_known && query.may_be_forgotten() {
                queries.remove(&query.id);
            }
            lost
        })
    }

    /// Ends the queries of a trial early.
    pub fn stop(&self, trial: &str) {
        let all: Vec<_> = self.with(|queries| queries.values().cloned().collect());
        for query in all {
            if query.trial.as_deref() == Some(trial) {
                query.stop();
            }
        }
    }

    /// All queries fail: the server ends.
    pub fn close(&self) {
        let all: Vec<_> = self.with(|queries| queries.drain().map(|(_, query)| query).collect());
        for query in all {
            query.fail(Error::new(Kind::Lost, "the server stops"));
        }
    }

    #[cfg(test)]
    pub fn all(&self) -> Vec<Arc<Query>> {
        self.with(|queries| queries.values().cloned().collect())
    }

    pub fn running(&self) -> usize {
        self.with(|queries| running(queries).count())
    }
}

fn running(queries: &HashMap<String, Arc<Query>>) -> impl Iterator<Item = &Arc<Query>> {
    (queries.values()).filter(|query| query.over_since().is_none())
}

/// A client by its address. One client of IPv6 has all addresses of its /64.
fn network(client: Option<IpAddr>) -> Option<IpAddr> {
    client.map(|address| match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    })
}

fn forget_old(queries: &mut HashMap<String, Arc<Query>>) {
    let now = Instant::now();
    let over = |query: &Query| query.over_since();
    queries.retain(|_, query| {
        let long = match query.is_numbered() {
            true => REMEMBERED_NUMBERED,
            false => REMEMBERED,
        };
        over(query).is_none_or(|since| now.saturating_duration_since(since) < long)
    });
    while queries.len() > MOST_REMEMBERED {
        let oldest = queries
            .iter()
            .filter_map(|(id, query)| Some((over(query)?, id.clone())))
            .min();
        match oldest {
            Some((_, id)) => queries.remove(&id),
            None => break,
        };
    }
}

//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use serde_json::json;

use super::call::Link;
use super::reply::is_unknown;
use super::servers::Server;
use super::Flight;
use crate::Watched;
use venturi_base::error::{Error, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::series::Packed;

impl Flight {
    pub(super) async fn begin_watch(&self, interval: Duration) -> Result<()> {
        if !self.identity.reference {
            return Ok(());
        }
        let server = &self.servers[self.watched];
        let link = self.link(server).await?;
        let asked = json!({
            "trial": self.spec.trial,
            "interval_ns": interval.as_nanos() as u64,
        })
        .to_string();
        let asking = link.action("venturi.watch", asked.as_bytes());
        match self
            .within(server, "asking the server to sample", asking)
            .await
        {
            Ok(answer) if answer == b"true" => {}
            Ok(_) => return Ok(()),
            // An older server does not know how.
            Err(error) if is_unknown(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        if !self.identity.same_clock {
            let trips = self.trips(server, &link).await?;
            if let Ok(mut kept) = self.trips.lock() {
                kept.extend(trips);
            }
        }
        Ok(())
    }

    pub(super) async fn end_watch(&self) -> Result<Option<Watched>> {
        if !self.identity.reference {
            return Ok(None);
        }
        let server = &self.servers[self.watched];
        let link = self.link(server).await?;
        let asking = link.samples("venturi.samples", self.spec.trial.as_bytes());
        let pieces = match self
            .within(server, "asking the server for its samples", asking)
            .await
        {
            Ok(pieces) => pieces,
            // It has none: too many trials at a time, or an older server.
            Err(error) if is_unknown(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let packed: Packed = serde_json::from_slice(&pieces.concat())
            .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
        let series = packed.unpack()?;
        if self.identity.same_clock {
            let clock = Clock::default();
            return Ok(Some(Watched { series, clock }));
        }
        let mut trips = self.trips(server, &link).await?;
        if let Ok(kept) = self.trips.lock() {
            trips.extend(kept.iter());
        }
        Ok(align(&trips).map(|clock| Watched { series, clock }))
    }

    /// One after the other, each on the clocks of both ends.
    async fn trips(&self, server: &Server, link: &Link) -> Result<Vec<Trip>> {
        let mut trips = Vec::with_capacity(2 * TRIPS);
        for _ in 0..TRIPS {
            let sent_ns = monotonic_ns();
            let asking = link.action("venturi.clock", b"");
            let answer = self.within(server, "comparing clocks", asking).await?;
            let received_ns = monotonic_ns();
            let server_ns = String::from_utf8_lossy(&answer).parse().map_err(|_| {
                Error::protocol("the server's answer to venturi.clock is not a time")
            })?;
            trips.push(Trip {
                sent_ns,
                server_ns,
                received_ns,
            });
        }
        Ok(trips)
    }
}

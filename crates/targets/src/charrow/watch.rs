//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use serde_json::json;

use super::{plan, Charrow};
use crate::Watched;
use venturi_base::codec::charrow::handshake::Parameters;
use venturi_base::codec::charrow::EXTENDED;
use venturi_base::error::{Error, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::series::Packed;

impl Charrow {
    pub(super) async fn begin_watch(&self, interval: Duration) -> Result<()> {
        if !self.identity.reference {
            return Ok(());
        }
        let asked = json!({
            "trial": self.spec.trial,
            "interval_ns": interval.as_nanos() as u64,
        });
        let asking = async {
            let answer = plan::answered(self.ask("watch", &asked.to_string()).await)?;
            match answer.as_deref() == Some(b"true") && !self.identity.same_clock {
                true => self.trips().await,
                false => Ok(vec![]),
            }
        };
        let trips = self.within("asking the server to sample", asking).await?;
        if let Ok(mut kept) = self.trips.lock() {
            kept.extend(trips);
        }
        Ok(())
    }

    pub(super) async fn end_watch(&self) -> Result<Option<Watched>> {
        if !self.identity.reference {
            return Ok(None);
        }
        let asking = self.ask("samples", &self.spec.trial);
        let asked = self.within("asking the server for its samples", asking);
        // It may have none: too many trials at a time.
        let Some(answer) = plan::answered(asked.await)? else {
            return Ok(None);
        };
        let packed: Packed = serde_json::from_slice(&answer)
            .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
        let series = packed.unpack()?;
        if self.identity.same_clock {
            let clock = Clock::default();
            return Ok(Some(Watched { series, clock }));
        }
        let mut trips = self.within("comparing clocks", self.trips()).await?;
        if let Ok(kept) = self.trips.lock() {
            trips.extend(kept.iter());
        }
        Ok(align(&trips).map(|clock| Watched { series, clock }))
    }

    /// One after the other, each on the clocks of both ends.
    async fn trips(&self) -> Result<Vec<Trip>> {
        if !self.asks.contains("clock") {
            return Ok(vec![]);
        }
        let mut channel = self.channel(EXTENDED, &Parameters::default()).await?;
        plan::hello(&mut channel).await?;
        let mut trips = Vec::with_capacity(2 * TRIPS);
        for _ in 0..TRIPS {
            let sent_ns = monotonic_ns();
            // Without a clock to compare with, the samples cannot be placed in time.
            let Some(answer) = plan::answered(plan::ask(&mut channel, "clock", "").await)? else {
                return Ok(vec![]);
            };
            let received_ns = monotonic_ns();
            let server_ns = String::from_utf8_lossy(&answer)
                .parse()
                .map_err(|_| Error::protocol("the server's answer to clock is not a time"))?;
            trips.push(Trip {
                sent_ns,
                server_ns,
                received_ns,
            });
        }
        Ok(trips)
    }
}

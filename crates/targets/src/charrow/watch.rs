//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use super::{plan, Charrow};
use crate::{reference, Watched};
use venturi_base::codec::charrow::handshake::Parameters;
use venturi_base::codec::charrow::EXTENDED;
use venturi_base::error::Result;
use venturi_base::meter::align::Trip;

impl Charrow {
    pub(super) async fn begin_watch(&self, interval: Duration) -> Result<()> {
        if !self.identity.reference {
            return Ok(());
        }
        let asked = reference::watch(&self.spec.trial, interval);
        let asking = async {
            let answer = plan::answered(self.ask("watch", &asked).await)?;
            match answer.as_deref() == Some(b"true") && !self.identity.same_clock {
                true => self.trips().await,
                false => Ok(vec![]),
            }
        };
        let trips = self.within("asking the server to sample", asking).await?;
        self.clocks.before(trips);
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
        let after = match self.identity.same_clock {
            true => None,
            false => Some(self.within("comparing clocks", self.trips()).await?),
        };
        self.clocks.placed(&answer, after)
    }

    async fn trips(&self) -> Result<Vec<Trip>> {
        if !self.asks.contains("clock") {
            return Ok(vec![]);
        }
        let mut channel = self.channel(EXTENDED, &Parameters::default()).await?;
        plan::hello(&mut channel).await?;
        reference::trips(async || plan::answered(plan::ask(&mut channel, "clock", "").await)).await
    }
}

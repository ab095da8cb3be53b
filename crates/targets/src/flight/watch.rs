//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use super::call::Link;
use super::reply::is_unknown;
use super::servers::Server;
use super::Flight;
use crate::{reference, Watched};
use venturi_base::error::Result;
use venturi_base::meter::align::Trip;

impl Flight {
    pub(super) async fn begin_watch(&self, interval: Duration) -> Result<()> {
        if !self.identity.reference {
            return Ok(());
        }
        let server = &self.servers[self.watched];
        let link = self.link(server).await?;
        let asked = reference::watch(&self.spec.trial, interval);
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
            self.clocks.before(self.trips(server, &link).await?);
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
        let after = match self.identity.same_clock {
            true => None,
            false => Some(self.trips(server, &link).await?),
        };
        self.clocks.placed(&pieces.concat(), after)
    }

    async fn trips(&self, server: &Server, link: &Link) -> Result<Vec<Trip>> {
        reference::trips(async || {
            let asking = link.action("venturi.clock", b"");
            self.within(server, "comparing clocks", asking)
                .await
                .map(Some)
        })
        .await
    }
}

//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::{Identity, Watched};
use venturi_base::error::{Error, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::series::Packed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// To sample itself from now on: true, if it does.
    Watch,
    /// What it has sampled.
    Samples,
    /// Its clock, in ns as text.
    Clock,
}

impl Question {
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Samples => "samples",
            Self::Clock => "clock",
        }
    }

    /// For errors.
    pub fn what(self) -> &'static str {
        match self {
            Self::Watch => "asking the server to sample",
            Self::Samples => "asking the server for its samples",
            Self::Clock => "comparing clocks",
        }
    }
}

/// How a server is asked.
pub trait Asks {
    type Link;

    /// A connection; `first`: what it is for.
    async fn link(&self, first: Question) -> Result<Self::Link>;
    async fn ask(
        &self,
        link: &mut Self::Link,
        question: Question,
        payload: &str,
    ) -> Result<Vec<u8>>;
    /// Whether the error says that it has no answer: it is older, or has too many trials at a time.
    fn has_none(error: &Error) -> bool;
}

/// The question on a connection of its own, which is kept for others; `None`: there is no answer.
async fn asked<A: Asks>(
    server: &A,
    question: Question,
    payload: &str,
) -> Result<Option<(A::Link, Vec<u8>)>> {
    let asking = async {
        let mut link = server.link(question).await?;
        let answer = server.ask(&mut link, question, payload).await?;
        Ok((link, answer))
    };
    match asking.await {
        Ok(answered) => Ok(Some(answered)),
        Err(error) if A::has_none(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Round trips one after the other, each on the clocks of both ends; none where the server does not tell its own.
async fn trips<A: Asks>(server: &A, link: &mut A::Link) -> Result<Vec<Trip>> {
    let mut trips = Vec::with_capacity(2 * TRIPS);
    for _ in 0..TRIPS {
        let sent_ns = monotonic_ns();
        let answer = match server.ask(link, Question::Clock, "").await {
            Ok(answer) => answer,
            Err(error) if A::has_none(&error) => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let received_ns = monotonic_ns();
        let server_ns = String::from_utf8_lossy(&answer).parse();
        trips.push(Trip {
            sent_ns,
            server_ns: server_ns
                .map_err(|_| Error::protocol("the server's answer to clock is not a time"))?,
            received_ns,
        });
    }
    Ok(trips)
}

/// Trips to the server before a trial, kept for those after it: between both lies its clock.
#[derive(Debug, Default)]
pub struct Clocks(Mutex<Vec<Trip>>);

impl Clocks {
    /// Before a trial: a reference server begins its samples.
    pub async fn begin<A: Asks>(
        &self,
        server: &A,
        identity: &Identity,
        trial: &str,
        interval: Duration,
    ) -> Result<()> {
        if !identity.reference {
            return Ok(());
        }
        let interval = interval.as_nanos() as u64;
        let wanted = json!({"trial": trial, "interval_ns": interval}).to_string();
        match asked(server, Question::Watch, &wanted).await? {
            Some((mut link, answer)) if answer == b"true" && !identity.same_clock => {
                let trips = trips(server, &mut link).await?;
                self.0.lock().extend(trips);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Afterwards: its samples. `None` as well where the clocks could not be compared: such samples have no place
    /// in time.
    pub async fn end<A: Asks>(
        &self,
        server: &A,
        identity: &Identity,
        trial: &str,
    ) -> Result<Option<Watched>> {
        if !identity.reference {
            return Ok(None);
        }
        let Some((mut link, samples)) = asked(server, Question::Samples, trial).await? else {
            return Ok(None);
        };
        let packed: Packed = serde_json::from_slice(&samples)
            .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
        let series = packed.unpack()?;
        let clock = match identity.same_clock {
            true => Some(Clock::default()),
            false => {
                let mut trips = trips(server, &mut link).await?;
                trips.extend(self.0.lock().iter());
                align(&trips)
            }
        };
        Ok(clock.map(|clock| Watched { series, clock }))
    }
}

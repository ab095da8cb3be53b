//! A reference server samples itself for a trial; its clock is compared with ours.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::{Identity, LocalFuture, Observed, ServerReport, Watched};
use venturi_base::codec::account::Account;
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

/// What the server has told of a trial.
#[derive(Debug, Default)]
pub struct Observation {
    /// Comparisons of the clocks before the start, kept for those after it.
    trips: Mutex<Vec<Trip>>,
    account: Mutex<Option<Account>>,
}

/// How a server is asked for its side of a trial.
pub(crate) trait Reference {
    type Link;

    /// What was observed, of whom, and the trial's id.
    fn of_trial(&self) -> (&Observation, &Identity, &str);
    /// Its account, where it gives one.
    async fn ask_account(&self) -> Result<Option<Account>>;

    /// A connection; `first`: what it is for.
    async fn link(&self, first: Question) -> Result<Self::Link>;
    async fn ask(
        &self,
        link: &mut Self::Link,
        question: Question,
        payload: &str,
    ) -> Result<Vec<u8>>;
    /// Whether the error says that this question has no answer there: the server is older, or (samples) has too
    /// many trials at a time.
    fn has_none(question: Question, error: &Error) -> bool;

    /// The same, asked for once.
    async fn account(&self) -> Result<Option<Account>> {
        let kept = &self.of_trial().0.account;
        let known = kept.lock().clone();
        if known.is_some() {
            return Ok(known);
        }
        let account = self.ask_account().await?;
        kept.lock().clone_from(&account);
        Ok(account)
    }
}

/// Asks, unless the server has no answer: then `None`. Any other refusal is an error.
async fn answered<A: Reference>(
    server: &A,
    link: &mut A::Link,
    question: Question,
    payload: &str,
) -> Result<Option<Vec<u8>>> {
    match server.ask(link, question, payload).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if A::has_none(question, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks on a new connection, and returns it for further questions. Whatever keeps it from being made is an error:
/// no server says by that that it has no answer.
async fn asked<A: Reference>(
    server: &A,
    question: Question,
    payload: &str,
) -> Result<Option<(A::Link, Vec<u8>)>> {
    let mut link = server.link(question).await?;
    let answer = answered(server, &mut link, question, payload).await?;
    Ok(answer.map(|answer| (link, answer)))
}

/// Round trips one after the other, each on the clocks of both ends; none where the server does not tell its own.
async fn trips<A: Reference>(server: &A, link: &mut A::Link) -> Result<Vec<Trip>> {
    let mut trips = Vec::with_capacity(2 * TRIPS);
    for _ in 0..TRIPS {
        let sent_ns = monotonic_ns();
        let Some(answer) = answered(server, link, Question::Clock, "").await? else {
            return Ok(vec![]);
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

impl<R: Reference> Observed for R {
    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>> {
        Box::pin(async { Ok(self.account().await?.map(ServerReport::from)) })
    }

    fn watch<'a>(&'a self, interval: Duration) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (observation, identity, trial) = self.of_trial();
            if !identity.reference {
                return Ok(());
            }
            let interval = interval.as_nanos() as u64;
            let wanted = json!({"trial": trial, "interval_ns": interval}).to_string();
            match asked(self, Question::Watch, &wanted).await? {
                Some((mut link, answer)) if answer == b"true" && !identity.same_clock => {
                    let trips = trips(self, &mut link).await?;
                    observation.trips.lock().extend(trips);
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    /// `None` as well where the clocks could not be compared: such samples have no place in time.
    fn watched<'a>(&'a self) -> LocalFuture<'a, Result<Option<Watched>>> {
        Box::pin(async {
            let (observation, identity, trial) = self.of_trial();
            if !identity.reference {
                return Ok(None);
            }
            let asking = asked(self, Question::Samples, trial);
            let Some((mut link, samples)) = asking.await? else {
                return Ok(None);
            };
            let packed: Packed = serde_json::from_slice(&samples)
                .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
            let series = packed.unpack()?;
            let clock = match identity.same_clock {
                true => Some(Clock::default()),
                false => {
                    let mut trips = trips(self, &mut link).await?;
                    trips.extend(observation.trips.lock().iter());
                    align(&trips)
                }
            };
            Ok(clock.map(|clock| Watched { series, clock }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::error::Kind;

    /// Fails at one question, or (`None`) at connecting; the rest it answers. A real server cannot be made to.
    struct Fails {
        at: Option<Question>,
        kind: Kind,
        identity: Identity,
        observation: Observation,
    }

    impl Reference for Fails {
        type Link = ();

        fn of_trial(&self) -> (&Observation, &Identity, &str) {
            (&self.observation, &self.identity, "t")
        }

        async fn ask_account(&self) -> Result<Option<Account>> {
            Ok(None)
        }

        async fn link(&self, _: Question) -> Result<()> {
            match self.at {
                Some(_) => Ok(()),
                None => Err(Error::new(self.kind, "no connection")),
            }
        }

        async fn ask(&self, _: &mut (), question: Question, _: &str) -> Result<Vec<u8>> {
            match question {
                asked if self.at == Some(asked) => Err(Error::new(self.kind, "no answer")),
                Question::Watch => Ok(b"true".to_vec()),
                Question::Samples => Ok(serde_json::to_vec(&Packed::default()).unwrap()),
                Question::Clock => Ok(b"1".to_vec()),
            }
        }

        fn has_none(_: Question, error: &Error) -> bool {
            error.kind == Kind::Unsupported
        }
    }

    #[test]
    fn what_a_server_has_no_answer_to_is_left_out_and_all_else_fails() {
        let begin = async |kind, at| {
            let server = Fails {
                at,
                kind,
                identity: Identity {
                    reference: true,
                    ..Identity::default()
                },
                observation: Observation::default(),
            };
            let begun = server.watch(Duration::ZERO).await;
            begun.map(|()| server.observation.trips.lock().len())
        };
        venturi_base::net::runtime::block_on(async {
            for at in [Question::Watch, Question::Clock] {
                assert_eq!(begin(Kind::Unsupported, Some(at)).await.unwrap(), 0);
                let error = begin(Kind::Server, Some(at)).await.unwrap_err();
                assert_eq!(error.kind, Kind::Server);
            }
            assert_eq!(
                begin(Kind::Server, Some(Question::Samples)).await.unwrap(),
                TRIPS
            );
            // Whatever it says: without a connection nobody was asked.
            let error = begin(Kind::Unsupported, None).await.unwrap_err();
            assert_eq!(error.message, "no connection");
        })
        .unwrap();
    }
}

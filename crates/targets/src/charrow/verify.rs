//! After the clock: what the server says that it sent, and do the two ends agree.

use std::sync::atomic::Ordering;

use serde::Deserialize;

use super::channel::Channel;
use super::{plan, Charrow};
use crate::reference::{self, Observation, Question, Reference};
use crate::{Identity, Tally, Target, Verification};
use venturi_base::codec::account::Account;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::Verify;

/// What an account has at least.
#[derive(Debug, Clone, Deserialize)]
struct Sent {
    rows: u64,
    /// Wrapping sum of the batches' digests, hexadecimal.
    checksum: Option<String>,
}

/// The answer to `account`.
#[derive(Debug, Clone, Default)]
pub struct Reported {
    sent: Option<Sent>,
    /// With times and CPU, as a reference server's.
    pub whole: Option<Account>,
    /// Why there is none.
    why: Option<String>,
}

impl Reported {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let sent: Sent = reference::account(bytes)?;
        if let Some(checksum) = &sent.checksum {
            u64::from_str_radix(checksum, 16).map_err(|error| {
                Error::protocol(format!(
                    "the server's account of the trial: checksum {checksum:?}: {error}"
                ))
            })?;
        }
        Ok(Self {
            sent: Some(sent),
            whole: serde_json::from_slice(bytes).ok(),
            why: None,
        })
    }
}

impl Charrow {
    /// The server's account of this trial; asked for once. A server may refuse any question.
    pub(super) async fn account(&self) -> Result<Reported> {
        if !self.asks.contains("account") {
            return Ok(Reported::default());
        }
        if let Some(told) = self.account.lock().clone() {
            return Ok(told);
        }
        let asking = self.ask("account", &self.spec.trial);
        let told = match self
            .within("asking the server for its account of the trial", asking)
            .await
        {
            Ok(bytes) => Reported::parse(&bytes)?,
            Err(error) if error.kind == Kind::Server => Reported {
                why: Some(error.message),
                ..Reported::default()
            },
            Err(error) => return Err(error),
        };
        *self.account.lock() = Some(told.clone());
        Ok(told)
    }

    /// METHOD, "Verification": what arrived is what was sent.
    pub(super) async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let rows = tallies.iter().map(|tally| tally.rows).sum();
        let checksum = tallies
            .iter()
            .fold(0u64, |sum, tally| sum.wrapping_add(tally.checksum));
        let mut found = Verification::of(self.spec.verify, rows);
        if self.spec.verify == Verify::None {
            return Ok(found);
        }
        let Reported { sent, why, .. } = self.account().await?;
        let fixed = self.spec.duration_ns.is_none();
        // A server that cannot be asked to stop goes on sending to connections that have left.
        let left = self.leaving.load(Ordering::Relaxed);
        let sent = sent.filter(|_| !left);
        let expected: Vec<_> = [
            ("the server", sent.as_ref().map(|sent| sent.rows)),
            (
                "the server's statistics",
                self.query_rows.rows().filter(|_| !left),
            ),
            ("the query", self.planned_rows().filter(|_| fixed)),
        ]
        .into_iter()
        .filter_map(|(who, rows)| Some((who, rows?)))
        .collect();
        found.expected_rows = expected.first().map(|(_, rows)| *rows);
        found.achieved = match expected.is_empty() {
            false => "count",
            true => "acknowledged",
        };
        if expected.is_empty() {
            let why = match left {
                true => "its streams left before the server had sent all",
                false => "the server does not say how many rows it sent",
            };
            found.add_notes([format!("nothing was compared: {why}")]);
        }
        found.add_notes(why);
        let sent = sent.and_then(|sent| sent.checksum);
        if self.spec.verify == Verify::Checksum {
            match sent {
                Some(sent) => {
                    found.achieved = "checksum";
                    found.checksum = Some(format!("{checksum:016x}"));
                    found.expected_checksum = Some(format!("{:0>16}", sent.to_lowercase()));
                }
                None if expected.is_empty() => {}
                None => found.add_notes(["this server tells no checksum of the values".into()]),
            }
        }
        for (who, expected) in expected {
            found.compare_rows(("the client", rows), (who, expected));
        }
        found.compare_checksums("the client", "the server");
        Ok(found)
    }
}

impl Reference for Charrow {
    type Link = Channel;

    fn of_trial(&self) -> (&Observation, &Identity, &str) {
        (&self.observation, &self.identity, &self.spec.trial)
    }

    async fn link(&self, first: Question) -> Result<Channel> {
        self.within(first.what(), self.asking()).await
    }

    async fn ask(
        &self,
        channel: &mut Channel,
        question: Question,
        payload: &str,
    ) -> Result<Vec<u8>> {
        let name = question.name();
        if !self.asks.contains(name) {
            let line = format!("it does not answer the question {name}");
            return Err(Error::new(Kind::Server, line));
        }
        let asking = plan::ask(channel, name, payload);
        self.within(question.what(), asking).await
    }

    async fn ask_account(&self) -> Result<Option<Account>> {
        Ok(self.account().await?.whole)
    }

    /// A server may refuse any question.
    fn has_none(_: Question, error: &Error) -> bool {
        plan::is_refusal(error)
    }
}

//! After the clock: what the servers account for, and do the two ends agree.

use super::servers::Server;
use super::Flight;
use crate::reference::{self, Reference};
use crate::{Tally, Verification};
use venturi_base::codec::account::Account;
use venturi_base::error::Result;
use venturi_base::spec::{Operation, Verify};

impl Flight {
    /// The servers that streams of the trial speak to, of those in the URL. A single one is
    /// asked in any case.
    pub(super) fn spoken_to(&self) -> impl Iterator<Item = &Server> {
        let pieces = self.plan.as_ref().map_or(&[][..], |plan| &plan.pieces);
        let streams = self.spec.streams;
        self.servers
            .iter()
            .enumerate()
            .filter_map(move |(at, server)| {
                let spoken = match self.spec.operation {
                    _ if self.servers.len() == 1 => true,
                    Operation::Get => pieces
                        .iter()
                        .flatten()
                        .any(|piece| piece.address == server.address),
                    _ => at < streams,
                };
                spoken.then_some(server)
            })
    }

    pub(super) async fn account_of(&self, server: &Server) -> Result<Account> {
        let link = self.link(server).await?;
        let asking = link.action("venturi.account", self.spec.trial.as_bytes());
        let what = "asking the server for its account of the trial";
        let bytes = self.within(&server.address, what, asking).await?;
        reference::account(&bytes).map_err(|error| self.at(&server.address, error))
    }

    pub(super) async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let account = match self.spec.verify {
            Verify::None => None,
            _ => self.account().await?,
        };
        let planned = Planned {
            operation: self.spec.operation,
            rows: self.plan.as_ref().and_then(|plan| plan.rows),
            fixed_work: self.spec.duration_ns.is_none(),
        };
        Ok(compared(self.spec.verify, &planned, account, tallies))
    }
}

/// What was to be moved.
pub struct Planned {
    pub operation: Operation,
    /// Where it is known before.
    pub rows: Option<u64>,
    /// It ends with its rows, and not with its time.
    pub fixed_work: bool,
}

/// METHOD, "Verification": what arrived is what was sent. `account`: of a server that tells what it
/// sent, or has received.
pub fn compared(
    requested: Verify,
    planned: &Planned,
    account: Option<Account>,
    tallies: &[Tally],
) -> Verification {
    let rows = tallies.iter().map(|tally| tally.rows).sum();
    let mut verification = Verification::of(requested, rows);
    if requested == Verify::None {
        return verification;
    }
    if let Some(account) = account {
        verification.expected_rows = Some(account.rows);
        verification.achieved = "count";
        if requested == Verify::Checksum {
            let checksum = tallies
                .iter()
                .fold(0u64, |sum, tally| sum.wrapping_add(tally.checksum));
            verification.achieved = "checksum";
            verification.checksum = Some(format!("{checksum:016x}"));
            verification.expected_checksum = Some(account.checksum);
        }
    } else {
        match (planned.operation, planned.rows) {
            // Where the time was long enough, all of it came.
            (Operation::Get, Some(planned_rows)) if planned.fixed_work || rows >= planned_rows => {
                verification.achieved = "count";
                verification.expected_rows = Some(planned_rows);
            }
            (Operation::Get, Some(_)) => {
                verification.note = Some(
                    "a get that ends with its time has no number of rows to be held against".into(),
                );
            }
            (Operation::Get, None) => {
                verification.note = Some("the server does not say how many rows it sent".into());
            }
            (Operation::Put | Operation::Upsert | Operation::Ingest, _) => {
                verification.achieved = "acknowledged";
                verification.expected_rows = planned.rows.filter(|_| planned.fixed_work);
                verification.note = Some("the server acknowledged the whole stream, but does not say how many rows it took".into());
            }
        }
        if requested == Verify::Checksum && verification.note.is_none() {
            verification.note = Some("only Venturi's own server tells a checksum".into());
        }
    }
    let is_get = planned.operation == Operation::Get;
    let (receiver, sender) = match is_get {
        true => ("the client", "the server"),
        false => ("the server", "the client"),
    };
    if let Some(expected) = verification.expected_rows {
        let (received, sent) = if is_get {
            (rows, expected)
        } else {
            (expected, rows)
        };
        verification.compare_rows((receiver, received), (sender, sent));
    }
    verification.compare_checksums(receiver, sender);
    verification
}

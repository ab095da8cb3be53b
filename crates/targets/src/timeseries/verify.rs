//! After the clock: does the server hold what was sent?

use std::time::Duration;

use serde::Deserialize;

use super::counters::Counter;
use crate::{Tally, Verification};
use venturi_base::http1::{self, Web};
use venturi_base::limit::{self, Elapsed};
use venturi_base::os::machine::Place;
use venturi_base::spec::Verify;

/// What a server says that it holds.
#[derive(Debug, Clone)]
pub enum Held {
    /// The reference store knows it to the last bit.
    Reference(Stored),
    Count(Counted),
    /// Nobody tells, and why.
    Unknown(String),
}

impl Held {
    /// What several servers hold together, each by its address. Who does not tell is named, and
    /// nobody else's answer is worth anything then.
    pub fn together<'a>(all: impl Iterator<Item = (&'a str, &'a Held)>) -> Self {
        let all: Vec<_> = all.collect();
        if let [(_, one)] = all[..] {
            return one.clone();
        }
        let silent: Vec<_> = all
            .iter()
            .filter_map(|(authority, held)| match held {
                Self::Unknown(why) if why.contains(authority) => Some(why.clone()),
                Self::Unknown(why) => Some(format!("{authority}: {why}")),
                _ => None,
            })
            .collect();
        if !silent.is_empty() {
            return Self::Unknown(silent.join("; "));
        }
        let sum = all
            .iter()
            .map(|(_, held)| Some((*held).clone()))
            .reduce(|one, two| one?.plus(&two?));
        sum.flatten().unwrap_or_else(|| {
            let who = all.iter().map(|(authority, held)| match held {
                Self::Reference(_) => format!("{authority}: Venturi's store"),
                Self::Count(counted) => format!("{authority}: {:?}", counted.who),
                Self::Unknown(_) => String::new(),
            });
            let who: Vec<_> = who.collect();
            Self::Unknown(format!("unlike servers count unlike ({})", who.join(", ")))
        })
    }

    /// `None`: they are not of one kind.
    fn plus(self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Reference(one), Self::Reference(two)) => Some(Self::Reference(one.plus(two))),
            (Self::Count(one), Self::Count(two)) if one.who == two.who => {
                let points = one.points.saturating_add(two.points);
                Some(Self::Count(Counted { points, ..one }))
            }
            _ => None,
        }
    }

    pub fn points(&self) -> Option<u64> {
        match self {
            Self::Reference(stored) => Some(stored.points),
            Self::Count(counted) => Some(counted.points),
            Self::Unknown(_) => None,
        }
    }
}

/// Points of the trial's metrics, and who has counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub points: u64,
    pub who: Counter,
}

/// `/api/stats` of the reference store.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Stored {
    pub software: String,
    #[serde(default)]
    pub place: Place,
    pub points: u64,
    /// The sum of the points' digests, 16 hexadecimal digits.
    pub checksum: String,
    #[serde(default)]
    pub stored_bytes: Option<u64>,
}

const MOST_ANSWER: usize = 1 << 20;

impl Stored {
    /// `None`: somebody else listens there, or nobody. `Elapsed`: whoever listens says nothing.
    pub async fn ask(web: &Web, patience: Duration) -> Result<Option<Self>, Elapsed> {
        let asking = http1::ask(web, "GET", "/api/stats", b"", MOST_ANSWER);
        let answer = limit::within(patience, asking).await?;
        Ok(answer.ok().and_then(|answer| Self::of(&answer)))
    }

    /// The same after all is sealed: bytes that are not in a segment yet would not be counted.
    /// `None`: it cannot do that.
    pub async fn seal(web: &Web) -> Option<Self> {
        let sealing = http1::ask(web, "POST", "/api/seal", b"", MOST_ANSWER);
        Self::of(&sealing.await.ok()?)
    }

    fn of(answer: &http1::Response) -> Option<Self> {
        let stored: Option<Self> = serde_json::from_slice(&answer.body).ok();
        stored.filter(|stored| answer.status == 200 && stored.software.starts_with("venturi "))
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            points: self.points.saturating_add(other.points),
            checksum: format!("{:016x}", self.checksum().wrapping_add(other.checksum())),
            stored_bytes: self
                .stored_bytes
                .zip(other.stored_bytes)
                .map(|(one, two)| one.saturating_add(two)),
            ..self
        }
    }

    fn checksum(&self) -> u64 {
        u64::from_str_radix(&self.checksum, 16).unwrap_or(0)
    }
}

/// Compares what is there (`after`) with what was there (`before`) and what was sent. `summed`:
/// the tallies' digests are those of all points that were sent.
pub fn compare(
    before: &Held,
    after: &Held,
    tallies: &[Tally],
    requested: Verify,
    summed: bool,
) -> Verification {
    let sent: u64 = tallies.iter().map(|tally| tally.rows).sum();
    let digest = tallies
        .iter()
        .fold(0u64, |sum, tally| sum.wrapping_add(tally.checksum));
    let mut found = Verification::of(requested, sent);
    found.achieved = "acknowledged";
    found.expected_rows = Some(sent);
    let mut notes = Vec::new();
    let there = match (before, after) {
        (Held::Reference(before), Held::Reference(after)) => {
            if let (Some(before), Some(after)) = (before.stored_bytes, after.stored_bytes) {
                found.stored_bytes = Some(after.saturating_sub(before));
            }
            found.achieved = "count";
            if requested == Verify::Checksum && !summed {
                notes.push("not all archives were sent whole, so there is no checksum".to_owned());
            } else if requested == Verify::Checksum {
                found.achieved = "checksum";
                let arrived = after.checksum().wrapping_sub(before.checksum());
                found.expected_checksum = Some(format!("{digest:016x}"));
                found.checksum = Some(format!("{arrived:016x}"));
            }
            Some((before.points, after.points))
        }
        (Held::Count(before), Held::Count(after)) if before.who == after.who => {
            let (before, after, who) = (before.points, after.points, after.who);
            let grown = after.saturating_sub(before);
            if who.keeps_one() && before > 0 && grown < sent {
                notes.push(format!(
                    "of points of one series and time the server keeps one: its count, {before} before and {after} afterwards, does not tell how many of {sent} it was given; an empty database does"
                ));
                None
            } else {
                found.achieved = "count";
                if requested == Verify::Checksum {
                    notes
                        .push("only Venturi's own store tells a checksum of its points".to_owned());
                }
                Some((before, after))
            }
        }
        (Held::Unknown(why), _) | (_, Held::Unknown(why)) => {
            notes.push(why.clone());
            None
        }
        _ => {
            notes.push("the server is not the one that it was before the trial".to_owned());
            None
        }
    };
    if let Some((before, after)) = there {
        found.rows = after.saturating_sub(before);
        if before > 0 {
            notes.push(format!("{before} points were there before"));
        }
        if found.rows != sent {
            found.mismatch = Some(format!(
                "the server holds {} points of this trial, {sent} were sent",
                found.rows
            ));
        } else if found.checksum != found.expected_checksum {
            let text = |sum: &Option<String>| sum.clone().unwrap_or_default();
            found.mismatch = Some(format!(
                "the checksum of the points that the server holds is {}, that of the points sent {}",
                text(&found.checksum),
                text(&found.expected_checksum)
            ));
        }
    } else {
        // Nothing to compare with: the expectation would be the count itself.
        found.expected_rows = None;
    }
    found.note = (!notes.is_empty()).then(|| notes.join("; "));
    found
}

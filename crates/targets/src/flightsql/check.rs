//! After the clock: what is in a put's table, held against what was sent.

use super::plan::Plan;
use super::FlightSql;
use crate::read::{compare, compare_sums, wrapped, Summed};
use crate::{Sums, Tally, Verification};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt;
use venturi_base::spec::{Operation, Verify};

impl FlightSql {
    pub(super) async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.planned()?;
        let mut found = match self.spec.operation {
            Operation::Put => self.compare_put(plan, tallies).await?,
            _ => {
                let times = self.copies();
                compare(
                    &self.spec,
                    &plan.summed,
                    plan.there.as_ref(),
                    times,
                    tallies,
                )
            }
        };
        found.add_notes(plan.notes.iter().cloned());
        Ok(found)
    }

    async fn compare_put(&self, plan: &Plan, tallies: &[Tally]) -> Result<Verification> {
        let sent = tallies.iter().map(|tally| tally.rows).sum();
        let mut found = Verification::of(self.spec.verify, sent);
        let (Some(before), false) = (plan.there, self.spec.verify == Verify::None) else {
            found.achieved = "acknowledged";
            return Ok(found);
        };
        let link = self.server.connect(&self.server.address).await?;
        let from = plan.dialect.quoted(&self.table());
        let after = self.count(&link, &from, &plan.summed).await?;
        if before.rows > 0 {
            found.add_notes([format!("{} rows were there before", before.rows)]);
        }
        found.rows = after.rows.saturating_sub(before.rows);
        found.achieved = "count";
        found.expected_rows = Some(sent);
        if found.rows != sent {
            let there = found.rows;
            found.mismatch = Some(format!("the server counts {there} rows, {sent} were sent"));
        }
        if self.spec.verify == Verify::Checksum && !plan.summed.columns.is_empty() {
            found.achieved = "sums";
            let mut grown = Sums::default();
            for (place, sum) in grown.iter_mut().enumerate() {
                *sum = wrapped(after.sums[place] - before.sums[place]);
            }
            let source = self.source()?;
            let rows = tallies.iter().map(|tally| tally.rows);
            let expected = sums_of(source, &plan.summed, rows)?;
            compare_sums(&mut found, &plan.summed, &expected, &grown);
        }
        Ok(found)
    }
}

/// The sums over streams of so many rows each, modulo 2^64.
fn sums_of(source: &Source, summed: &Summed, streams: impl Iterator<Item = u64>) -> Result<Sums> {
    let mut total = Sums::default();
    // The data come round again: each batch that is kept is summed up once.
    let mut known: Vec<Option<Sums>> = vec![None; source.cycle().min(1 << 16) as usize];
    for rows in streams {
        let mut cursor = source.cursor(Some(rows));
        while let Some(item) = cursor.next() {
            halt::check()?;
            let slot = item.place.and_then(|place| known.get_mut(place));
            let sums = match slot.as_deref().copied().flatten() {
                Some(sums) => sums,
                None => summed
                    .of(item.batch())
                    .ok_or_else(|| Error::new(Kind::Internal, "a column without a sum"))?,
            };
            if let Some(slot) = slot {
                *slot = Some(sums);
            }
            for (sum, more) in total.iter_mut().zip(sums) {
                *sum = wrapped(*sum + more);
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::total;
    use venturi_base::spec::{Data, Values};

    #[test]
    fn sums_of_streams_are_those_of_their_batches() {
        let data = Data::Records {
            columns: 2,
            values: Values::Random,
            seed: 3,
        };
        let source = Source::make(&data, 7).unwrap();
        let columns = ["a", "b"].map(|name| (name.to_owned(), Some("sum".to_owned())));
        let summed = Summed::new(columns);
        let streams = [0, 5, 7, 1000];
        let mut tallies = Vec::new();
        for rows in streams {
            let mut tally = Tally::default();
            let mut cursor = source.cursor(Some(rows));
            while let Some(item) = cursor.next() {
                for (sum, more) in tally.sums.iter_mut().zip(summed.of(item.batch()).unwrap()) {
                    *sum = wrapped(*sum + more);
                }
            }
            tallies.push(tally);
        }
        let sums = sums_of(&source, &summed, streams.into_iter()).unwrap();
        assert_eq!(sums, total(&tallies));
        assert_ne!(sums, Sums::default());
    }
}

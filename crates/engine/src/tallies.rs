//! What streams have counted, as one process of a trial tells it to the one that verifies: JSON.

use serde::{Deserialize, Serialize};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::TrialSpec;
use venturi_targets::{Doubt, Runs, Sums, Tally, Target, MAX_SUMS};

/// One stream's tally; numbers that JSON could not hold are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    pub stream: usize,
    pub rows: u64,
    /// 16 hexadecimal digits.
    pub checksum: String,
    pub wire_bytes: u64,
    /// Decimal.
    pub sums: [String; MAX_SUMS],
    pub doubt: CountedDoubt,
    pub retries: u64,
    /// Of an upsert: what became of the stream's batches.
    #[serde(default)]
    pub batches: Option<Runs>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedDoubt {
    pub batches: u64,
    pub rows: u64,
    pub least: [String; MAX_SUMS],
    pub most: [String; MAX_SUMS],
}

impl Counted {
    fn new(stream: usize, tally: &Tally, batches: Option<Runs>) -> Self {
        let decimal = |sums: Sums| sums.map(|sum| sum.to_string());
        Self {
            stream,
            rows: tally.rows,
            checksum: format!("{:016x}", tally.checksum),
            wire_bytes: tally.wire_bytes,
            sums: decimal(tally.sums),
            doubt: CountedDoubt {
                batches: tally.doubt.batches,
                rows: tally.doubt.rows,
                least: decimal(tally.doubt.least),
                most: decimal(tally.doubt.most),
            },
            retries: tally.retries,
            batches,
        }
    }

    fn tally(&self) -> Result<Tally> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "the tallies: stream {}: {what} is no number",
                self.stream
            ))
        };
        let sums = |what: &str, texts: &[String; MAX_SUMS]| -> Result<Sums> {
            let mut sums = Sums::default();
            for (sum, text) in sums.iter_mut().zip(texts) {
                *sum = text.parse().map_err(|_| wrong(what))?;
            }
            Ok(sums)
        };
        Ok(Tally {
            rows: self.rows,
            checksum: u64::from_str_radix(&self.checksum, 16).map_err(|_| wrong("checksum"))?,
            wire_bytes: self.wire_bytes,
            sums: sums("sums", &self.sums)?,
            doubt: Doubt {
                batches: self.doubt.batches,
                rows: self.doubt.rows,
                least: sums("doubt.least", &self.doubt.least)?,
                most: sums("doubt.most", &self.doubt.most)?,
            },
            retries: self.retries,
        })
    }
}

/// A process's own streams, of their lanes' tallies.
pub fn of(spec: &TrialSpec, target: &dyn Target, lanes: &[(usize, Tally)]) -> Vec<Counted> {
    let (own, batches) = (spec.own(), target.batches());
    let mut tallies = vec![Tally::default(); own.len()];
    for (stream, tally) in lanes {
        let sum = &mut tallies[stream - own.start];
        *sum = sum.plus(tally);
    }
    own.zip(&tallies)
        .map(|(stream, tally)| {
            let batches = batches.map(|batches| batches.of_stream(stream));
            Counted::new(stream, tally, batches)
        })
        .collect()
}

pub fn to_json(counted: &[Counted]) -> Result<String> {
    serde_json::to_string(counted)
        .map_err(|error| Error::new(Kind::Internal, format!("the tallies: {error}")))
}

pub fn parse(json: &str) -> Result<Vec<Counted>> {
    let counted: Vec<Counted> = serde_json::from_str(json)
        .map_err(|error| Error::usage(format!("the tallies: {error}")))?;
    for stream in &counted {
        stream.tally()?;
    }
    Ok(counted)
}

/// The tallies of the whole trial, in the order of its streams; the target hears what became of the
/// others' batches. An error: a stream is missing, or there twice.
pub fn join(
    spec: &TrialSpec,
    target: &dyn Target,
    own: &[Counted],
    others: &[Counted],
) -> Result<Vec<Tally>> {
    let mut all: Vec<Option<Tally>> = vec![None; spec.streams];
    for (is_own, counted) in own
        .iter()
        .map(|it| (true, it))
        .chain(others.iter().map(|it| (false, it)))
    {
        let stream = counted.stream;
        let strange = |what: &str| Error::usage(format!("the tallies: stream {stream} {what}"));
        let place = all
            .get_mut(stream)
            .ok_or_else(|| strange("is not of this trial"))?;
        if place.replace(counted.tally()?).is_some() {
            return Err(strange("is there twice"));
        }
        if let (false, Some(runs), Some(batches)) = (is_own, &counted.batches, target.batches()) {
            batches.learn(stream, runs)?;
        }
    }
    let missing = all.iter().position(Option::is_none);
    if let Some(stream) = missing {
        return Err(Error::usage(format!(
            "the tallies: nobody has told what stream {stream} has counted"
        )));
    }
    Ok(all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_cross_the_line_unchanged() {
        let mut tally = Tally {
            rows: u64::MAX,
            checksum: 0x0123_4567_89ab_cdef,
            wire_bytes: 7,
            retries: 3,
            ..Tally::default()
        };
        tally.sums[0] = i128::MAX;
        tally.sums[7] = -1;
        tally.doubt.least[1] = i128::MIN;
        tally.doubt.most[2] = 8;
        tally.doubt.rows = 9;
        let counted = Counted::new(5, &tally, Some(vec![(1, 3), (0, 1)]));
        let back = parse(&to_json(std::slice::from_ref(&counted)).unwrap()).unwrap();
        assert_eq!(back, [counted]);
        assert_eq!(back[0].tally().unwrap(), tally);
    }

    #[test]
    fn what_is_no_tally_is_said() {
        let good = to_json(&[Counted::new(1, &Tally::default(), None)]).unwrap();
        let said = |from: &str, to: &str| parse(&good.replacen(from, to, 1)).unwrap_err().message;
        assert!(said("\"0000000000000000\"", "\"xyz\"").contains("stream 1: checksum"));
        assert!(said("\"0\"", "\"1.5\"").contains("stream 1: sums"));
        assert!(said("\"rows\"", "\"cows\"").contains("cows"));
        assert!(parse("{").unwrap_err().message.starts_with("the tallies: "));
    }
}

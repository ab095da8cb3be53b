//! What a request asks for. No sockets here.

use crate::rows::Reading;
use crate::state::State;
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Result};
use venturi_base::http1::server::{decoded, Request};
use venturi_base::spec::{Data, Values};

/// Before the names of questions.
const QUESTIONS: &str = "/.venturi/";
/// Where records are made.
const RECORDS: &str = "records";
/// Rows of a batch, where nothing is said; the most columns of a record.
const USUAL_BATCH: usize = 32 << 10;
const MOST_COLUMNS: usize = 10_000;

/// What is behind a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// The server itself.
    Root,
    Question(String),
    Table(String),
}

impl Place {
    pub fn of(request: &Request) -> Self {
        if let Some(name) = request.path.strip_prefix(QUESTIONS) {
            return Self::Question(name.to_owned());
        }
        match request.path.trim_matches('/') {
            "" => Self::Root,
            path => Self::Table(decoded(&path.replace('+', "%2B"))),
        }
    }
}

/// A parameter that is a number of at least 1.
fn number(request: &Request, name: &str) -> Result<Option<u64>> {
    let Some(text) = request.parameter(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) if number >= 1 => Ok(Some(number)),
        _ => Err(Error::usage(format!(
            "{name}={text:?} is not a number of at least 1"
        ))),
    }
}

fn refuse_unknown(request: &Request, names: &[&str]) -> Result<()> {
    let given = request.query.split('&').filter(|pair| !pair.is_empty());
    let mut given = given.map(|pair| pair.split('=').next().unwrap_or_default());
    match given.find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::usage(format!(
            "there is no parameter {:?}; there are {}",
            name.chars().take(40).collect::<String>(),
            names.join(", ")
        ))),
    }
}

/// What a GET of this table reads.
pub fn reading(state: &State, request: &Request, table: &str) -> Result<Reading> {
    let shape = ["rows", "rows_per_batch", "compression"];
    let compression = request.parameter("compression").unwrap_or_default();
    let compression = Compression::of_name(&compression)?;
    let rows = number(request, "rows")?;
    let batch = number(request, "rows_per_batch")?;
    if batch.is_some_and(|batch| batch > i32::MAX as u64) {
        return Err(Error::usage("rows_per_batch must be at most 2147483647"));
    }
    let rows_per_batch = batch.map_or(USUAL_BATCH, |batch| batch as usize);
    if table == RECORDS && state.store.table(table).is_err() {
        refuse_unknown(
            request,
            &[&shape[..], &["columns", "values", "seed"]].concat(),
        )?;
        let columns = number(request, "columns")?.unwrap_or(4);
        if columns > MOST_COLUMNS as u64 {
            return Err(Error::usage(format!("columns: at most {MOST_COLUMNS}")));
        }
        let columns = columns as usize;
        let values = match request.parameter("values").as_deref() {
            None | Some("random") => Values::Random,
            Some("sequential") => Values::Sequential,
            Some(other) => {
                let text = format!("values={other:?}: random or sequential");
                return Err(Error::usage(text));
            }
        };
        let seed = request.parameter("seed").unwrap_or_else(|| "0".into());
        let seed = seed
            .parse()
            .map_err(|_| Error::usage(format!("seed={seed:?} is not a number")))?;
        let data = Data::Records {
            columns,
            values,
            seed,
        };
        let lent = state.store.records(&data, columns, rows_per_batch)?;
        return Ok(Reading::Source(lent.source.cursor(rows), compression, lent));
    }
    refuse_unknown(request, &shape)?;
    if rows.is_none() && batch.is_none() {
        return Ok(Reading::Table(state.store.table(table)?, 0, compression));
    }
    let (lent, own) = state.store.rows_of(table, rows_per_batch)?;
    let cursor = lent.source.cursor(Some(rows.unwrap_or(own)));
    Ok(Reading::Source(cursor, compression, lent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str) -> Request {
        Request::parse(format!("GET {target} HTTP/1.1").as_bytes()).unwrap()
    }

    #[test]
    fn places() {
        let table = |name: &str| Place::Table(name.to_owned());
        for (target, place) in [
            ("/", Place::Root),
            ("/.venturi/clock", Place::Question("clock".into())),
            ("/sales%20of/2026?rows=1", table("sales of/2026")),
            ("/a+b", table("a+b")),
        ] {
            assert_eq!(Place::of(&request(target)), place);
        }
    }

    #[test]
    fn parameters_are_strict() {
        assert_eq!(number(&request("/?rows=12"), "rows").unwrap(), Some(12));
        for wrong in ["/?rows=0", "/?rows=-1", "/?rows=x", "/?rows", "/?rows=1e3"] {
            assert!(number(&request(wrong), "rows").is_err(), "{wrong}");
        }
        assert!(refuse_unknown(&request("/?rows=1&&seed=2"), &["rows", "seed"]).is_ok());
        let refused = refuse_unknown(&request("/?row=1"), &["rows"]).unwrap_err();
        assert!(refused.message.contains("\"row\""), "{refused}");
    }
}

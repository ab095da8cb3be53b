//! What can be refused before anything is connected.

use super::options::{Options, ProtocolChoice, Subject};
use super::perf::WITHOUT_END;
use crate::hosts;
use venturi_base::error::{Error, Result};
use venturi_base::spec::{Data, Operation, TrialSpec};

pub(super) fn check(spec: &TrialSpec, subject: &Subject, options: &Options) -> Result<()> {
    let named = match subject {
        Subject::Nothing => ProtocolChoice::Perf,
        Subject::Path(_) => ProtocolChoice::Path,
        Subject::Command(_) => ProtocolChoice::Command,
        Subject::Ticket(_) => ProtocolChoice::Ticket,
    };
    if options.protocol != ProtocolChoice::Auto && options.protocol != named {
        return Err(Error::usage(format!(
            "protocol = {:?} does not fit the URL {:?}, which names {:?}",
            options.protocol,
            hosts::printable(&spec.target),
            named
        )));
    }
    let rows = spec.rows_per_stream.unwrap_or(0);
    if rows > WITHOUT_END {
        return Err(Error::usage(format!(
            "rows_per_stream must be at most {WITHOUT_END}"
        )));
    }
    if spec.rows_per_batch > i32::MAX as usize {
        return Err(Error::usage("rows_per_batch must be at most 2147483647"));
    }
    match (spec.operation, subject, &spec.data) {
        (Operation::Upsert, ..) => Err(Error::usage(
            "Flight knows no upsert: put, or upsert into a database (mysql://, cassandra://, postgres://, sqlite://, duckdb://)",
        )),
        (Operation::Put, Subject::Ticket(_), _) => Err(Error::usage("a ticket is for a get; put to a path: flight://host:port/table")),
        (Operation::Get, Subject::Nothing, Data::Remote) => Err(Error::usage(
            "data = \"remote\" needs to say what to get: flight://host:port/table, ?command=… or ?ticket=…",
        )),
        (Operation::Get, Subject::Path(_) | Subject::Command(_) | Subject::Ticket(_), data) if *data != Data::Remote => {
            Err(Error::usage("a get of a path, command or ticket moves what the server holds: data = \"remote\""))
        }
        _ => Ok(()),
    }
}

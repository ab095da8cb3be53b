//! The driver's errors in our words: what happened, where, and what to do next.

use std::fmt::Display;
use std::time::Duration;

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, MetadataFetchErrorKind, NewSessionError, NextRowError, PrepareError,
    RequestAttemptError,
};
use scylla::statement::Consistency;

use venturi_base::error::{Error, Fate, Kind};

/// Of an attempt to connect.
pub fn session_error(place: &str, error: &NewSessionError) -> Error {
    let pool = match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(pool)) => Some(pool),
        NewSessionError::MetadataError(MetadataError::FetchError(fetch)) => {
            if let MetadataFetchErrorKind::PrepareError(attempt) = &fetch.error {
                return attempt_error(place, attempt, Written::default());
            }
            if let MetadataFetchErrorKind::NextRowError(NextRowError::NextPageError(_)) =
                &fetch.error
            {
                return Error::new(Kind::Server, format!("{place}: {error}"));
            }
            None
        }
        _ => None,
    };
    match pool {
        Some(pool) => pool_error(place, pool),
        None => Error::new(Kind::Unreachable, format!("{place}: {}", one_line(error))),
    }
}

fn pool_error(place: &str, error: &ConnectionPoolError) -> Error {
    let ConnectionPoolError::Broken {
        last_connection_error,
    } = error
    else {
        return Error::new(Kind::Unreachable, format!("{place}: {}", one_line(error)));
    };
    match last_connection_error {
        ConnectionError::ConnectionSetupRequestError(setup) => match setup.get_error() {
            ConnectionSetupRequestErrorKind::MissingAuthentication => Error::new(
                Kind::Auth,
                format!(
                    "{place}: the server wants a user and a password: cassandra://user@host and password_env, \
                     the name of the environment variable that holds the password"
                ),
            ),
            ConnectionSetupRequestErrorKind::DbError(error, reason) => {
                server_error(place, error, reason, Written::default())
            }
            other => Error::protocol(format!("{place}: {}", one_line(other))),
        },
        ConnectionError::IoError(io) => {
            let text = io.to_string();
            let tls = text.contains("certificate") || text.to_lowercase().contains("tls");
            let kind = if tls { Kind::Tls } else { Kind::Unreachable };
            Error::new(kind, format!("{place}: {text}"))
        }
        ConnectionError::BrokenConnection(broken) => {
            Error::new(Kind::Unreachable, format!("{place}: {}", last_cause(broken)))
        }
        ConnectionError::ConnectTimeout => Error::new(
            Kind::Unreachable,
            format!("{place}: no answer to the connection request"),
        ),
        other => Error::new(Kind::Unreachable, format!("{place}: {}", one_line(other))),
    }
}

/// Of a statement that was prepared.
pub fn prepare_error(place: &str, error: &PrepareError) -> Error {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => {
            attempt_error(place, first_attempt, Written::default())
        }
        PrepareError::ConnectionPoolError(pool) => lost_error(place, pool),
        other => Error::new(Kind::Server, format!("{place}: {}", one_line(other))),
    }
}

/// What a statement writes: so many rows, and whether all of them or none where the server has
/// no replicas for some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    pub rows: u64,
    pub whole: bool,
}

/// Of a statement: what it means for its rows, too.
pub fn execution_error(place: &str, error: &ExecutionError, written: Written) -> Error {
    let rows = written.rows;
    match error {
        ExecutionError::LastAttemptError(attempt) => attempt_error(place, attempt, written),
        ExecutionError::PrepareError(prepare) => prepare_error(place, prepare),
        ExecutionError::RequestTimeout(after) => timeout_error(place, *after, written),
        // Nothing was sent, so nothing can have been applied.
        ExecutionError::ConnectionPoolError(pool) => {
            lost_error(place, pool).with_fate(Fate::Refused { rows })
        }
        ExecutionError::SchemaAgreementError(error) => Error::new(
            Kind::Timeout,
            format!(
                "{place}: the nodes do not agree on the schema: {}; is one of them down?",
                one_line(error)
            ),
        ),
        other => Error::new(Kind::Server, format!("{place}: {}", one_line(other))),
    }
}

fn lost_error(place: &str, error: &ConnectionPoolError) -> Error {
    match error {
        ConnectionPoolError::Broken { .. } => {
            let first = pool_error(place, error);
            Error {
                kind: Kind::Lost,
                message: format!(
                    "{}: the connection is gone and cannot be made again",
                    first.message
                ),
                ..first
            }
        }
        other => Error::new(Kind::Lost, format!("{place}: {}", one_line(other))),
    }
}

fn attempt_error(place: &str, error: &RequestAttemptError, written: Written) -> Error {
    let rows = written.rows;
    match error {
        RequestAttemptError::DbError(error, reason) => server_error(place, error, reason, written),
        RequestAttemptError::BrokenConnectionError(error) => {
            broken_error(place, &last_cause(error))
        }
        RequestAttemptError::CqlRequestSerialization(error) => {
            Error::usage(format!("the batch cannot be sent: {}", one_line(error)))
                .with_fate(Fate::Refused { rows })
        }
        other => Error::protocol(format!("{place}: {}", one_line(other))),
    }
}

/// Of a request whose answer stayed out.
fn timeout_error(place: &str, after: Duration, written: Written) -> Error {
    let rows = written.rows;
    let message = format!("{place}: no answer for {} s", after.as_secs_f64());
    Error::new(Kind::Timeout, message).with_fate(Fate::InDoubt { rows })
}

/// Of a connection that broke while an answer was waited for.
fn broken_error(place: &str, why: &str) -> Error {
    Error::new(
        Kind::Lost,
        format!(
            "{place}: the connection broke ({why}): is the server still running, and what does its log say?"
        ),
    )
}

/// An error that the server answered with.
pub fn server_error(place: &str, error: &DbError, reason: &str, written: Written) -> Error {
    let rows = written.rows;
    let (kind, code, applied) = classify(error);
    let says = one_line(reason);
    let message = match error {
        DbError::AuthenticationError => format!(
            "{place}: the server does not accept the user or the password ({says}): is the password in the variable of password_env right?"
        ),
        DbError::Unauthorized => format!(
            "{place}: {says}: have it granted, or name a table that the user may write, with setup = false"
        ),
        DbError::Unavailable {
            consistency,
            required,
            alive,
        } => format!(
            "{place}: consistency {} needs {required} replicas, and {alive} are up: \
             is replication larger than the number of nodes, or is one of them down?",
            level_name(*consistency)
        ),
        DbError::WriteTimeout {
            consistency,
            received,
            required,
            ..
        } => format!(
            "{place}: {received} of the {required} replicas that {} needs answered within the server's \
             own time limit (write_request_timeout, counter_write_request_timeout), so nobody knows whether all of \
             the batch was applied: the server is overloaded, take fewer rows_per_batch or in_flight",
            level_name(*consistency)
        ),
        DbError::Overloaded => format!("{place}: the server is overloaded ({says}): take fewer streams or in_flight"),
        _ => format!("{place}: {says}"),
    };
    let fate = match (kind, applied) {
        (Kind::Auth, _) if matches!(error, DbError::AuthenticationError) => Fate::Fatal,
        (_, Applied::No) => Fate::Refused { rows },
        // The coordinator goes through a batch partition by partition, and learns of this at one.
        (_, Applied::InPart) if written.whole => Fate::Refused { rows },
        (_, Applied::InPart | Applied::Unknown) => Fate::InDoubt { rows },
    };
    Error::new(kind, message)
        .with_code(format_args!("0x{code:04x}"))
        .with_fate(fate)
}

enum Applied {
    No,
    /// Some of a batch's partitions, perhaps.
    InPart,
    Unknown,
}

fn classify(error: &DbError) -> (Kind, i32, Applied) {
    use Applied::{InPart, No, Unknown};
    match error {
        DbError::ServerError => (Kind::Server, 0x0000, Unknown),
        DbError::ProtocolError => (Kind::Server, 0x000a, No),
        DbError::AuthenticationError => (Kind::Auth, 0x0100, No),
        DbError::Unavailable { .. } => (Kind::Server, 0x1000, InPart),
        DbError::Overloaded => (Kind::Server, 0x1001, InPart),
        DbError::IsBootstrapping => (Kind::Server, 0x1002, No),
        DbError::TruncateError => (Kind::Server, 0x1003, Unknown),
        DbError::WriteTimeout { .. } => (Kind::Timeout, 0x1100, Unknown),
        DbError::ReadTimeout { .. } => (Kind::Timeout, 0x1200, Unknown),
        DbError::ReadFailure { .. } => (Kind::Server, 0x1300, Unknown),
        DbError::FunctionFailure { .. } => (Kind::Server, 0x1400, No),
        DbError::WriteFailure { .. } => (Kind::Server, 0x1500, Unknown),
        DbError::SyntaxError => (Kind::Server, 0x2000, No),
        DbError::Unauthorized => (Kind::Auth, 0x2100, No),
        DbError::Invalid => (Kind::Server, 0x2200, No),
        DbError::ConfigError => (Kind::Server, 0x2300, No),
        DbError::AlreadyExists { .. } => (Kind::Server, 0x2400, No),
        DbError::Unprepared { .. } => (Kind::Server, 0x2500, No),
        DbError::RateLimitReached {
            rejected_by_coordinator,
            ..
        } => match rejected_by_coordinator {
            true => (Kind::Server, 0x4321, No),
            false => (Kind::Server, 0x4321, Unknown),
        },
        DbError::Other(code) => (Kind::Server, *code, Unknown),
        _ => (Kind::Server, -1, Unknown),
    }
}

/// What the driver was doing stands before it, each with a colon.
fn last_cause(text: impl Display) -> String {
    let text = one_line(text);
    text.rsplit(": ").next().unwrap_or_default().to_owned()
}

/// As CQL writes it.
pub fn level_name(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Any => "ANY",
        Consistency::One => "ONE",
        Consistency::Two => "TWO",
        Consistency::Three => "THREE",
        Consistency::Quorum => "QUORUM",
        Consistency::All => "ALL",
        Consistency::LocalQuorum => "LOCAL_QUORUM",
        Consistency::EachQuorum => "EACH_QUORUM",
        Consistency::LocalOne => "LOCAL_ONE",
        Consistency::Serial => "SERIAL",
        Consistency::LocalSerial => "LOCAL_SERIAL",
    }
}

/// On one line, whatever it was before.
pub fn one_line(text: impl Display) -> String {
    let text = text.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

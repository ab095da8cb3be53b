//! What Postgres and its driver say, in lines that say what to do next.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity};

use venturi_base::error::{Error, Fate, Kind};
use venturi_base::net::tls::tls_advice;

/// One line for a failure of a statement of so many rows.
pub fn of_batch(place: &str, error: &tokio_postgres::Error, rows: u64) -> Error {
    let told = describe(place, error);
    match error.as_db_error().map(severity) {
        // The statement, and with it the transaction, is undone; the session goes on.
        Some(Severity::Error) => told.with_fate(Fate::Refused { rows }),
        _ => told,
    }
}

/// One line for a failure.
pub fn describe(place: &str, error: &tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        return local(place, error);
    };
    let code = db.code().code();
    let (kind, advice) = advice(code);
    let mut message = format!("{place}: {} ({code})", db.message());
    if let Some(detail) = db.detail() {
        message.push_str(&format!(": {detail}"));
    }
    match (advice, db.hint()) {
        ("", Some(hint)) => message.push_str(&format!("; the server's hint: {hint}")),
        ("", None) => {}
        (advice, _) => message.push_str(&format!("; {advice}")),
    }
    let kind = match severity(db) {
        Severity::Fatal | Severity::Panic if code.starts_with("57P") => Kind::Lost,
        _ => kind,
    };
    Error::new(kind, message.replace('\n', " ")).with_code(code)
}

/// Servers before 9.6 tell it in their own language only: then by the word.
fn severity(db: &DbError) -> Severity {
    db.parsed_severity().unwrap_or(match db.severity() {
        "FATAL" => Severity::Fatal,
        "PANIC" => Severity::Panic,
        _ => Severity::Error,
    })
}

/// As [`told`], before anything was heard that only Postgres says.
pub fn at_login(place: &str, error: &tokio_postgres::Error) -> Error {
    let told = describe(place, error);
    match told.kind {
        Kind::Lost | Kind::Protocol if error.as_db_error().is_none() => {
            let message = format!("{}; is it a PostgreSQL server?", told.message);
            Error::new(told.kind, message)
        }
        _ => told,
    }
}

/// By SQLSTATE; see appendix A of Postgres' manual.
fn advice(code: &str) -> (Kind, &'static str) {
    let server = |advice| (Kind::Server, advice);
    match code {
        "28P01" => (
            Kind::Auth,
            "is the user right, and the variable that --password-env names?",
        ),
        "28000" => (
            Kind::Auth,
            "pg_hba.conf of the server decides who may log in from where, and whether by TLS \
             (postgres+tls://)",
        ),
        "3D000" => server("name another database in the URL, or leave --no-setup out"),
        "3F000" => server("set search_path by --init, or create the schema"),
        "42501" => (
            Kind::Auth,
            "log in as a user who may (--user), or let an administrator GRANT it",
        ),
        "42P01" => server("name an existing table by --table, or leave --no-setup out"),
        "42P10" => {
            server("the table needs a primary key or unique index over just the columns of the key")
        }
        "42703" | "42804" => server("the table's columns must be those of the data"),
        "22003" => server("the table's column is too narrow; sums grow with every update"),
        "25006" => server(
            "the server is a standby or default_transaction_read_only is on: target the primary",
        ),
        "53300" => server("take fewer --streams, or raise max_connections at the server"),
        "53100" => server("the server's disk is full"),
        "53200" => server("the server is out of memory: take a smaller --rows-per-batch"),
        "40P01" => {
            server("streams wait for one another's rows: --retries tries such batches again")
        }
        "40001" => server("--retries tries such batches again"),
        "55P03" | "57014" => server("lock_timeout or statement_timeout is set at the server"),
        "57P01" | "57P02" => (Kind::Lost, "the server is being shut down"),
        "57P03" => (
            Kind::Unreachable,
            "it is starting or stopping: try again in a moment",
        ),
        "21000" => server("rows of one key are in one statement"),
        _ => server(""),
    }
}

/// Without a word of the server.
fn local(place: &str, error: &tokio_postgres::Error) -> Error {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_said = inner.to_string();
        if !said.contains(&inner_said) {
            said.push_str(&format!(": {inner_said}"));
        }
        source = inner.source();
    }
    let tls = said.contains("TLS");
    if tls {
        let advice = match said.contains("does not support") {
            true => "; without TLS the URL begins with postgres://".to_owned(),
            false => tls_advice(&said, "postgres", false),
        };
        return Error::new(Kind::Tls, format!("{place}: {said}{advice}"));
    }
    if said.contains("password missing") {
        return Error::new(
            Kind::Auth,
            format!(
                "{place}: the server wants a password; name a variable with it by --password-env"
            ),
        );
    }
    if error.is_closed() || io(error) {
        return Error::new(
            Kind::Lost,
            format!("{place}: the connection is lost ({said}); the server's log may say why"),
        );
    }
    Error::new(Kind::Protocol, format!("{place}: {said}"))
}

fn io(error: &tokio_postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}

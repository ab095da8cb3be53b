//! What SQLite says, in lines that name the file and what to do next.

use std::path::Path;

use rusqlite::ffi;

use venturi_base::error::{Error, Kind};
use venturi_base::halt;

/// Result codes by their names; see <https://sqlite.org/rescode.html>.
fn name(code: i32) -> Option<&'static str> {
    Some(match code {
        ffi::SQLITE_ERROR => "SQLITE_ERROR",
        ffi::SQLITE_PERM => "SQLITE_PERM",
        ffi::SQLITE_ABORT => "SQLITE_ABORT",
        ffi::SQLITE_BUSY => "SQLITE_BUSY",
        ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
        ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
        ffi::SQLITE_READONLY => "SQLITE_READONLY",
        ffi::SQLITE_INTERRUPT => "SQLITE_INTERRUPT",
        ffi::SQLITE_IOERR => "SQLITE_IOERR",
        ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
        ffi::SQLITE_FULL => "SQLITE_FULL",
        ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
        ffi::SQLITE_PROTOCOL => "SQLITE_PROTOCOL",
        ffi::SQLITE_SCHEMA => "SQLITE_SCHEMA",
        ffi::SQLITE_TOOBIG => "SQLITE_TOOBIG",
        ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
        ffi::SQLITE_MISMATCH => "SQLITE_MISMATCH",
        ffi::SQLITE_AUTH => "SQLITE_AUTH",
        ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
        _ => return None,
    })
}

/// One line for a failure of what was done with the file.
pub fn describe(path: &Path, error: &rusqlite::Error) -> Error {
    let place = path.display();
    let (codes, said) = match error {
        rusqlite::Error::SqliteFailure(codes, said) => (codes, said.clone()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, Some(msg.clone())),
        other => return Error::new(Kind::Internal, format!("{place}: {other}")),
    };
    let primary = codes.extended_code & 0xff;
    let waited = [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_INTERRUPT];
    if let (true, Err(halted)) = (waited.contains(&primary), halt::check()) {
        return halted;
    }
    let code = match (name(primary), codes.extended_code == primary) {
        (Some(name), true) => name.to_owned(),
        (Some(name), false) => format!("{name} ({})", codes.extended_code),
        (None, _) => codes.extended_code.to_string(),
    };
    let said = said.unwrap_or_else(|| ffi::code_to_str(codes.extended_code).to_owned());
    // The driver says the file's name once more.
    let said = said.trim_end_matches(&format!(": {place}"));
    let (kind, advice) = match primary {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => (
            Kind::Server,
            ": other connections kept the write lock; fewer --streams, a longer --timeout, or is \
             another program at work on the file?",
        ),
        ffi::SQLITE_FULL => (
            Kind::Server,
            ": the disk (or max_page_count) is full; make room or take a smaller --working-set",
        ),
        ffi::SQLITE_READONLY => (
            Kind::Server,
            ": this user may not write the file or its directory, or a PRAGMA of --init forbids it",
        ),
        ffi::SQLITE_CANTOPEN => (Kind::Unreachable, cannot_open(path)),
        ffi::SQLITE_NOTADB => (
            Kind::Usage,
            ": it is something else, or encrypted; name another file",
        ),
        ffi::SQLITE_CORRUPT => (Kind::Server, ": the file is damaged; name another one"),
        ffi::SQLITE_IOERR => (Kind::Io, ": look at the disk and the kernel's log"),
        ffi::SQLITE_NOMEM => (Kind::Memory, ""),
        _ => (Kind::Server, ""),
    };
    Error::new(kind, format!("{place}: {said} ({code}){advice}")).with_code(code)
}

fn cannot_open(path: &Path) -> &'static str {
    let folder = path.parent().unwrap_or(path);
    if path.is_dir() {
        ": it is a directory; name a file in it"
    } else if !folder.exists() {
        ": its directory does not exist; create it, or correct the path"
    } else if !folder.is_dir() {
        ": what should be its directory is a file; correct the path"
    } else if !path.exists() {
        ": there is no such file (--no-setup creates none), or its directory may not be written"
    } else {
        ": this user may not open it"
    }
}

//! What a server refuses, in lines that say what to do; and what a refusal means for its rows.

use venturi_base::codec::mysql::Refusal;
use venturi_base::error::{Error, Fate, Kind};
use venturi_base::net::tls::tls_advice;

/// Servers' numbers of errors, by what they mean here.
mod number {
    pub const TOO_MANY: [u16; 3] = [1040, 1203, 1226];
    pub const ACCESS: u16 = 1045;
    pub const DATABASE_RIGHTS: u16 = 1044;
    pub const NO_DATABASE: u16 = 1049;
    pub const TABLE_RIGHTS: [u16; 3] = [1142, 1143, 1227];
    pub const NO_TABLE: u16 = 1146;
    pub const NO_COLUMN: u16 = 1054;
    pub const READ_ONLY: [u16; 3] = [1290, 1792, 1836];
    pub const CONTENTION: [u16; 2] = [1205, 1213];
    pub const PACKET: u16 = 1153;
    pub const DISK: [u16; 2] = [1021, 1114];
    pub const PLACEHOLDERS: u16 = 1390;
    /// The server ends the connection with them: it shuts down, or somebody ended the session.
    pub const LAST_WORDS: [u16; 9] = [1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927];
    /// Nobody knows what became of a commit.
    pub const COMMIT: [u16; 2] = [1180, 3100];
    /// Refused before a row was looked at.
    pub const BEFORE_ROWS: [u16; 16] = [
        1044, 1049, 1054, 1064, 1142, 1143, 1146, 1205, 1213, 1227, 1290, 1390, 1461, 1792, 1836,
        3989,
    ];
}

/// What is known to whoever must explain an error.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    pub place: String,
    pub user: String,
    pub database: String,
    pub table: String,
    /// The name of the variable that holds the password.
    pub password_env: Option<String>,
    pub streams: usize,
    /// Nothing is made or written.
    pub reads: bool,
}

/// A server's refusal as an error of ours, without advice.
pub fn refused(refusal: &Refusal) -> Error {
    let Refusal { code, message, .. } = refusal;
    let kind = match *code {
        number::ACCESS | number::DATABASE_RIGHTS => Kind::Auth,
        code if number::TABLE_RIGHTS.contains(&code) => Kind::Auth,
        code if number::LAST_WORDS.contains(&code) => Kind::Lost,
        _ => Kind::Server,
    };
    // It may repeat a part of the statement, with its line ends.
    let message = message.replace('\n', " ");
    Error::new(kind, format!("error {code}: {message}")).with_code(code)
}

/// What the refusal of a batch means for it. `atomic`: the table's engine undoes a statement
/// that fails.
pub fn fate(code: u16, atomic: bool, rows: u64) -> Fate {
    match code {
        code if number::LAST_WORDS.contains(&code) || code == number::PACKET => Fate::Fatal,
        code if number::COMMIT.contains(&code) => Fate::InDoubt { rows },
        code if atomic || number::BEFORE_ROWS.contains(&code) => Fate::Refused { rows },
        _ => Fate::InDoubt { rows },
    }
}

impl Circumstances {
    /// The error with what to do about it, and where it was.
    pub fn explain(&self, mut error: Error) -> Error {
        let code = error.code.as_ref().and_then(|code| code.parse().ok());
        if let Some(advice) = code.and_then(|code| self.advice(code)) {
            error.message = format!("{}; {advice}", error.message);
        } else if error.kind == Kind::Lost {
            error.message = format!(
                "{}; does the server still run? Its own log says why it went",
                error.message
            );
        } else if error.kind == Kind::Tls {
            error.message = format!(
                "TLS: {}{}",
                error.message,
                tls_advice(&error.message, "mysql", false)
            );
        }
        error.context(&self.place)
    }

    fn advice(&self, code: u16) -> Option<String> {
        let Self {
            user,
            database,
            table,
            ..
        } = self;
        Some(match code {
            number::ACCESS => match &self.password_env {
                Some(name) => format!("is what {name} holds the password of {user:?}, and may it log in from this host?"),
                None => format!("no password was given: put the one of {user:?} into an environment variable and name that by --password-env (another user: --user)"),
            },
            code if self.reads && (code == number::DATABASE_RIGHTS || number::TABLE_RIGHTS.contains(&code)) => {
                format!("let an administrator say: GRANT SELECT ON `{database}`.* TO {user:?}")
            }
            number::NO_DATABASE if self.reads => "name another database in the URL".into(),
            number::NO_TABLE if self.reads => {
                "name another by --table, or another database in the URL".into()
            }
            number::NO_COLUMN if self.reads => return None,
            number::DATABASE_RIGHTS => format!("let an administrator say: GRANT ALL ON `{database}`.* TO {user:?}"),
            code if number::TABLE_RIGHTS.contains(&code) => format!(
                "let an administrator say: GRANT ALL ON `{database}`.* TO {user:?} (with --no-setup SELECT, INSERT and UPDATE are enough)"
            ),
            number::NO_DATABASE => format!("without --no-setup Venturi creates {database}"),
            number::NO_TABLE => format!("without --no-setup Venturi creates {table}; or name another by --table"),
            number::NO_COLUMN => format!("{table} has other columns than the data: name another by --table, or let Venturi make it (without --no-setup)"),
            code if number::READ_ONLY.contains(&code) => {
                "the server takes no writes: is it a replica? Name the primary, or let an administrator say: SET GLOBAL read_only = 0".into()
            }
            code if number::TOO_MANY.contains(&code) => format!(
                "the trial wants {}: let an administrator raise max_connections (SET GLOBAL max_connections = {}) or the user's limit, or use fewer --streams",
                connections(self.streams + 1),
                (self.streams + 100).next_multiple_of(100)
            ),
            code if number::CONTENTION.contains(&code) => {
                "--retries 3 tries such batches again, --max-errors goes on without them".into()
            }
            number::PACKET => "use fewer --rows-per-batch, or raise the server's max_allowed_packet".into(),
            code if number::DISK.contains(&code) => {
                "is the disk of the server full? df on its host tells; a smaller --working-set needs less".into()
            }
            number::PLACEHOLDERS => "use fewer --rows-per-batch, or --statement text".into(),
            _ => return None,
        })
    }
}

fn connections(count: usize) -> String {
    match count {
        1 => "1 connection".into(),
        count => format!("{count} connections"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(code: u16, message: &str) -> Error {
        let refusal = Refusal {
            code,
            state: "HY000".into(),
            message: message.into(),
        };
        let here = Circumstances {
            place: "h:3306".into(),
            user: "me".into(),
            database: "d".into(),
            table: "venturi_usage".into(),
            password_env: None,
            streams: 4,
            reads: false,
        };
        here.explain(refused(&refusal))
    }

    #[test]
    fn lines_say_where_what_and_what_next() {
        let error = explained(1045, "Access denied");
        assert_eq!(error.kind, Kind::Auth);
        assert_eq!(error.code.as_deref(), Some("1045"));
        assert_eq!(
            error.message,
            "h:3306: error 1045: Access denied; no password was given: put the one of \"me\" into \
             an environment variable and name that by --password-env (another user: --user)"
        );
        for (code, part) in [
            (1044, "GRANT ALL ON `d`.* TO \"me\""),
            (1142, "GRANT ALL ON `d`.*"),
            (1146, "creates venturi_usage"),
            (1290, "read_only = 0"),
            (1040, "wants 5 connections: let an administrator raise max_connections (SET GLOBAL max_connections = 200)"),
            (1213, "--retries"),
            (1153, "max_allowed_packet"),
            (1114, "disk"),
        ] {
            let error = explained(code, "no");
            assert!(error.message.contains(part), "{}", error.message);
            assert!(!error.message.contains('\n'));
        }
        assert_eq!(explained(1053, "Shutdown").kind, Kind::Lost);
        assert_eq!(
            explained(1064, "Syntax").message,
            "h:3306: error 1064: Syntax"
        );
    }

    #[test]
    fn what_becomes_of_the_rows() {
        let rows = 7;
        for code in [1213, 1205, 1290] {
            assert_eq!(fate(code, false, rows), Fate::Refused { rows });
        }
        // Half of it may be there where the engine does not undo it.
        for code in [1406, 1264, 1114] {
            assert_eq!(fate(code, true, rows), Fate::Refused { rows });
            assert_eq!(fate(code, false, rows), Fate::InDoubt { rows });
        }
        assert_eq!(fate(1180, true, rows), Fate::InDoubt { rows });
        assert_eq!(fate(1927, true, rows), Fate::Fatal);
    }
}

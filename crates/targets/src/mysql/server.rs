//! Which server of the family it is, and the statements that set it up: text only.

use super::dialect::MYSQL;
use super::options::{Options, Storage};
use crate::sql::Extra;
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    MySql,
    MariaDb,
    TiDb,
    /// MemSQL, as it was called.
    SingleStore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub family: Family,
    /// As "MariaDB 10.11.19".
    pub software: String,
}

impl Server {
    /// From what `@@version` and `@@version_comment` say.
    pub fn identify(version: &str, comment: &str) -> Self {
        let comment = comment.to_lowercase();
        let has = |word: &str| comment.contains(word) || version.to_lowercase().contains(word);
        let number = |text: &str| text.split(['-', ' ']).next().unwrap_or_default().to_owned();
        if has("singlestore") || has("memsql") {
            // The number is that of the MySQL which it is compatible with; its own is asked for.
            return Self {
                family: Family::SingleStore,
                software: "SingleStore".into(),
            };
        }
        if let Some((_, own)) = version.split_once("-TiDB-") {
            return Self {
                family: Family::TiDb,
                software: format!("TiDB {}", number(own.trim_start_matches('v'))),
            };
        }
        let (family, name) = match has("mariadb") {
            true => (Family::MariaDb, "MariaDB"),
            false => (Family::MySql, "MySQL"),
        };
        Self {
            family,
            software: format!("{name} {}", number(version)),
        }
    }

    /// What every connection is told before anything else: rows mean the same on every server,
    /// and one that does not fit is refused, not cut.
    pub fn session(&self) -> &'static [&'static str] {
        match self.family {
            Family::SingleStore => &["SET time_zone = '+00:00'"],
            _ => &[
                "SET time_zone = '+00:00'",
                "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
                "SET autocommit = 1",
            ],
        }
    }

    pub fn create_database(&self, database: &str, options: &Options) -> String {
        let name = quoted(database);
        match (self.family, options.partitions) {
            (Family::SingleStore, Some(count)) => {
                format!("CREATE DATABASE {name} PARTITIONS {count}")
            }
            _ => format!("CREATE DATABASE {name}"),
        }
    }

    /// What the seed sets on MemSQL; it may be refused.
    pub fn settings(&self) -> &'static [&'static str] {
        match self.family {
            Family::SingleStore => &["SET GLOBAL multistatement_transactions = 0"],
            _ => &[],
        }
    }

    /// Options that this server has no use for.
    pub fn unused(&self, options: &Options) -> Option<String> {
        if self.family == Family::SingleStore {
            return None;
        }
        let given = [
            ("partitions", options.partitions.is_some()),
            ("shard_key", options.shard_key.is_some()),
        ];
        let names: Vec<&str> = given
            .iter()
            .filter(|given| given.1)
            .map(|given| given.0)
            .collect();
        (!names.is_empty())
            .then(|| format!("{}: for SingleStore only, not used here", names.join(", ")))
    }

    pub fn create_table(
        &self,
        table: &Table,
        batches: &Batches,
        options: &Options,
    ) -> Result<String> {
        let mut inside = Vec::new();
        let (mut kind, mut after) = ("", String::new());
        let key = |at: usize| table.column(table.key[at]);
        match (self.family, options.storage()) {
            (Family::SingleStore, Storage::Columnstore) => {
                inside.push(format!("SORT KEY ({})", quoted(key(0))));
            }
            (Family::SingleStore, Storage::Rowstore) => kind = "ROWSTORE",
            (Family::SingleStore, _) | (_, Storage::Default) => {}
            (_, Storage::Rowstore) => after = "ENGINE = InnoDB".into(),
            (_, Storage::Columnstore) => after = "ENGINE = ColumnStore".into(),
            (_, Storage::Engine(name)) => after = format!("ENGINE = {name}"),
        }
        if let (Family::SingleStore, Some(shard)) = (self.family, &options.shard_key) {
            for column in shard {
                if !(0..table.key.len()).any(|at| key(at) == column) {
                    return Err(Error::usage(format!(
                        "shard_key: {column:?} is not a part of the key, which it must be for rows of one key to meet"
                    )));
                }
            }
            let columns: Vec<String> = shard.iter().map(|name| quoted(name)).collect();
            inside.push(format!("SHARD KEY ({})", columns.join(", ")));
        }
        let extra = Extra {
            kind,
            inside: &inside,
            after: &after,
        };
        MYSQL.create_table(table, batches, &extra)
    }

    /// Bytes that the table takes, and what has to be said before the server knows.
    pub fn stored_bytes(&self, database: &str, table: &str) -> (Vec<String>, String) {
        let (base, name) = (literal(database), literal(table));
        match self.family {
            Family::SingleStore => (
                Vec::new(),
                format!(
                    "SELECT SUM(MEMORY_USE) + COALESCE((SELECT SUM(COMPRESSED_SIZE) FROM information_schema.COLUMNAR_SEGMENTS \
                     WHERE DATABASE_NAME = {base} AND TABLE_NAME = {name}), 0) FROM information_schema.TABLE_STATISTICS \
                     WHERE DATABASE_NAME = {base} AND TABLE_NAME = {name}"
                ),
            ),
            _ => (
                // MySQL keeps such answers for a day otherwise; InnoDB tells what it counted last,
                // which may be long ago.
                (self.has_expiry().then(|| "SET information_schema_stats_expiry = 0".into()))
                    .into_iter()
                    .chain([format!("ANALYZE TABLE {}", quoted(table))])
                    .collect(),
                format!(
                    "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES \
                     WHERE TABLE_SCHEMA = {base} AND TABLE_NAME = {name}"
                ),
            ),
        }
    }

    /// From version 8 on, and in no other server.
    fn has_expiry(&self) -> bool {
        self.family == Family::MySql && !self.software.starts_with("MySQL 5.")
    }

    /// An engine that undoes a statement which fails half-way.
    pub fn is_atomic(&self, engine: &str) -> bool {
        let known = ["innodb", "rocksdb", "tokudb"];
        match self.family {
            Family::SingleStore => false, // multistatement_transactions = 0
            Family::TiDb => true,
            _ => known.contains(&engine.to_lowercase().as_str()),
        }
    }
}

pub fn quoted(name: &str) -> String {
    MYSQL.quoted(name)
}

/// A name as a string; names hold neither quotes nor backslashes (see the options).
pub fn literal(name: &str) -> String {
    format!("'{name}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::spec::TrialSpec;

    fn usage() -> (Table, Batches) {
        let spec = r#"{"trial": "t", "target": "mysql://h", "operation": "upsert", "rows_per_batch": 5,
            "data": {"source": "usage"}, "streams": 1, "threads": 1, "rows_per_stream": 5}"#;
        Batches::make(&TrialSpec::parse(spec).unwrap(), "venturi_usage").unwrap()
    }

    fn options(json: &str) -> Options {
        Options::parse(&serde_json::from_str(json).unwrap()).unwrap()
    }

    fn server(family: Family) -> Server {
        Server {
            family,
            software: String::new(),
        }
    }

    #[test]
    fn who_it_is() {
        let who = |version, comment| {
            let found = Server::identify(version, comment);
            (found.family, found.software)
        };
        assert_eq!(
            who("10.11.19-MariaDB-0+deb12u1", "Debian 12"),
            (Family::MariaDb, "MariaDB 10.11.19".into())
        );
        assert_eq!(
            who("8.4.2", "MySQL Community Server - GPL"),
            (Family::MySql, "MySQL 8.4.2".into())
        );
        assert_eq!(
            who("8.0.11-TiDB-v7.5.1", "TiDB Server (Apache License 2.0)"),
            (Family::TiDb, "TiDB 7.5.1".into())
        );
        let comment =
            "SingleStoreDB source distribution (compatible; MySQL Enterprise & MySQL Commercial)";
        assert_eq!(who("5.7.32", comment).0, Family::SingleStore);
        assert_eq!(
            who(
                "5.5.58",
                "MemSQL source distribution (compatible; MySQL Enterprise)"
            )
            .0,
            Family::SingleStore
        );
    }

    #[test]
    fn a_table_of_singlestore() {
        let single = server(Family::SingleStore);
        let (table, batches) = usage();
        let made = |json| single.create_table(&table, &batches, &options(json));
        let key = "(`timestamp_of_data`, `customer_code`, `subcustomer_id`, `geographic_region`, `billing_flag`, `ip_address`)";
        let row: String =
            made(r#"{"storage": "rowstore", "shard_key": ["customer_code"]}"#).unwrap();
        assert!(
            row.starts_with("CREATE ROWSTORE TABLE `venturi_usage` (`customer_code` "),
            "{row}"
        );
        let end = format!(", PRIMARY KEY {key}, SHARD KEY (`customer_code`))");
        assert!(row.ends_with(&end), "{row}");
        let column = made(r#"{"storage": "columnstore"}"#).unwrap();
        let end = format!(", PRIMARY KEY {key}, SORT KEY (`timestamp_of_data`))");
        assert!(
            column.starts_with("CREATE TABLE `venturi_usage`") && column.ends_with(&end),
            "{column}"
        );
        let wrong = made(r#"{"shard_key": ["hits"]}"#).unwrap_err();
        assert!(wrong.message.contains("hits"));
        assert_eq!(
            single.create_database("d", &options(r#"{"partitions": 20}"#)),
            "CREATE DATABASE `d` PARTITIONS 20"
        );
        assert_eq!(single.settings().len(), 1);
        assert_eq!(single.unused(&options(r#"{"partitions": 20}"#)), None);
        assert!(!single.is_atomic("MemSQL"));
        assert!(single.stored_bytes("d", "t").1.contains("TABLE_STATISTICS"));
    }

    #[test]
    fn a_table_of_the_others() {
        let maria = server(Family::MariaDb);
        let (table, batches) = usage();
        let made = |json| {
            maria
                .create_table(&table, &batches, &options(json))
                .unwrap()
        };
        assert!(made("{}").ends_with("`ip_address`))"));
        assert!(made(r#"{"storage": "Aria"}"#).ends_with(") ENGINE = Aria"));
        assert!(made(r#"{"storage": "rowstore"}"#).ends_with(") ENGINE = InnoDB"));
        let extra = options(r#"{"partitions": 20, "shard_key": ["customer_code"]}"#);
        assert_eq!(maria.create_database("d", &extra), "CREATE DATABASE `d`");
        let plain = maria.create_table(&table, &batches, &extra).unwrap();
        assert!(!plain.contains("SHARD"));
        assert!(maria
            .unused(&extra)
            .unwrap()
            .starts_with("partitions, shard_key:"));
        assert!(maria.settings().is_empty());
        assert!(maria.is_atomic("InnoDB") && !maria.is_atomic("MyISAM"));
        assert_eq!(
            maria.stored_bytes("d", "t").1,
            "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't'"
        );
    }
}

//! What the server tells of itself: who it is, its clock, its settings, its tables.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::value::CqlTimeuuid;

use super::errors;
use super::limits::Setting;
use super::schema::{quoted, Layout};
use crate::upsert::{is_own, occupied};
use venturi_base::error::{Error, Kind, Result};

/// From the start of the Gregorian calendar, where version 1 UUIDs begin, to 1970, in ns.
const GREGORIAN_NS: i128 = 12_219_292_800_000_000_000;

/// All rows of a small table.
async fn rows<R>(session: &Session, cql: &str, bound: &[&str]) -> Result<Vec<R>>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let answer = session.query_unpaged(cql, bound).await;
    let answer =
        answer.map_err(|error| errors::of_execution(cql, &error, errors::Written::default()))?;
    let strange = |error: &dyn std::fmt::Display| {
        Error::new(Kind::Protocol, format!("{cql}: {}", errors::line(error)))
    };
    let rows = answer.into_rows_result().map_err(|error| strange(&error))?;
    let rows = rows.rows::<R>().map_err(|error| strange(&error))?;
    rows.map(|row| row.map_err(|error| strange(&error)))
        .collect()
}

async fn one<R>(session: &Session, cql: &str, bound: &[&str]) -> Result<Option<R>>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    Ok(rows(session, cql, bound).await?.into_iter().next())
}

/// Who the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// As "Cassandra 5.0.9".
    pub name: String,
    pub cassandra: bool,
    /// Tokens are 64-bit numbers, so that a table can be read in ranges of them.
    pub murmur: bool,
}

pub async fn software(session: &Session) -> Result<Software> {
    let local = "SELECT release_version, partitioner FROM system.local";
    let (release, partitioner) = one::<(String, String)>(session, local, &[])
        .await?
        .ok_or_else(|| Error::protocol("system.local is empty"))?;
    let scylla = session
        .get_cluster_state()
        .get_nodes_info()
        .iter()
        .any(|node| node.sharder().is_some());
    let name = match scylla {
        false => format!("Cassandra {release}"),
        true => {
            let own = "SELECT version FROM system.versions";
            let version = one::<(String,)>(session, own, &[]).await.ok().flatten();
            format!("ScyllaDB {}", version.map_or(release, |(version,)| version))
        }
    };
    Ok(Software {
        name,
        cassandra: !scylla,
        murmur: partitioner.ends_with("Murmur3Partitioner"),
    })
}

/// By how much the server's clock is ahead of ours, in ns, to half a round trip.
pub async fn skew(session: &Session) -> Result<Option<i128>> {
    let before = SystemTime::now();
    let now = one::<(CqlTimeuuid,)>(session, "SELECT now() FROM system.local", &[]).await?;
    let after = SystemTime::now();
    let Some((now,)) = now else { return Ok(None) };
    let (low, mid, high, _) = now.as_fields();
    let ticks = (u64::from(high & 0x0fff) << 48) | (u64::from(mid) << 32) | u64::from(low);
    let theirs = i128::from(ticks) * 100 - GREGORIAN_NS;
    let ours = before + after.duration_since(before).unwrap_or_default() / 2;
    let ours = ours
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Ok(Some(theirs - ours.as_nanos() as i128))
}

/// What to say of a difference of the clocks, in ns; `None`: it is none to speak of.
pub fn skew_note(ahead: i128) -> Option<String> {
    const WORTH_IT: i128 = 1_000_000_000;
    let seconds = ahead.unsigned_abs() as f64 / 1e9;
    (ahead.abs() > WORTH_IT).then(|| match ahead > 0 {
        true => format!(
            "the server's clock is {seconds:.1} s ahead of this machine's: Venturi leaves the time of a write to the \
             server, so nothing is lost here, but where a driver stamps its writes itself (most do), newer ones \
             silently lose against what is there; set the clocks (NTP)"
        ),
        false => format!(
            "the server's clock is {seconds:.1} s behind this machine's: Venturi leaves the time of a write to the \
             server, so nothing is lost here, but where a driver stamps its writes itself (most do), later ones of \
             machines with a right clock silently lose against them; set the clocks (NTP)"
        ),
    })
}

/// From which size on batches are refused.
pub async fn batch_size_fail_threshold(session: &Session) -> Option<Setting> {
    // Since Cassandra 4.1, with a unit; before it, and at ScyllaDB, in KiB.
    const NAMES: [&str; 2] = [
        "batch_size_fail_threshold",
        "batch_size_fail_threshold_in_kb",
    ];
    for table in ["system_views.settings", "system.config"] {
        for name in NAMES {
            let cql = format!("SELECT value FROM {table} WHERE name = ?");
            if let Ok(Some((value,))) = one::<(String,)>(session, &cql, &[name]).await {
                let bytes = bytes(&value, name == NAMES[1]);
                return Some(Setting {
                    name: name.to_owned(),
                    value,
                    bytes,
                });
            }
        }
    }
    None
}

fn bytes(value: &str, in_kib: bool) -> Option<u64> {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = value[..value.len() - unit.len()].parse().ok()?;
    Some(match (unit.trim(), in_kib) {
        ("", true) | ("KiB", _) => number << 10,
        ("", false) | ("B", _) => number,
        ("MiB", _) => number << 20,
        ("GiB", _) => number << 30,
        _ => return None,
    })
}

/// A keyspace's replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication(HashMap<String, String>);

impl Replication {
    pub async fn read(session: &Session, keyspace: &str) -> Result<Option<Self>> {
        let cql = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let found = one::<(HashMap<String, String>,)>(session, cql, &[keyspace]).await?;
        Ok(found.map(|(replication,)| Self(replication)))
    }

    /// Over all data centres; `None`: a strategy that says it in another way.
    pub fn replicas(&self) -> Option<u32> {
        let numbers = self.0.iter().filter(|(key, _)| *key != "class");
        let each: Option<Vec<u32>> = numbers.map(|(_, number)| number.parse().ok()).collect();
        each.filter(|each| !each.is_empty())
            .map(|each| each.iter().sum())
    }

    /// As `replication` of a trial means it.
    pub fn is_simple(&self, factor: u32) -> bool {
        let class = self.0.get("class");
        class.is_some_and(|class| class.ends_with("SimpleStrategy"))
            && self.replicas() == Some(factor)
    }
}

pub async fn has_table(session: &Session, keyspace: &str, table: &str) -> Result<bool> {
    let cql =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found = one::<(String,)>(session, cql, &[keyspace, table]).await?;
    Ok(found.is_some())
}

/// The columns that choose a row's partition, in their order; none where there is no such table or view.
pub async fn partition_key(session: &Session, keyspace: &str, table: &str) -> Result<Vec<String>> {
    let cql = "SELECT position, column_name, kind FROM system_schema.columns \
               WHERE keyspace_name = ? AND table_name = ?";
    let found = rows::<(i32, String, String)>(session, cql, &[keyspace, table]).await?;
    let mut key: Vec<(i32, String)> = found
        .into_iter()
        .filter(|(.., kind)| kind == "partition_key")
        .map(|(position, name, _)| (position, name))
        .collect();
    key.sort();
    Ok(key.into_iter().map(|(_, name)| name).collect())
}

/// Whether a table can be told that no snapshot is kept of it when it is dropped: by default
/// Cassandra keeps all its files.
async fn has_snapshot_option(session: &Session) -> bool {
    let cql =
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'system_schema' \
               AND table_name = 'tables' AND column_name = 'allow_auto_snapshot'";
    matches!(one::<(String,)>(session, cql, &[]).await, Ok(Some(_)))
}

pub async fn execute(session: &Session, place: &str, cql: &str) -> Result<()> {
    let done = session.query_unpaged(cql, ()).await;
    done.map(|_| ())
        .map_err(|error| errors::of_execution(place, &error, errors::Written::default()))
}

/// Keyspace and table as the trial wants them. `replication`: `None`, the default.
pub async fn set_up(
    session: &Session,
    place: &str,
    layout: &Layout,
    replication: Option<u32>,
) -> Result<()> {
    let (keyspace, table) = (&layout.keyspace, &layout.table.name);
    let factor = replication.unwrap_or(1);
    let simple = format!(
        "{} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}} AND durable_writes = true",
        quoted(keyspace)
    );
    match Replication::read(session, keyspace).await? {
        None => execute(session, place, &format!("CREATE KEYSPACE {simple}")).await?,
        Some(found) if found.is_simple(factor) => {}
        Some(_) if keyspace.starts_with("venturi") => {
            execute(session, place, &format!("ALTER KEYSPACE {simple}")).await?;
        }
        Some(_) if replication.is_none() => {}
        Some(found) => {
            return Err(Error::usage(format!(
                "keyspace {keyspace} exists already, with another replication ({:?}), and is not Venturi's (its name does \
                 not begin with venturi): leave replication out, or name another keyspace: cassandra://host/keyspace",
                found.0
            )))
        }
    }
    if has_table(session, keyspace, table).await? {
        if !is_own(table) {
            return Err(occupied(table));
        }
        execute(session, place, &format!("DROP TABLE {}", layout.path())).await?;
    }
    let no_snapshots = has_snapshot_option(session).await;
    execute(session, place, &layout.create(no_snapshots)).await
}

/// Of a trial without set-up: is everything there?
pub async fn must_be_there(session: &Session, layout: &Layout) -> Result<()> {
    let (keyspace, table) = (&layout.keyspace, &layout.table.name);
    let missing = match has_table(session, keyspace, table).await? {
        true => return Ok(()),
        false if Replication::read(session, keyspace).await?.is_none() => {
            format!("keyspace {keyspace}")
        }
        false => format!("table {keyspace}.{table}"),
    };
    Err(Error::new(
        Kind::Server,
        format!(
            "{missing} is not there, and --no-setup says not to create it: leave --no-setup out, or create it with\n{}",
            layout.create(false)
        )
        .replace('\n', " "),
    ))
}

/// Bytes of the table on disk, as the node that is asked knows it; what is in memory yet does
/// not count. `None`: unknown, or nothing written to disk.
pub async fn stored_bytes(session: &Session, layout: &Layout) -> Option<u64> {
    let cql =
        "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = ? AND table_name = ?";
    let names = [layout.keyspace.as_str(), layout.table.name.as_str()];
    let found = one::<(i64,)>(session, cql, &names).await.ok().flatten();
    found.and_then(|(mebibytes,)| (mebibytes > 0).then_some((mebibytes as u64) << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_with_and_without_a_unit() {
        assert_eq!(bytes("50KiB", false), Some(50 << 10));
        assert_eq!(bytes("50", true), Some(50 << 10));
        assert_eq!(bytes("5MiB", false), Some(5 << 20));
        assert_eq!(bytes("1024", false), Some(1024));
        assert_eq!(bytes("much", false), None);
        assert_eq!(bytes("", true), None);
    }

    #[test]
    fn replicas_of_all_data_centres() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Replication(pairs.collect())
        };
        let simple = of(&[
            ("class", "o.a.c.locator.SimpleStrategy"),
            ("replication_factor", "3"),
        ]);
        assert_eq!(simple.replicas(), Some(3));
        assert!(simple.is_simple(3) && !simple.is_simple(1));
        let spread = of(&[("class", "NetworkTopologyStrategy"), ("a", "2"), ("b", "1")]);
        assert_eq!(spread.replicas(), Some(3));
        assert!(!spread.is_simple(3));
        assert_eq!(of(&[("class", "LocalStrategy")]).replicas(), None);
        assert_eq!(of(&[("class", "N"), ("a", "3/1")]).replicas(), None);
    }

    #[test]
    fn clocks_that_differ_are_spoken_of() {
        assert_eq!(skew_note(900_000_000), None);
        assert_eq!(skew_note(-1_000_000_000), None);
        assert!(skew_note(2_500_000_000).unwrap().contains("2.5 s ahead"));
        assert!(skew_note(-61_000_000_000)
            .unwrap()
            .contains("61.0 s behind"));
    }
}

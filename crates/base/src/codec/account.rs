//! What a reference server did for a trial, as it tells the client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::meter::clock::{PoolTime, Workers};

/// The server's side of one trial.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Account {
    /// Streams that the trial opened.
    pub streams: u64,
    /// Rows sent (get) or received (put).
    pub rows: u64,
    pub batches: u64,
    pub payload_bytes: u64,
    /// Wrapping sum of the batches' digests, hexadecimal.
    pub checksum: String,
    /// Nanoseconds by stage, summed over the connections.
    pub stages: BTreeMap<String, u64>,
    /// What the stages add up to; an older server does not say.
    #[serde(default)]
    pub workers: Option<Workers>,
    /// Pools of workers beside the streams, whose time is in `stages` and `workers` too.
    #[serde(default)]
    pub pools: BTreeMap<String, PoolTime>,
    /// CPU of the threads that served the trial's streams, and of the engine.
    pub user_ns: u64,
    pub system_ns: u64,
}

impl Account {
    /// Both servers together.
    pub fn plus(mut self, other: Self) -> Self {
        let sum = |account: &Self| u64::from_str_radix(&account.checksum, 16).unwrap_or(0);
        self.checksum = format!("{:016x}", sum(&self).wrapping_add(sum(&other)));
        self.streams += other.streams;
        self.rows += other.rows;
        self.batches += other.batches;
        self.payload_bytes += other.payload_bytes;
        for (stage, ns) in other.stages {
            *self.stages.entry(stage).or_default() += ns;
        }
        self.workers = self.workers.zip(other.workers).map(|(one, two)| Workers {
            workers: one.workers + two.workers,
            time_ns: one.time_ns + two.time_ns,
        });
        for (pool, time) in other.pools {
            self.pools.entry(pool).or_default().add(&time);
        }
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_are_one() {
        let account = |n: u64, checksum: &str| Account {
            streams: n,
            rows: 10 * n,
            batches: 20 * n,
            payload_bytes: 30 * n,
            checksum: checksum.into(),
            stages: [("encode".into(), 40 * n), (format!("of {n}"), n)].into(),
            workers: Some(Workers {
                workers: n,
                time_ns: 50 * n,
            }),
            pools: [("encoders".into(), pool(n))].into(),
            user_ns: 60 * n,
            system_ns: 70 * n,
        };
        fn pool(n: u64) -> PoolTime {
            PoolTime {
                threads: n,
                busy_ns: 2 * n,
                time_ns: 3 * n,
            }
        }
        let both = account(1, "ffffffffffffffff").plus(account(2, "0000000000000003"));
        assert_eq!(both.checksum, "0000000000000002");
        assert_eq!((both.streams, both.rows), (3, 30));
        assert_eq!((both.batches, both.payload_bytes), (60, 90));
        let stages = [("encode", 120), ("of 1", 1), ("of 2", 2)];
        assert_eq!(
            both.stages,
            stages.map(|(name, ns)| (name.into(), ns)).into()
        );
        let workers = both.workers.unwrap();
        assert_eq!((workers.workers, workers.time_ns), (3, 150));
        assert_eq!(both.pools["encoders"], pool(3));
        assert_eq!((both.user_ns, both.system_ns), (180, 210));
    }

    #[test]
    fn what_an_older_server_does_not_say_is_not_known_of_both() {
        let older = Account::default();
        let newer = Account {
            workers: Some(Workers::default()),
            ..Account::default()
        };
        assert!(newer.plus(older).workers.is_none());
    }
}

//! The systems, each a record that stands beside its target: what its URLs look like, what it takes, and who
//! makes its target. Lists of schemes and what Python knows of systems follow from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{hosts, LocalFuture, Target, SYSTEMS};
use crate::sql::Dialect;
use venturi_base::error::{Error, Result};
use venturi_base::spec::{Operation, TrialSpec};

/// The host that was asked, the first one of the URL, and its answer. `None`: it has none.
pub type Answer = Result<Option<(hosts::Host, Vec<u8>)>>;
pub type Ask = for<'a> fn(&'a str, &'a BTreeMap<String, Value>, &'a str) -> LocalFuture<'a, Answer>;

/// What moves or keeps rows, by the scheme of its URLs.
#[derive(Debug, Serialize)]
pub struct System {
    pub scheme: &'static str,
    pub operations: &'static [Operation],
    /// Its usual port by each of its schemes, of which `+tls` has one of its own only if it is another; none
    /// where a URL names a file, or nothing.
    pub ports: &'static [(&'static str, u16)],
    /// Whether `+tls` may follow its scheme.
    pub tls: bool,
    /// Whether `+unix` may follow its scheme: a Unix socket in the place of a host.
    pub unix: bool,
    /// Whether `+shm` may follow its scheme: a Unix socket too, beside which batches pass shared memory.
    pub shared: bool,
    /// Whether it is a database in the client's process, of one file.
    pub file: bool,
    /// Whether its URL names a driver, a shared library that the client's process loads.
    pub driver: bool,
    /// Whether what passes goes through pipes of this host's kernel.
    pub pipe: bool,
    /// Whether what is sent there stays there.
    pub keeps: bool,
    /// Whether what it acknowledges is on a disk by then, as it comes.
    pub synced: bool,
    /// Whether several batches may be in flight on one connection.
    pub in_flight: bool,
    /// How a batch becomes a statement where nothing is said: text or prepared; none where batches are no
    /// statements.
    pub statement: Option<&'static str>,
    /// What its URL means where nothing stands behind the host.
    pub space: Option<&'static str>,
    /// How `venturi serve` calls a throw-away server of it, whose module in Python is called so too.
    pub server: Option<&'static str>,
    /// How `venturi serve` calls a reference server of it, which accounts for its side of a trial.
    pub reference: Option<&'static str>,
    /// Whether its URL may name a user.
    pub users: bool,
    /// Why its URL names one host and not several, over which streams would be spread.
    pub one_host: Option<&'static str>,
    /// Whether a run can start servers of it on hosts of their own.
    pub remote: bool,
    /// What may follow the ? of its URL, one of them; `*`: anything.
    pub parameters: &'static [&'static str],
    /// Its SQL, where batches become that.
    #[serde(serialize_with = "name_of")]
    pub dialect: Option<&'static Dialect>,
    /// How other programs call each of its schemes.
    pub aliases: &'static [(&'static str, &'static [&'static str])],
    /// A question outside of any trial, to a reference server of it.
    #[serde(skip)]
    pub ask: Option<Ask>,
    #[serde(skip)]
    pub target: fn(Arc<TrialSpec>) -> Result<Box<dyn Target>>,
}

impl System {
    /// What a record does not say.
    pub const NOTHING: Self = Self {
        scheme: "",
        operations: &[],
        ports: &[],
        tls: false,
        unix: false,
        shared: false,
        file: false,
        driver: false,
        pipe: false,
        keeps: false,
        synced: true,
        in_flight: true,
        statement: None,
        space: None,
        server: None,
        reference: None,
        users: false,
        one_host: None,
        remote: false,
        parameters: &[],
        dialect: None,
        aliases: &[],
        ask: None,
        target: |_| Err(Error::usage("a system without a target")),
    };

    pub fn of_url(url: &str) -> Option<&'static Self> {
        let scheme = url.split("://").next().unwrap_or_default();
        let named = |system: &&&Self| system.schemes().any(|known| known == scheme);
        SYSTEMS.iter().find(named).copied()
    }

    /// All its schemes, its own first.
    fn schemes(&self) -> impl Iterator<Item = String> + '_ {
        let tls = self.tls.then(|| format!("{}+tls", self.scheme));
        let unix = self.unix.then(|| format!("{}+unix", self.scheme));
        let shared = self.shared.then(|| format!("{}+shm", self.scheme));
        let others = self.ports.iter().map(|(scheme, _)| (*scheme).to_owned());
        let found = others.filter(|other| Some(other) != tls.as_ref() && other != self.scheme);
        [self.scheme.to_owned()]
            .into_iter()
            .chain(tls.clone())
            .chain(unix)
            .chain(shared)
            .chain(found.collect::<Vec<_>>())
    }
}

fn name_of<S: Serializer>(
    dialect: &Option<&Dialect>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    dialect.map(|dialect| dialect.name).serialize(to)
}

/// The target that a URL's scheme names.
pub fn for_spec(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
    let Some(system) = System::of_url(&spec.target) else {
        let known: Vec<String> = SYSTEMS
            .iter()
            .flat_map(|system| system.schemes())
            .map(|scheme| format!("{scheme}://"))
            .collect();
        return Err(Error::usage(format!(
            "target {:?}: no target is called so; known: {}",
            hosts::printable(&spec.target),
            known.join(", ")
        )));
    };
    if spec.operation == Operation::Ingest && !system.operations.contains(&Operation::Ingest) {
        return Err(Error::usage(format!(
            "target {:?}: points of time series are ingested into akumuli://, opentsdb:// or influx://",
            hosts::printable(&spec.target)
        )));
    }
    (system.target)(spec)
}

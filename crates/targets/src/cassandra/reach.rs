//! From a URL to a cluster that answers: who it is, and how its nodes are spoken to.

use std::time::Duration;

use scylla::client::session::Session as Driver;

use super::dial::Access;
use super::hello::Hello;
use super::options::Options;
use super::server::Software;
use super::{connect, hello, server};
use crate::upsert::Place;
use crate::Identity;
use venturi_base::error::{Error, Result};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::spec::TrialSpec;

pub struct Reached {
    pub driver: Driver,
    pub access: Access,
    pub software: Software,
    pub identity: Identity,
    /// What is odd about it.
    pub note: Option<String>,
}

/// `listening`: the process that listens there, of a trial whose set-up is timed.
pub async fn reach(
    place: &Place,
    options: &Options,
    spec: &TrialSpec,
    listening: Option<u32>,
) -> Result<Reached> {
    let address = place.address();
    let timeout = Duration::from_nanos(spec.timeout_ns);
    let tls = connect::tls(place, &options.login)?;
    let named = tls
        .clone()
        .map(|tls| (tls, options.login.tls_server_name.clone()));
    let hello = hello::hello(place, named.as_ref(), timeout).await?;
    check_compression(&address, options, &hello)?;
    let builder = connect::builder(place, options, tls.as_ref(), timeout)?;
    let driver = connect::connect(&builder, &address).await?;
    let software = server::software(&driver).await?;
    let skew = server::skew(&driver).await?;
    let here = is_own(hello.route.peer.ip());
    let identity = Identity {
        address,
        software: Some(software.name.clone()),
        protocol: "cql".to_owned(),
        pid: match (here, spec.include_setup) {
            (false, _) => None,
            (true, true) => listening,
            (true, false) => pid_of(hello.route.peer),
        },
        round_trip_ns: Some(hello.round_trip.as_nanos() as u64),
        same_machine: here.then_some(true),
        route: Some(hello.route),
        ..Identity::default()
    };
    let access = Access {
        tls,
        login: options.login(place)?,
        compression: options.compression()?,
        timeout,
    };
    Ok(Reached {
        driver,
        access,
        software,
        identity,
        note: skew.and_then(server::skew_note),
    })
}

fn check_compression(place: &str, options: &Options, hello: &Hello) -> Result<()> {
    let Some(wanted) = options.compression()? else {
        return Ok(());
    };
    let offered = hello.supported.get("COMPRESSION");
    match offered.is_some_and(|all| all.iter().any(|name| name == wanted.as_str())) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{place}: the server does not know compression = {}; it offers: {}",
            wanted.as_str(),
            offered.map_or_else(|| "none".to_owned(), |all| all.join(", "))
        ))),
    }
}

//! From a URL to a cluster that answers: who it is, and how its nodes are spoken to.

use std::time::Duration;

use scylla::client::session::Session as Driver;

use super::dial::Access;
use super::hello::Hello;
use super::options::Options;
use super::server::Software;
use super::{connect, hello, server, Cluster};
use crate::Identity;
use venturi_base::error::{Error, Result};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;

pub struct Reached {
    pub driver: Driver,
    pub access: Access,
    pub software: Software,
    pub identity: Identity,
    /// What is odd about it.
    pub note: Option<String>,
}

impl<P> Cluster<P> {
    pub(super) async fn reach(&self) -> Result<Reached> {
        let (place, options, spec) = (&self.place, &self.options, &self.spec);
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
                (true, true) => self.listening,
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

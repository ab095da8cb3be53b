//! The servers of the URL: first contact with each, and who they are together.

use futures::future::try_join_all;

use super::ask::authenticate;
use super::call::Link;
use super::options::Address;
use super::{Flight, SCHEME, SERVER};
use crate::many::unlike;
use crate::Identity;
use venturi_base::error::{Error, Kind, Result};

/// A server of the URL, and what is known of it.
pub(super) struct Server {
    pub address: Address,
    /// The process of this host that listens there, where it had to be looked for early.
    pub listening: Option<u32>,
    /// The header that its log-in gave for all further calls.
    pub login: Option<(String, Vec<u8>)>,
    pub identity: Identity,
}

impl Server {
    /// `early`: now, because the clock will run when it is contacted.
    pub fn new(address: Address, early: bool) -> Self {
        let host = early.then(|| address.to_host());
        Self {
            listening: host.and_then(|host| host.listening()),
            address,
            login: None,
            identity: Identity::default(),
        }
    }
}

impl Flight {
    /// A connection to each server, all of them at a time; afterwards it is known who they are.
    pub(super) async fn contact(&mut self) -> Result<Vec<Link>> {
        let contacts = self.servers.iter().map(|server| self.contact_one(server));
        let mut contacts = try_join_all(contacts).await?;
        // Where the clock runs already, it would be a part of what is measured. One after the
        // other, for what another one says would be waited for as well.
        for (link, _, identity) in contacts.iter_mut().filter(|_| !self.spec.include_setup) {
            let Some(took) = link.round_trip(self.timeout()).await else {
                break; // servers that are alike are all silent, and each costs seconds
            };
            identity.round_trip_ns = Some(took.as_nanos() as u64);
        }
        let mut links = Vec::with_capacity(contacts.len());
        for (server, (link, login, identity)) in self.servers.iter_mut().zip(contacts) {
            server.login = login;
            server.identity = identity;
            links.push(link);
        }
        let all: Vec<&Identity> = self.servers.iter().map(|it| &it.identity).collect();
        if let Some(pair) = all.windows(2).find(|it| it[0].reference != it[1].reference) {
            let who = |it: &Identity| match it.reference {
                true => format!("{} is Venturi's own server", it.address),
                false => format!("{} is not", it.address),
            };
            return Err(unlike(&who(pair[0]), &who(pair[1])));
        }
        (self.identity, self.watched) = Identity::together(&all)?;
        Ok(links)
    }

    async fn contact_one(
        &self,
        server: &Server,
    ) -> Result<(Link, Option<(String, Vec<u8>)>, Identity)> {
        let link = self.link(server).await?;
        let address = &server.address;
        // It has not answered anything yet: it may be something else.
        let doubted = |mut error: Error| {
            if error.kind == Kind::Timeout {
                error.message += &format!("; {}", address.doubt(SERVER, SCHEME));
            }
            error
        };
        let login = self.within(address, "logging in", authenticate(&link, &self.options));
        let login = login.await.map_err(doubted)?;
        let identifying = self.identify(server, &link);
        let identity = self.within(address, "first contact", identifying).await;
        Ok((link, login, identity.map_err(doubted)?))
    }

    async fn identify(&self, server: &Server, link: &Link) -> Result<Identity> {
        let mut identity = Identity {
            address: server.address.authority(),
            route: link.route(),
            ..Identity::default()
        };
        match link.action("venturi.hello", b"").await {
            Ok(bytes) => {
                identity.introduce(&bytes);
                Ok(identity)
            }
            // Any other server: it answers in its own way that it does not know the action.
            Err(error) if error.kind == Kind::Server => {
                identity = identity.beside(link.neighbour());
                identity.look(self.spec.include_setup.then_some(server.listening));
                Ok(identity)
            }
            Err(error) => Err(error),
        }
    }
}

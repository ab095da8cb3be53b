//! Several servers of one trial, as the record knows them.

use super::Identity;
use venturi_base::error::{Error, Result};
use venturi_base::meter::readers::network::is_own;

impl Identity {
    /// The processes of this host whose CPU time is that of the whole server side; none where a
    /// part of it is not known.
    pub fn processes(&self) -> Vec<u32> {
        if !self.programs.is_empty() {
            return self.programs.clone();
        }
        // Without a route it is a Unix socket, or none at all.
        let here = match self.route {
            Some(route) => is_own(route.peer.ip()),
            None => self.same_machine == Some(true),
        };
        match self.servers {
            1 => self.pid.filter(|_| here).into_iter().collect(),
            _ => self.pids.clone(),
        }
    }

    /// All servers of a trial as one, and the one whose samples stand for them: the first on this
    /// machine, where the clocks need no comparison, else the first. An error: they run unlike
    /// software, so what is measured would be neither's.
    pub fn together(all: &[&Identity]) -> Result<(Self, usize)> {
        let here = |it: &&Identity| it.same_machine == Some(true);
        let watched = all.iter().position(here).unwrap_or(0);
        let mut whole = all[watched].clone();
        if all.len() == 1 {
            return Ok((whole, watched));
        }
        let mut known = all
            .iter()
            .filter_map(|it| Some((&it.address, it.software.as_ref()?)));
        if let Some((one, software)) = known.next() {
            if let Some((two, other)) = known.find(|(_, other)| *other != software) {
                return Err(unlike(
                    &format!("{one} is {software}"),
                    &format!("{two} is {other}"),
                ));
            }
        }
        let addresses: Vec<&str> = all.iter().map(|it| it.address.as_str()).collect();
        whole.address = addresses.join(",");
        whole.servers = all.len();
        whole.reference = all.iter().all(|it| it.reference);
        whole.samples_itself = all.iter().all(|it| it.samples_itself);
        whole.relay = all.iter().find_map(|it| it.relay.clone());
        whole.round_trip_ns = all.iter().filter_map(|it| it.round_trip_ns).max();
        if all.iter().any(|it| it.handicap != whole.handicap) {
            let slowed = all.iter().filter_map(|it| {
                let handicap = it.handicap.as_ref()?;
                Some(format!("{handicap} ({})", it.address))
            });
            whole.handicap = Some(slowed.collect::<Vec<_>>().join(", "));
        }
        let mut pids: Vec<u32> = all.iter().flat_map(|it| it.processes()).collect();
        if pids.len() < all.len() {
            pids.clear();
        }
        pids.sort_unstable();
        pids.dedup();
        whole.pids = pids;
        Ok((whole, watched))
    }
}

pub fn unlike(one: &str, other: &str) -> Error {
    Error::usage(format!(
        "unlike servers cannot share a trial: {one}, {other}; run one version on all of them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::error::Kind;
    use venturi_base::net::route::Route;

    fn server(address: &str, software: Option<&str>) -> Identity {
        Identity {
            address: address.into(),
            reference: software.is_some(),
            software: software.map(str::to_owned),
            ..Identity::default()
        }
    }

    #[test]
    fn many_servers_as_one() {
        let mut a = server("a:1", Some("venturi 1"));
        let mut b = server("b:2", Some("venturi 1"));
        (a.round_trip_ns, b.round_trip_ns) = (Some(7), Some(3));
        (a.pid, b.pid) = (None, Some(9));
        b.same_machine = Some(true);
        b.handicap = Some("encode 2ms".into());
        let (whole, watched) = Identity::together(&[&a, &b]).unwrap();
        assert_eq!((whole.address.as_str(), whole.servers), ("a:1,b:2", 2));
        assert_eq!((whole.round_trip_ns, watched), (Some(7), 1));
        assert!(whole.reference && whole.same_machine == Some(true));
        // Nobody knows what the other one's process uses, so this one's is not that of all.
        assert!(whole.pid == Some(9) && whole.processes().is_empty());
        assert_eq!(whole.handicap.as_deref(), Some("encode 2ms (b:2)"));
        (a.pid, a.same_machine) = (Some(10), Some(true));
        let local = "127.0.0.1:1".parse().unwrap();
        a.route = Some(Route { local, peer: local });
        b.route = a.route;
        let (whole, watched) = Identity::together(&[&a, &b]).unwrap();
        assert_eq!((whole.pid, watched), (Some(10), 0));
        assert_eq!(whole.processes(), [9, 10]);
    }

    #[test]
    fn unlike_servers_are_named() {
        let all = [
            server("a:1", None),
            server("b:2", Some("venturi 1")),
            server("c:3", Some("venturi 2")),
        ];
        let all: Vec<&Identity> = all.iter().collect();
        let error = Identity::together(&all).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        let says = "b:2 is venturi 1, c:3 is venturi 2;";
        assert!(error.message.contains(says), "{}", error.message);
        assert!(!Identity::together(&all[..2]).unwrap().0.reference);
    }
}

//! The connections of drivers that keep their sockets to themselves.

use std::collections::HashSet;
use std::sync::Arc;

use crate::meter::readers::connections;
use crate::meter::readers::network::is_own;
use crate::meter::sockets::Sockets;
use crate::spec::{Operation, TrialSpec};
use crate::target::Identity;

/// The connections of a driver that keeps its sockets to itself (every database's does): those
/// that this process has opened since the trial began.
pub struct Strangers {
    before: HashSet<u64>,
    pub sockets: Arc<Sockets>,
}

impl Strangers {
    pub fn new(spec: &TrialSpec) -> Option<Self> {
        let wanted = spec.operation == Operation::Upsert && !spec.include_setup;
        wanted.then(|| Self {
            before: connections::open(),
            sockets: Arc::default(),
        })
    }

    /// Where they go, if the target does not know.
    pub fn complete(&self, identity: &mut Identity) {
        if identity.route.is_none() {
            let found = connections::opened_since(&self.before);
            identity.route = found.first().map(|connection| connection.route);
        }
        let here = identity.route.is_some_and(|route| is_own(route.peer.ip()));
        if here && identity.same_machine.is_none() {
            identity.same_machine = Some(true);
        }
    }

    pub fn keep(&self) {
        self.sockets.keep(connections::opened_since(&self.before));
    }
}

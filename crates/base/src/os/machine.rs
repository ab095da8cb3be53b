//! Which machine this is, and where on it this process runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where a process runs, as it tells the other end. Containers of one machine may each have
/// process numbers and a monotonic clock of their own (namespaces(7)); a namespace is empty where
/// there is no such thing, or where nobody says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// Tells machines apart.
    pub boot_id: Option<String>,
    pub pid: Option<u32>,
    pub pid_namespace: String,
    pub time_namespace: String,
}

impl Place {
    pub fn current() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self {
            boot_id: boot_id.map(|text| text.trim().to_owned()),
            pid: Some(std::process::id()),
            pid_namespace: namespace("pid"),
            time_namespace: namespace("time"),
        }
    }

    /// Whether it is on the machine of `other`. `None`: one of them does not know its own.
    pub fn on_machine_of(&self, other: &Self) -> Option<bool> {
        let both = self.boot_id.as_ref().zip(other.boot_id.as_ref());
        both.map(|(one, two)| one == two)
    }

    /// Whether both read one monotonic clock.
    pub fn shares_clock_of(&self, other: &Self) -> bool {
        self.on_machine_of(other) == Some(true) && self.time_namespace == other.time_namespace
    }

    /// Its process number, where it means the same process to `other`.
    pub fn pid_for(&self, other: &Self) -> Option<u32> {
        let named = self.pid_namespace.is_empty() || self.pid_namespace == other.pid_namespace;
        self.pid
            .filter(|_| named && self.on_machine_of(other) == Some(true))
    }
}

fn namespace(kind: &str) -> String {
    let link = std::fs::read_link(Path::new("/proc/self/ns").join(kind));
    link.map_or_else(
        |_| String::new(),
        |link| link.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_processes_share() {
        let here = Place::current();
        assert_eq!(here.pid, Some(std::process::id()));
        let beside = Place {
            pid: Some(7),
            ..here.clone()
        };
        assert_eq!(beside.pid_for(&here), Some(7));
        assert!(beside.shares_clock_of(&here));
        let contained = Place {
            pid_namespace: "pid:[1]".into(),
            time_namespace: "time:[1]".into(),
            ..beside.clone()
        };
        assert_eq!(contained.on_machine_of(&here), Some(true));
        assert_eq!(contained.pid_for(&here), None);
        assert!(!contained.shares_clock_of(&here));
        let silent = Place {
            pid_namespace: String::new(),
            ..beside.clone()
        };
        assert_eq!(silent.pid_for(&here), Some(7));
        let elsewhere = Place {
            boot_id: Some("another".into()),
            ..beside
        };
        assert_eq!(elsewhere.on_machine_of(&here), Some(false));
        assert_eq!(elsewhere.pid_for(&here), None);
        assert_eq!(Place::default().on_machine_of(&here), None);
        assert!(!Place::default().shares_clock_of(&Place::default()));
    }
}

//! What a process has started: PostgreSQL has a process for each connection.

use std::time::{Duration, Instant};

use super::process::{parse, Usage};
use super::Reread;

/// Processes that are looked at; a server with more is told too low.
const MOST_CHILDREN: usize = 1024;

/// Looking for new ones takes this part of the time at most.
const PART: u32 = 100;

/// All that a process has started, and these in turn.
#[derive(Debug)]
pub(super) struct Family {
    /// Who has started them, in whose list new ones are found; `None`: they are all there are.
    pid: Option<u32>,
    children: Vec<Child>,
    looked: Option<(Instant, Duration)>,
}

impl Family {
    pub(super) fn of(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            children: Vec::new(),
            looked: None,
        }
    }

    /// These, none of which leads the others.
    pub(super) fn several(pids: &[u32]) -> Self {
        let children = pids.iter().take(MOST_CHILDREN).copied();
        Self {
            pid: None,
            children: children.map(Child::new).collect(),
            looked: None,
        }
    }

    /// `ended`: what the system has counted of those that have ended.
    pub(super) fn read(&mut self, ended: &Usage, tick_ns: u64, page: u64) -> Usage {
        let due = |(at, took): (Instant, Duration)| at.elapsed() >= took * PART;
        if self.looked.is_none_or(due) {
            let begun = Instant::now();
            let mut places = MOST_CHILDREN - self.children.iter().map(Child::count).sum::<usize>();
            if let Some(pid) = self.pid {
                find(pid, &mut self.children, &mut places);
            }
            look(&mut self.children, &mut places);
            self.looked = Some((begun, begun.elapsed()));
        }
        for child in &mut self.children {
            child.read(tick_ns, page);
        }
        total(&self.children, ended)
    }
}

/// Those that live, and those that have ended: as the system counts them when somebody has waited for
/// them, or as they were last seen.
fn total(children: &[Child], ended: &Usage) -> Usage {
    let (mut alive, mut gone) = (Usage::default(), Usage::default());
    alive.rss_bytes = Some(0);
    for child in children {
        match child.stat.is_some() {
            true => alive.add(&child.total()),
            false => gone.add(&child.total()),
        }
    }
    alive.add(&gone.most(*ended));
    alive
}

/// One that was started. What it has used stays counted when it is gone.
#[derive(Debug)]
struct Child {
    pid: u32,
    stat: Option<Reread>,
    last: Usage,
    /// Of those that it had started and waited for.
    ended: Usage,
    children: Vec<Child>,
}

impl Child {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            stat: Reread::open(&format!("/proc/{pid}/stat")),
            last: Usage::default(),
            ended: Usage::default(),
            children: Vec::new(),
        }
    }

    fn count(&self) -> usize {
        1 + self.children.iter().map(Child::count).sum::<usize>()
    }

    fn read(&mut self, tick_ns: u64, page: u64) {
        let stat = self.stat.as_mut().and_then(Reread::read);
        match stat.and_then(|stat| parse(stat, tick_ns, page)) {
            Some((last, ended)) => (self.last, self.ended) = (last, ended),
            None => (self.stat, self.last.rss_bytes) = (None, None),
        }
        for child in &mut self.children {
            child.read(tick_ns, page);
        }
    }

    fn total(&self) -> Usage {
        let mut usage = self.last;
        usage.add(&total(&self.children, &self.ended));
        usage
    }
}

/// Finds what these have started.
fn look(children: &mut [Child], places: &mut usize) {
    for child in children.iter_mut().filter(|child| child.stat.is_some()) {
        find(child.pid, &mut child.children, places);
        look(&mut child.children, places);
    }
}

/// Finds what is new. Each thread has a list of those that it has started.
fn find(pid: u32, children: &mut Vec<Child>, places: &mut usize) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for pid in list.split_ascii_whitespace() {
            let Ok(pid) = pid.parse() else { continue };
            let known = |child: &Child| child.pid == pid && child.stat.is_some();
            // This process works for itself, whoever has started it.
            let new = pid != std::process::id() && !children.iter().any(known);
            if new && *places > 0 {
                *places -= 1;
                children.push(Child::new(pid));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Family {
        /// Of all that were found, who started before whom was started.
        pub(in super::super) fn pids(&self) -> Vec<u32> {
            fn of(children: &[Child]) -> Vec<u32> {
                let with = |child: &Child| [vec![child.pid], of(&child.children)].concat();
                children.iter().flat_map(with).collect()
            }
            of(&self.children)
        }
    }

    #[test]
    fn what_has_ended_is_counted_once() {
        let used = |user_ns| Usage {
            user_ns,
            ..Usage::default()
        };
        let gone = |user_ns| Child {
            pid: 1,
            stat: None,
            last: used(user_ns),
            ended: Usage::default(),
            children: Vec::new(),
        };
        // As it was last seen, as the system has counted it since, and where nobody has waited for it.
        for (ended, whole) in [(30, 30), (50, 50), (0, 30)] {
            let found = total(&[gone(10), gone(20)], &used(ended));
            assert_eq!(found.user_ns, whole, "{ended}");
        }
    }
}

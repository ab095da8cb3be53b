//! What a process has started: PostgreSQL has a process for each connection.

use std::time::{Duration, Instant};

use super::process::{parse, Usage};
use super::Reread;

/// Processes that are looked at; a server with more is told too low.
const MOST_CHILDREN: usize = 1024;

/// Looking for new ones takes this part of the time at most; and of a process that has started none, as long as
/// that is once a second. In a server of a hundred threads, each with a list of its own, a hundredth is more
/// than some clients spend on their batches.
const PART: u32 = 100;
const PART_ALONE: u32 = 1000;

/// They are looked for when a process or a thread was started on this host, and else so often: one that
/// has lost its parent comes into another's list without being started.
const ANYWAY: Duration = Duration::from_secs(1);

/// All that a process has started, and these in turn.
#[derive(Debug)]
pub(super) struct Family {
    /// Who has started them, in whose list new ones are found; `None`: they are all there are.
    pid: Option<u32>,
    children: Vec<Child>,
    looked: Option<Look>,
    births: Births,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    took: Duration,
    /// The last number that the host had given before.
    newest: Option<u32>,
}

/// The end of /proc/loadavg (proc_loadavg(5)): the number that was given to the newest process or thread.
#[derive(Debug)]
struct Births(Option<Reread>);

impl Births {
    fn open() -> Self {
        Self(Reread::open("/proc/loadavg"))
    }

    /// `None`: the system does not tell.
    fn newest(&mut self) -> Option<u32> {
        let text = self.0.as_mut()?.read()?;
        text.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}

impl Family {
    pub(super) fn of(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            children: Vec::new(),
            looked: None,
            births: Births::open(),
        }
    }

    /// These, none of which leads the others.
    pub(super) fn several(pids: &[u32]) -> Self {
        let children = pids.iter().take(MOST_CHILDREN).copied();
        Self {
            pid: None,
            children: children.map(Child::new).collect(),
            looked: None,
            births: Births::open(),
        }
    }

    /// `ended`: what the system has counted of those that have ended.
    pub(super) fn read(&mut self, ended: &Usage, tick_ns: u64, page: u64) -> Usage {
        let newest = self.births.newest();
        let is_alone = self.children.is_empty();
        let due = |look: &Look| {
            let passed = look.at.elapsed();
            let may_be_new = newest.is_none() || newest != look.newest || passed >= ANYWAY;
            let pause = match is_alone {
                true => (look.took * PART_ALONE).min(ANYWAY.max(look.took * PART)),
                false => look.took * PART,
            };
            may_be_new && passed >= pause
        };
        if self.looked.as_ref().is_none_or(due) {
            let at = Instant::now();
            let mut places = MOST_CHILDREN - self.children.iter().map(Child::count).sum::<usize>();
            if let Some(pid) = self.pid {
                find(pid, &mut self.children, &mut places);
            }
            look(&mut self.children, &mut places);
            self.looked = Some(Look {
                at,
                took: at.elapsed(),
                newest,
            });
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_starts_is_a_birth() {
        let mut births = Births::open();
        let before = births.newest().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        assert_ne!(births.newest().unwrap(), before);
    }

    #[test]
    fn a_child_is_found_where_the_system_tells_of_no_births() {
        assert_eq!(Births(None).newest(), None);
        let mut family = Family {
            births: Births(None),
            ..Family::of(std::process::id())
        };
        family.read(&Usage::default(), 1, 1);
        let mut sleeper = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        venturi_testkit::until("the child is found", || {
            family.read(&Usage::default(), 1, 1);
            family.pids().contains(&sleeper.id())
        });
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
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

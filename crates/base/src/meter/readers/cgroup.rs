//! The CPU limit of the control group that a process is in, version 1 or 2: the tightest
//! quota on the way up to the root, and for how long that group was throttled.

use std::path::{Path, PathBuf};

use super::{folder, Reread};

#[derive(Debug)]
pub struct Group {
    /// CPUs that the group may use; `None`: as many as there are.
    pub quota_cores: Option<f64>,
    stat: Option<Reread>,
}

impl Group {
    /// `None`: the system has no control groups, or does not show them.
    pub fn of(pid: Option<u32>) -> Option<Self> {
        let folder = folder(pid);
        let groups = std::fs::read_to_string(format!("{folder}/cgroup")).ok()?;
        let mounts = std::fs::read_to_string(format!("{folder}/mountinfo")).ok()?;
        let place = place(&groups, &mounts)?;
        let (quota_cores, tightest) = tightest(&place, &|path| std::fs::read_to_string(path).ok());
        let stat = tightest.join("cpu.stat");
        Some(Self {
            quota_cores,
            stat: stat.to_str().and_then(Reread::open),
        })
    }

    /// Summed over the CPUs of the group, as the kernel counts it.
    pub fn throttled_ns(&mut self) -> Option<u64> {
        parse_throttled(self.stat.as_mut()?.read()?)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// Where the hierarchy is mounted, and the group's folder in it.
    mount: PathBuf,
    group: PathBuf,
    version: u8,
}

/// From /proc/PID/cgroup (cgroups(7)) and /proc/PID/mountinfo. The hierarchy that has the
/// CPU controller: where there is one of version 1, it has.
fn place(groups: &str, mounts: &str) -> Option<Place> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers.to_owned(), path.to_owned()))
    };
    let all: Vec<(String, String)> = groups.lines().filter_map(line).collect();
    let old = all
        .iter()
        .find(|(names, _)| names.split(',').any(|name| name == "cpu"));
    let (version, path) = match old {
        Some((_, path)) => (1, path),
        None => (2, &all.iter().find(|(names, _)| names.is_empty())?.1),
    };
    let (root, mount) = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1).unwrap_or_default());
        let fits = match version {
            1 => kind == "cgroup" && options.split(',').any(|name| name == "cpu"),
            _ => kind == "cgroup2",
        };
        let mut left = left.split(' ').skip(3);
        fits.then_some((left.next()?, left.next()?))
    })?;
    // A container sees a part of the hierarchy, or its own group as the root.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    Some(Place {
        mount: PathBuf::from(mount),
        group: Path::new(mount).join(below.strip_prefix("/").unwrap_or(below)),
        version,
    })
}

/// The least quota from the group up to the mount, and whose it is; without one the group itself.
fn tightest(place: &Place, read: &dyn Fn(&Path) -> Option<String>) -> (Option<f64>, PathBuf) {
    let mut found: (Option<f64>, PathBuf) = (None, place.group.clone());
    for path in place
        .group
        .ancestors()
        .take_while(|path| path.starts_with(&place.mount))
    {
        let quota = match place.version {
            1 => {
                let number = |name: &str| read(&path.join(name))?.trim().parse::<f64>().ok();
                quota(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"))
            }
            _ => read(&path.join("cpu.max")).and_then(|text| {
                let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
                quota(words.next()?, words.next()?)
            }),
        };
        if quota.is_some_and(|quota| found.0.is_none_or(|least| quota < least)) {
            found = (quota, path.to_owned());
        }
    }
    found
}

/// "max" and -1 are no quota.
fn quota(quota_us: Option<f64>, period_us: Option<f64>) -> Option<f64> {
    let (quota, period) = (quota_us?, period_us?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// cpu.stat: `throttled_time` in ns (version 1), `throttled_usec` (version 2).
fn parse_throttled(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value = value.trim().parse::<u64>().ok()?;
        match name {
            "throttled_time" => Some(value),
            "throttled_usec" => Some(value * 1000),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "25 1 0:22 / /proc rw - proc proc rw\n\
        29 25 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:8 - cgroup cgroup rw,memory\n\
        30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        31 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn version_1_before_a_hybrid_s_version_2() {
        let groups = "9:name=systemd:/\n3:cpu,cpuacct:/jobs/a:b\n0::/user.slice\n";
        let place = place(groups, MOUNTS).unwrap();
        assert_eq!(place.version, 1);
        assert_eq!(
            place.group,
            Path::new("/sys/fs/cgroup/cpu,cpuacct/jobs/a:b")
        );
        let read = |path: &Path| {
            Some(
                match path.to_str()?.strip_prefix("/sys/fs/cgroup/cpu,cpuacct")? {
                    "/jobs/a:b/cpu.cfs_quota_us" | "/cpu.cfs_quota_us" => "-1\n".to_owned(),
                    "/jobs/cpu.cfs_quota_us" => "10000\n".to_owned(),
                    path if path.ends_with("period_us") => "100000\n".to_owned(),
                    _ => return None,
                },
            )
        };
        let (quota, whose) = tightest(&place, &read);
        assert_eq!(quota, Some(0.1));
        assert!(whose.ends_with("jobs"));
    }

    #[test]
    fn version_2_and_the_tightest_quota_above() {
        let place = place("0::/a/b/c\n", MOUNTS).unwrap();
        assert_eq!(place.group, Path::new("/sys/fs/cgroup/unified/a/b/c"));
        let read = |path: &Path| {
            Some(match path.to_str()? {
                "/sys/fs/cgroup/unified/a/b/c/cpu.max" => "200000 100000\n".to_owned(),
                "/sys/fs/cgroup/unified/a/b/cpu.max" => "50000 100000\n".to_owned(),
                "/sys/fs/cgroup/unified/a/cpu.max" => "max 100000\n".to_owned(),
                _ => return None,
            })
        };
        let (quota, whose) = tightest(&place, &read);
        assert_eq!(quota, Some(0.5));
        assert!(whose.ends_with("a/b"));
        let (none, own) = tightest(&place, &|_| None);
        assert_eq!((none, own), (None, place.group.clone()));
    }

    #[test]
    fn a_container_s_part_of_the_hierarchy() {
        let mounts = "30 25 0:27 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let group = |groups: &str| place(groups, mounts).unwrap().group;
        assert_eq!(
            group("0::/docker/1f/work\n"),
            Path::new("/sys/fs/cgroup/work")
        );
        assert_eq!(group("0::/\n"), Path::new("/sys/fs/cgroup"));
        assert_eq!(place("", mounts), None);
        assert_eq!(place("0::/\n", ""), None);
    }

    #[test]
    fn throttled_time_of_both_versions() {
        let old = "nr_periods 12\nnr_throttled 3\nthrottled_time 123456789\n";
        assert_eq!(parse_throttled(old), Some(123_456_789));
        let new = "usage_usec 1\nuser_usec 1\nnr_throttled 3\nthrottled_usec 5000\n";
        assert_eq!(parse_throttled(new), Some(5_000_000));
        assert_eq!(parse_throttled("usage_usec 1\n"), None);
    }
}

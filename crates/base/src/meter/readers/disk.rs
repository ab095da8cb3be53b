//! Whole disks, from /proc/diskstats (Documentation/admin-guide/iostats.rst). What lies on
//! others (device mapper, RAID, loop) would count twice in bytes and is left out there; its busy
//! time counts, for it may be slower than what it lies on. Partitions are left out.

use super::Reread;

/// The kernel's unit here, whatever the disk's own sector is.
const SECTOR: u64 = 512;

/// All disks together; counts since the host started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Of the disk, or of what lies on disks, that was busy longest since the first reading.
    pub busy_ns: u64,
}

#[derive(Debug)]
pub struct Disks {
    stats: Reread,
    names: Vec<Name>,
    /// Busy time of each at the first reading.
    begun: Option<Vec<u64>>,
}

#[derive(Debug)]
struct Name {
    name: String,
    /// A disk proper, which has a device behind it.
    proper: bool,
}

impl Disks {
    /// `None`: no disk, or not told.
    pub fn open() -> Option<Self> {
        let entries = std::fs::read_dir("/sys/block").ok()?;
        let names: Vec<Name> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some(Name {
                    proper: entry.path().join("device").exists(),
                    name: entry.file_name().into_string().ok()?,
                })
            })
            .collect();
        let stats = Reread::open("/proc/diskstats")?;
        names.iter().any(|name| name.proper).then_some(Self {
            stats,
            names,
            begun: None,
        })
    }

    pub fn read(&mut self) -> Option<Moved> {
        let (mut moved, busy) = parse(self.stats.read()?, &self.names);
        let begun = self.begun.get_or_insert_with(|| busy.clone());
        let grown = busy
            .iter()
            .zip(begun)
            .map(|(now, begun)| now.saturating_sub(*begun));
        moved.busy_ns = grown.max().unwrap_or(0);
        Some(moved)
    }
}

/// The sums, and the busy time of each disk in the order of `names`.
fn parse(stats: &str, names: &[Name]) -> (Moved, Vec<u64>) {
    let mut moved = Moved::default();
    let mut busy = vec![0; names.len()];
    for line in stats.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(14).collect();
        let Some(at) = fields
            .get(2)
            .and_then(|name| names.iter().position(|one| one.name == *name))
        else {
            continue;
        };
        let number = |field: usize| {
            fields
                .get(field)
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        if names[at].proper {
            moved.read_bytes += number(5) * SECTOR;
            moved.written_bytes += number(9) * SECTOR;
        }
        busy[at] = number(12) * 1_000_000;
    }
    (moved, busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text() {
        let text = "   7  0 loop0 5 0 10 1 0 0 0 0 0 9 0\n \
            254  0 vda 2786037 149914 148776594 3991845 405023 380726 59576184 335372 0 238344 4372809 271660 60 4 3\n \
            254  1 vda1 2786037 149914 148776594 3991845 405023 380726 59576184 335372 0 238344 4372809\n \
            259  0 nvme0n1 1 0 8 1 1 0 16 1 0 7 9\n";
        let named = |name: &str, proper| Name {
            name: name.to_owned(),
            proper,
        };
        let names = [
            named("nvme0n1", true),
            named("vda", true),
            named("loop0", false),
        ];
        let (moved, busy) = parse(text, &names);
        assert_eq!(moved.read_bytes, (148_776_594 + 8) * 512);
        assert_eq!(moved.written_bytes, (59_576_184 + 16) * 512);
        assert_eq!(busy, [7_000_000, 238_344_000_000, 9_000_000]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn busy_counts_from_the_first_reading() {
        if let Some(mut disks) = Disks::open() {
            assert_eq!(disks.read().unwrap().busy_ns, 0);
        }
    }
}

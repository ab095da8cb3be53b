//! Pressure stall information of the host (Documentation/accounting/psi.rst): for how long
//! some task could not go on for want of a resource.

use super::Reread;

#[derive(Debug)]
pub struct Pressure {
    cpu: Option<Reread>,
    memory: Option<Reread>,
    io: Option<Reread>,
}

impl Pressure {
    pub fn open() -> Self {
        let open = |name: &str| Reread::open(&format!("/proc/pressure/{name}"));
        Self {
            cpu: open("cpu"),
            memory: open("memory"),
            io: open("io"),
        }
    }

    /// Microseconds of (CPU, memory, disks) since the host started.
    pub fn read(&mut self) -> [Option<u64>; 3] {
        [&mut self.cpu, &mut self.memory, &mut self.io]
            .map(|file| file.as_mut().and_then(Reread::read).and_then(parse))
    }
}

fn parse(pressure: &str) -> Option<u64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text() {
        let text = "some avg10=12.31 avg60=4.40 avg300=1.05 total=123456789\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=77\n";
        assert_eq!(parse(text), Some(123_456_789));
        assert_eq!(parse(""), None);
    }
}

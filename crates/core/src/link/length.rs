//! The length of a link: when each frame is due at its far end, or that it never arrives.

use std::collections::VecDeque;

use serde::Deserialize;
use venturi_base::data::gauss::{even, splitmix};

/// What the clock may jump, or a thread be late, before an arrival is taken to be now.
const LATEST_NS: u64 = 1_000_000_000;

/// What happens to frames on their way in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    pub delay_ns: u64,
    /// A frame's delay wanders within `delay_ns` and so much more or less.
    pub jitter_ns: u64,
    /// The part of frames that is lost, each by itself.
    pub loss: f64,
    /// Bytes that may be under way; what comes when so many are is dropped.
    pub holds: usize,
    /// Bytes that may wait at the interface by which they leave: a full queue drops what comes.
    pub buffer: usize,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    UnderWay,
    Lost,
    NoRoom,
}

/// Frames under way. They keep their order, as those of a flow do on nearly every path.
pub struct Length {
    way: Way,
    chance: u64,
    jitter: Jitter,
    frames: VecDeque<Frame>,
    bytes: usize,
    last_due: u64,
}

/// What is more or less than the delay: straight between values that are drawn in even steps of time. A step is so
/// long that no frame is overtaken: else all would wait for those of the longest delay, and the link be longer.
#[derive(Default)]
struct Jitter {
    /// When the step began, and its two values; 0: not yet.
    since: u64,
    from: i64,
    to: i64,
}

impl Jitter {
    /// So many times the jitter is a step: the delay falls by half of the time that passes, at most.
    const STEP: u64 = 4;

    fn at(&mut self, now: u64, jitter: u64, chance: &mut u64) -> i64 {
        let step = Self::STEP * jitter;
        let mut draw = || (splitmix(chance) % (2 * jitter + 1)) as i64 - jitter as i64;
        if now >= self.since + 2 * step {
            (self.since, self.from, self.to) = (now, draw(), draw());
        } else if now >= self.since + step {
            (self.since, self.from, self.to) = (self.since + step, self.to, draw());
        }
        let part = now.saturating_sub(self.since) as f64 / step as f64;
        self.from + ((self.to - self.from) as f64 * part) as i64
    }
}

struct Frame {
    due_ns: u64,
    bytes: Box<[u8]>,
}

impl Length {
    /// `seed`: of chance.
    pub fn new(way: Way, seed: u64) -> Self {
        Self {
            way,
            chance: seed,
            jitter: Jitter::default(),
            frames: VecDeque::new(),
            bytes: 0,
            last_due: 0,
        }
    }

    /// Takes in a frame that arrived then; times are ns since 1970.
    pub fn enter(&mut self, frame: &[u8], arrived: u64, now: u64) -> Fate {
        if self.way.loss > 0.0 && even(&mut self.chance) <= self.way.loss {
            return Fate::Lost;
        }
        if self.bytes + frame.len() > self.way.holds {
            return Fate::NoRoom;
        }
        let late = now.saturating_sub(arrived) > LATEST_NS;
        let arrived = if late { now } else { arrived.min(now) };
        self.last_due = self.last_due.max(arrived + self.delay(arrived));
        self.bytes += frame.len();
        self.frames.push_back(Frame {
            due_ns: self.last_due,
            bytes: frame.into(),
        });
        Fate::UnderWay
    }

    fn delay(&mut self, arrived: u64) -> u64 {
        let Way {
            delay_ns,
            jitter_ns,
            ..
        } = self.way;
        if jitter_ns == 0 {
            return delay_ns;
        }
        let more = self.jitter.at(arrived, jitter_ns, &mut self.chance);
        delay_ns.saturating_add_signed(more)
    }

    /// When the next one is due; none where none is under way.
    pub fn next(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.due_ns)
    }

    /// Those that are due by then, in their order.
    pub fn due(&self, now: u64) -> impl Iterator<Item = &[u8]> {
        let due = self.frames.iter().take_while(move |one| one.due_ns <= now);
        due.map(|frame| &*frame.bytes)
    }

    /// Drops what is due after so many bytes that are due too: the interface's queue is full, and these would
    /// not have had room in it.
    pub fn trim(&mut self, now: u64, room: usize) {
        let mut bytes = 0;
        let fits = |frame: &&[u8]| {
            bytes += frame.len();
            bytes <= room
        };
        let (due, fit) = (
            self.due(now).count(),
            self.due(now).take_while(fits).count(),
        );
        let gone = self.frames.drain(fit..due).map(|one| one.bytes.len());
        self.bytes -= gone.sum::<usize>();
    }

    /// Lets go of the first ones; how many bytes these were.
    pub fn leave(&mut self, frames: usize) -> usize {
        let gone = self.frames.drain(..frames).map(|one| one.bytes.len()).sum();
        self.bytes -= gone;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = Way {
        delay_ns: 1_000,
        jitter_ns: 0,
        loss: 0.0,
        holds: 1_000,
        buffer: 0,
    };

    #[test]
    fn a_frame_is_due_after_its_arrival_and_not_after_it_was_seen() {
        let mut length = Length::new(WAY, 1);
        assert_eq!(length.enter(b"first", 10_000, 10_700), Fate::UnderWay);
        assert_eq!(length.enter(b"second", 10_200, 10_700), Fate::UnderWay);
        assert_eq!(length.next(), Some(11_000));
        assert_eq!(length.due(10_999).count(), 0);
        assert_eq!(length.due(11_000).collect::<Vec<_>>(), [b"first"]);
        assert_eq!(length.due(11_200).count(), 2);
        assert_eq!(length.leave(1), 5);
        assert_eq!(length.next(), Some(11_200));
    }

    #[test]
    fn a_clock_that_jumps_moves_no_frame_by_more_than_its_delay() {
        let mut length = Length::new(WAY, 1);
        let now = 5 * LATEST_NS;
        length.enter(b"past", 0, now);
        length.enter(b"future", 2 * now, now);
        assert!(length.next() == Some(now + 1_000) && length.due(now + 1_000).count() == 2);
    }

    #[test]
    fn no_more_is_under_way_than_may_be() {
        let mut length = Length::new(WAY, 1);
        assert_eq!(length.enter(&[0; 600], 0, 0), Fate::UnderWay);
        assert_eq!(length.enter(&[0; 600], 0, 0), Fate::NoRoom);
        assert_eq!(length.enter(&[0; 400], 0, 0), Fate::UnderWay);
        length.leave(1);
        assert_eq!(length.enter(&[0; 600], 0, 0), Fate::UnderWay);
    }

    #[test]
    fn a_full_queue_drops_what_is_due_last_and_nothing_that_is_not_due() {
        let mut length = Length::new(WAY, 1);
        for (at, byte) in [(0, 1), (1, 2), (2, 3), (900, 4)] {
            length.enter(&[byte; 100], at, at);
        }
        let first =
            |length: &Length, now| length.due(now).map(|frame| frame[0]).collect::<Vec<_>>();
        length.trim(1_500, 300);
        assert_eq!(first(&length, 1_500), [1, 2, 3]);
        length.trim(1_500, 250);
        assert_eq!(first(&length, 1_500), [1, 2]);
        assert_eq!(first(&length, 2_000), [1, 2, 4]);
        assert_eq!(length.leave(3), 300);
        assert_eq!(length.bytes, 0);
    }

    #[test]
    fn as_many_are_lost_as_shall_be_and_the_same_ones_again() {
        let way = Way {
            loss: 0.01,
            holds: usize::MAX,
            ..WAY
        };
        let fates = |seed| {
            let mut length = Length::new(way, seed);
            (0..100_000)
                .map(|_| length.enter(b"x", 0, 0))
                .collect::<Vec<_>>()
        };
        let lost = fates(1).iter().filter(|fate| **fate == Fate::Lost).count();
        // Five standard deviations.
        assert!((843..=1157).contains(&lost), "{lost}");
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn jitter_stays_within_its_bounds_around_the_delay_and_nobody_waits_for_another() {
        let way = Way {
            jitter_ns: 400,
            holds: usize::MAX,
            ..WAY
        };
        // Frames one after another, and seldom ones.
        for apart in [1, 10, 100, 10_000] {
            let mut length = Length::new(way, 1);
            let mut delays = vec![];
            for n in 1..=200_000 / apart.min(100) {
                let sent = 1_000_000 + apart * n;
                length.enter(b"x", sent, sent);
                delays.push(length.next().unwrap() - sent);
                length.leave(1);
            }
            let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
            let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            assert!((600..800).contains(least), "{apart}: {least}");
            assert!((1_200..=1_400).contains(most), "{apart}: {most}");
            assert!((mean - 1_000.0).abs() < 40.0, "{apart}: {mean}");
        }
        let mut length = Length::new(way, 1);
        for n in 0..100_000 {
            length.enter(b"x", 20_000_000 + n, 20_000_000 + n);
        }
        assert!(length.frames.iter().map(|frame| frame.due_ns).is_sorted());
    }
}

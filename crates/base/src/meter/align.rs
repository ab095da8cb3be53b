//! Two machines' monotonic clocks side by side (Cristian, "Probabilistic clock
//! synchronization", Distributed Computing 3, 1989): of several round trips the shortest
//! tells most, for the other clock was read somewhere between its two ends.

use serde::Serialize;

/// Round trips before and after a trial, each.
pub const TRIPS: usize = 8;

/// The server's clock minus the client's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Clock {
    pub offset_ns: i64,
    /// Half the round trip: the offset is off by no more than this.
    pub uncertainty_ns: u64,
}

/// One round trip by the client's clock, and what the server's clock said meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Trip {
    pub sent_ns: i64,
    pub server_ns: i64,
    pub received_ns: i64,
}

impl Trip {
    fn clock(&self) -> Option<Clock> {
        let took = self.received_ns.checked_sub(self.sent_ns)?;
        Some(Clock {
            offset_ns: self
                .server_ns
                .checked_sub(self.sent_ns)?
                .checked_sub(took / 2)?,
            uncertainty_ns: u64::try_from(took).ok()?.div_ceil(2),
        })
    }
}

/// By the shortest trip. `None`: there was none.
pub fn align(trips: &[Trip]) -> Option<Clock> {
    trips
        .iter()
        .filter_map(Trip::clock)
        .min_by_key(|clock| clock.uncertainty_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shortest_trip_counts() {
        let trip = |sent_ns, server_ns, received_ns| Trip {
            sent_ns,
            server_ns,
            received_ns,
        };
        let clock = align(&[
            trip(0, 1500, 900),
            trip(1000, 2060, 1100),
            trip(2000, 9000, 1000),
        ])
        .unwrap();
        assert_eq!(
            clock,
            Clock {
                offset_ns: 1010,
                uncertainty_ns: 50
            }
        );
        assert_eq!(align(&[]), None);
        assert_eq!(align(&[trip(i64::MIN, 0, i64::MAX)]), None);
    }

    proptest! {
        /// However a trip divides into way there and way back, the truth is within the uncertainty.
        #[test]
        fn the_offset_is_never_off_by_more(
            offset in -1i64 << 60..1i64 << 60,
            ways in proptest::collection::vec((0i64..1_000_000, 0i64..1_000_000), 1..16),
        ) {
            let trips: Vec<Trip> = ways.iter().map(|(there, back)| Trip {
                sent_ns: 5,
                server_ns: 5 + there + offset,
                received_ns: 5 + there + back,
            }).collect();
            let clock = align(&trips).unwrap();
            prop_assert!((clock.offset_ns - offset).unsigned_abs() <= clock.uncertainty_ns);
        }
    }
}

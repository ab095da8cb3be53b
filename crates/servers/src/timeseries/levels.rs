//! Values that come again and again, as a dictionary: what gauges tell has few levels.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::pages::varint;
use super::registry::Ready;

/// Entries of a row group: numbers take two bytes at most, and a lookup stays in the cache.
const MOST: usize = 4096;
/// New ones that every page may bring; where it begins with so many that all differ, it is noise.
const FREE: usize = 48;
/// How many values let a page bring one more.
const EACH: usize = 16;

/// A row group's dictionary of values.
#[derive(Debug, Default)]
pub struct Levels {
    values: Vec<f64>,
    /// By the mixed bits, which are other ones for other values: no hash is made of them.
    index: HashMap<u64, u16, BuildHasherDefault<Ready>>,
    numbers: Vec<u16>,
}

impl Levels {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// All entries, PLAIN.
    pub fn plain(&self, out: &mut Vec<u8>) {
        out.clear();
        for value in &self.values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A page's numbers, RLE_DICTIONARY. False: too many of its values are new ones, and none of
    /// them was taken.
    pub fn page(&mut self, values: &[f64], out: &mut Vec<u8>) -> bool {
        let before = self.values.len();
        let most = MOST.min(before + FREE + values.len() / EACH);
        self.numbers.clear();
        let (mut last, mut number, mut highest) = (None, 0, 0);
        for (seen, value) in values.iter().enumerate() {
            let bits = value.to_bits();
            if last != Some(bits) {
                match self.index.entry(mixed(bits)) {
                    Entry::Occupied(known) => number = *known.get(),
                    Entry::Vacant(place) => {
                        let count = self.values.len();
                        if count == most || seen == FREE && count == before + FREE {
                            self.forget(before);
                            return false;
                        }
                        number = count as u16;
                        place.insert(number);
                        self.values.push(*value);
                    }
                }
                last = Some(bits);
                highest = highest.max(number);
            }
            self.numbers.push(number);
        }
        // Whole bytes, of which zstd makes more than of fewer bits; as one run, in eights.
        self.numbers.resize(values.len().next_multiple_of(8), 0);
        out.clear();
        out.push(if highest < 256 { 8 } else { 16 });
        varint((self.numbers.len() as u64 / 8) << 1 | 1, out);
        if highest < 256 {
            out.extend(self.numbers.iter().map(|&number| number as u8));
        } else {
            out.extend(self.numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        true
    }

    fn forget(&mut self, from: usize) {
        for value in self.values.drain(from..) {
            self.index.remove(&mixed(value.to_bits()));
        }
    }
}

/// A table goes by some of the bits, and the lowest ones of most doubles are all 0.
fn mixed(bits: u64) -> u64 {
    let bits = bits ^ bits >> 32;
    bits.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many values from a number on, round and round.
    fn round(from: usize, many: usize) -> Vec<f64> {
        (0..4000)
            .map(|at| (from + at % many) as f64 / 8.0)
            .collect()
    }

    #[test]
    fn values_are_told_apart_by_their_bits() {
        let odd = f64::from_bits(f64::NAN.to_bits() | 1);
        let all = [f64::NAN, -f64::NAN, odd, 0.0, -0.0];
        let (mut levels, mut out) = (Levels::default(), Vec::new());
        assert!(levels.page(&[all, all].concat(), &mut out));
        // Two eights of a byte each.
        let padded = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0];
        assert_eq!(out, [&[8, 2 << 1 | 1], &padded[..]].concat());
        levels.plain(&mut out);
        assert_eq!(out, all.map(f64::to_le_bytes).concat());
    }

    #[test]
    fn a_page_is_taken_whole_or_not_at_all() {
        let (mut levels, mut out) = (Levels::default(), Vec::new());
        let mut take = |values: &[f64]| {
            let taken = levels.page(values, &mut out);
            (taken, levels.len(), out[0])
        };
        assert_eq!(take(&[1.0]), (true, 1, 8));
        assert_eq!(take(&round(0, 48)), (true, 48, 8));
        assert!(!take(&round(1000, 49)).0, "noise, as far as it can be told");
        let mut many = round(1000, 200);
        many[40] = many[0];
        assert_eq!(take(&many), (true, 248, 8));
        many.iter_mut().for_each(|value| *value += 500.0);
        assert_eq!(take(&many), (true, 448, 16));
        assert_eq!(take(&round(1000, 100)), (true, 448, 8));
        let mut too_many = round(9000, 48 + 4000 / 16 + 1);
        too_many[40] = too_many[0];
        assert!(!take(&too_many).0);
        // Nothing of it is left.
        assert_eq!(take(&round(90_001, 48)), (true, 496, 16));
        for page in 10..28 {
            many.iter_mut().for_each(|value| *value += 500.0);
            assert_eq!(take(&many), (true, 496 + (page - 9) * 200, 16));
        }
        many.iter_mut().for_each(|value| *value += 500.0);
        assert!(!take(&many).0, "the dictionary is full");
        assert_eq!(take(&round(0, 48)), (true, 4096, 8));
    }
}

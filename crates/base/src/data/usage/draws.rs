//! What the columns of `usage` are drawn from.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::{ADDRESSES, CUSTOMERS, LETTERS};
use crate::data::records::Random;

/// Draws from Lomax of shape 3, scaled to `below` / 3 and cut at `below`, rounded down.
#[inline]
pub fn pareto(random: &mut Random, below: u64, out: &mut [u64]) {
    for number in out.iter_mut() {
        *number = random.draw() as u64;
    }
    let scale = below as f64 / 3.0;
    for number in out {
        // Even in (1/64, 1]; what is drawn is then below the bound, but for rounding.
        let even = 1.0 - (*number >> 11) as f64 * (63.0 / 64.0 / (1u64 << 53) as f64);
        // The root of 1 comes out a last digit below 1.
        let drawn = scale * (inverse_cube_root(even) - 1.0).max(0.0);
        *number = (drawn as i64 as u64).min(below - 1);
    }
}

/// x^(-1/3) for x in [1/64, 1], to the last digits of a double: a third of the exponent as the
/// first guess (Moroz and others, 2021), then Newton's steps. The library's `cbrt` takes one
/// value at a time; this is unrolled over several.
#[inline]
pub fn inverse_cube_root(x: f64) -> f64 {
    let mut y = f64::from_bits(0x553e_f0ff_289d_d796 - x.to_bits() / 3);
    for _ in 0..4 {
        y *= (4.0 - x * (y * y * y)) * (1.0 / 3.0);
    }
    y
}

/// `number` of 32 random bits, brought to 0..below.
#[inline]
pub fn share(number: u64, below: u64) -> u64 {
    (number * below) >> 32
}

/// The fixed permutation of the customers: the code of the n-th in frequency.
#[inline]
pub fn customer(rank: u64) -> u32 {
    CODES[rank as usize]
}

static CODES: LazyLock<Vec<u32>> = LazyLock::new(|| permutation(CUSTOMERS, 1));

/// 0..count, shuffled (Fisher and Yates); the same in every run.
pub fn permutation(count: u64, seed: u64) -> Vec<u32> {
    let mut random = Random::seeded(seed);
    let mut all: Vec<u32> = (0..count as u32).collect();
    for last in (1..all.len()).rev() {
        let other = share(random.draw() as u64 >> 32, last as u64 + 1);
        all.swap(last, other as usize);
    }
    all
}

/// Room for any IPv4 address, of a size that is copied in one go.
pub const LONGEST_ADDRESS: usize = 16;

/// Addresses in the order of their texts, and the place of the n-th in frequency among them.
struct Addresses {
    texts: Vec<([u8; LONGEST_ADDRESS], usize)>,
    places: Vec<u32>,
}

static KNOWN_ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| {
    let mut random = Random::seeded(2);
    let mut texts = BTreeSet::new();
    while texts.len() < ADDRESSES as usize {
        let [a, b, c, d, ..] = random.draw().to_le_bytes();
        // Hosts of the unicast nets.
        let (a, d) = (1 + a % 223, 1 + d % 254);
        texts.insert(format!("{a}.{b}.{c}.{d}"));
    }
    let room = |text: String| {
        let mut room = [0; LONGEST_ADDRESS];
        room[..text.len()].copy_from_slice(text.as_bytes());
        (room, text.len())
    };
    Addresses {
        texts: texts.into_iter().map(room).collect(),
        places: permutation(ADDRESSES, 3),
    }
});

/// Where the address that is the n-th in frequency stands among the sorted ones.
#[inline]
pub fn place(rank: u64) -> u64 {
    KNOWN_ADDRESSES.places[rank as usize].into()
}

/// An address and its length.
#[inline]
pub fn address(place: usize) -> (&'static [u8; LONGEST_ADDRESS], usize) {
    let (text, length) = &KNOWN_ADDRESSES.texts[place];
    (text, *length)
}

/// A number below 26^12 in base 26, `a` for 0, the highest digit first.
#[inline]
pub fn letters(number: u64, out: &mut [u8; LETTERS]) {
    const HALF: u64 = 26u64.pow(LETTERS as u32 / 2);
    let (high, low) = out.split_at_mut(LETTERS / 2);
    for (mut rest, half) in [
        ((number / HALF) as u32, high),
        ((number % HALF) as u32, low),
    ] {
        let (pairs, _) = half.as_chunks_mut::<2>();
        for pair in pairs.iter_mut().rev() {
            *pair = PAIRS[(rest % 676) as usize];
            rest /= 676;
        }
    }
}

/// aa, ab ... zz.
static PAIRS: [[u8; 2]; 676] = {
    let mut pairs = [[0; 2]; 676];
    let mut at = 0;
    while at < 676 {
        pairs[at] = [b'a' + (at / 26) as u8, b'a' + (at % 26) as u8];
        at += 1;
    }
    pairs
};

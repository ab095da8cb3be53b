use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::ArrowPrimitiveType;
use proptest::prelude::*;

use super::draws::{inverse_cube_root, permutation};
use super::*;
use crate::data::digest;
use crate::data::upsert::{key_hashes, Table};
use venturi_testkit::assert_contains;

const NOW: i64 = 1_790_000_000;

fn batch(rows: usize, seed: u64, index: u64) -> RecordBatch {
    let usage = Usage::new(1, rows, seed, NOW);
    usage.batch(index).unwrap()
}

/// The share of "Pareto over n" below x: Lomax's law with shape 3, cut at n.
fn below(x: f64, n: f64) -> f64 {
    (1.0 - (1.0 + 3.0 * x / n).powi(-3)) / (63.0 / 64.0)
}

/// ... and of the one number x.
fn share(x: u64, n: u64) -> f64 {
    below(x as f64 + 1.0, n as f64) - below(x as f64, n as f64)
}

/// A column of the rows.
fn numbers<'a, T: ArrowPrimitiveType>(rows: &'a RecordBatch, name: &str) -> &'a [T::Native] {
    let column = rows.column_by_name(name).unwrap();
    column.as_primitive::<T>().values()
}

/// Counts that are within four standard deviations of their shares.
fn check(counts: &[(f64, u64)]) {
    let far = chi_square(counts);
    assert!(far.abs() < 4.0, "{far}");
}

/// Pearson's chi-square of counts against shares, in standard deviations from its mean. Cells
/// of few are put together.
fn chi_square(counts: &[(f64, u64)]) -> f64 {
    let total: u64 = counts.iter().map(|count| count.1).sum();
    let (mut sum, mut cells) = (0.0, 0);
    let (mut expected, mut found) = (0.0, 0);
    for &(share, count) in counts {
        expected += share * total as f64;
        found += count;
        if expected >= 20.0 {
            sum += (found as f64 - expected).powi(2) / expected;
            cells += 1;
            (expected, found) = (0.0, 0);
        }
    }
    let freedom = f64::from(cells - 1);
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Counts of a column of `from`, `from + step` ... against the law.
fn check_steps(values: &[u64], (from, step, count): (u64, u64, u64)) {
    let mut counts: Vec<(f64, u64)> = (0..count).map(|at| (share(at, count), 0)).collect();
    for value in values {
        assert_eq!((value - from) % step, 0);
        counts[((value - from) / step) as usize].1 += 1;
    }
    check(&counts);
}

#[test]
fn the_cube_root_is_exact() {
    for at in 0..=1_000_000 {
        let x = 1.0 / 64.0 + f64::from(at) * (63.0 / 64.0 / 1e6);
        let right = x.powf(-1.0 / 3.0);
        assert!((inverse_cube_root(x) / right - 1.0).abs() < 1e-15, "{x}");
    }
    assert!((0.999_999_999_999_999..1.0).contains(&inverse_cube_root(1.0)));
}

#[test]
fn draws_follow_lomax_cut_at_the_bound() {
    const DRAWS: usize = 400_000;
    for bound in [SUBCUSTOMERS, CUSTOMERS] {
        let mut drawn = vec![0; DRAWS];
        pareto(&mut Random::seeded(7), bound, &mut drawn);
        drawn.sort_unstable();
        assert!(drawn[DRAWS - 1] < bound);
        // Kolmogorov and Smirnov; numbers are rounded down, so a step beside is allowed.
        let n = bound as f64;
        let mut far = 0.0f64;
        for (at, &number) in drawn.iter().enumerate() {
            let (least, most) = (below(number as f64, n), below(number as f64 + 1.0, n));
            let rank = at as f64 / DRAWS as f64;
            far = far.max(least - rank).max(rank - most);
        }
        assert!(far < 1.63 / (DRAWS as f64).sqrt(), "{bound}: {far}");
        // The law's own quantiles: n / 3 (U^(-1/3) - 1).
        for share in [0.1f64, 0.5, 0.9, 0.99] {
            let right = n / 3.0 * ((1.0 - share * 63.0 / 64.0).powf(-1.0 / 3.0) - 1.0);
            let found = drawn[(share * DRAWS as f64) as usize] as f64;
            assert!((found / right - 1.0).abs() < 0.02, "{found}, {right}");
        }
    }
}

#[test]
fn bytes_and_hits_follow_the_law_on_their_steps() {
    let rows = batch(300_000, 5, 0);
    check_steps(numbers::<UInt64Type>(&rows, "bytes"), BYTES);
    check_steps(numbers::<UInt64Type>(&rows, "hits"), HITS);
    let most = |(from, step, count): (u64, u64, u64)| from + step * (count - 1);
    assert!((4_998_976..5_000_000).contains(&most(BYTES)));
    assert!((996..1000).contains(&most(HITS)));
}

#[test]
fn regions_and_flags_are_even_and_apart() {
    let rows = batch(200_000, 5, 0);
    let mut counts = vec![(0.02, 0); 50];
    let regions = numbers::<UInt32Type>(&rows, "geographic_region");
    let flags = numbers::<UInt32Type>(&rows, "billing_flag");
    for (region, flag) in regions.iter().zip(flags) {
        counts[((region - 1) * 5 + flag - 1) as usize].1 += 1;
    }
    check(&counts);
}

#[test]
fn few_customers_and_addresses_are_in_most_rows() {
    let rows = batch(300_000, 5, 0);
    let mut customers: HashMap<u32, u64> = HashMap::new();
    for &code in rows.column(0).as_primitive::<UInt32Type>().values() {
        *customers.entry(code).or_default() += 1;
    }
    let counts: Vec<(f64, u64)> = (0..CUSTOMERS)
        .map(|rank| {
            let found = customers.get(&customer(rank)).copied().unwrap_or(0);
            (share(rank, CUSTOMERS), found)
        })
        .collect();
    check(&counts);
    // As the module says: a percent of them is in 8.6 % of the rows.
    let first: u64 = counts[..1000].iter().map(|count| count.1).sum();
    assert!((25_200..26_400).contains(&first), "{first}");
    let mut addresses: HashMap<&str, u64> = HashMap::new();
    for address in rows.column(5).as_string::<i32>().iter().flatten() {
        address.parse::<std::net::Ipv4Addr>().unwrap();
        *addresses.entry(address).or_default() += 1;
    }
    let most = *addresses.values().max().unwrap() as f64 / 300_000.0;
    let right = below(1.0, ADDRESSES as f64);
    assert!((most / right - 1.0).abs() < 0.35, "{most}, {right}");
    assert!((9_000..=10_000).contains(&addresses.len()));
}

#[test]
fn codes_are_a_permutation_and_addresses_distinct() {
    let mut codes: Vec<u32> = (0..CUSTOMERS).map(customer).collect();
    assert!(!codes.is_sorted());
    assert_eq!(codes, permutation(CUSTOMERS, 1));
    codes.sort_unstable();
    assert!(codes.into_iter().eq(0..CUSTOMERS as u32));
    let mut places: Vec<u64> = (0..ADDRESSES).map(draws::place).collect();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..ADDRESSES));
    let text = |place| {
        let (text, length) = address(place);
        std::str::from_utf8(&text[..length]).unwrap()
    };
    assert!((1..ADDRESSES as usize).all(|place| text(place - 1) < text(place)));
}

#[test]
fn letters_are_base_26() {
    let text = |number| {
        let mut text = [0; LETTERS];
        letters(number, &mut text);
        String::from_utf8(text.to_vec()).unwrap()
    };
    assert_eq!(text(0), "aaaaaaaaaaaa");
    assert_eq!(text(27), "aaaaaaaaaabb");
    assert_eq!(text(26u64.pow(6)), "aaaaabaaaaaa");
    assert_eq!(text(SUBCUSTOMERS - 1), "zzzzzzzzzzzz");
    assert_eq!(SUBCUSTOMERS, 26u64.pow(12));
}

/// The rows' keys in the order of the primary key.
fn key(rows: &RecordBatch, row: usize) -> (u32, &str, u32, u32, &str) {
    let number = |at: usize| rows.column(at).as_primitive::<UInt32Type>().value(row);
    let text = |at: usize| rows.column(at).as_string::<i32>().value(row);
    (number(0), text(2), number(3), number(4), text(5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn batches_are_sorted_and_depend_on_seed_and_number_alone(
        seed: u64, index in 0u64..1 << 40, rows in 1usize..2000, set in 1u64..1 << 50
    ) {
        let made = batch(rows, seed, index);
        prop_assert_eq!(made.num_rows(), rows);
        prop_assert!((1..rows).all(|row| key(&made, row - 1) < key(&made, row)));
        let again = Usage::new(set, rows, seed, NOW).batch(index).unwrap();
        prop_assert_eq!(&made, &again);
        prop_assert_ne!(&made, &batch(rows, seed, index + 1));
        prop_assert_ne!(&made, &batch(rows, seed.wrapping_add(1), index));
    }
}

#[test]
fn a_working_set_of_a_million_has_a_million_keys() {
    let usage = Usage::new(1_000_000, 50_000, 1, NOW);
    let table = Table::new("t", Usage::schema(), &Usage::roles()).unwrap();
    assert_eq!(usage.batches(), 20);
    let mut hashes = Vec::new();
    for index in 0..20 {
        hashes.extend(key_hashes(&table, &usage.batch(index).unwrap()).unwrap());
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 1_000_000);
}

#[test]
fn a_batch_too_large_for_its_offsets_is_refused() {
    let error = Usage::new(1, MOST_ROWS + 1, 1, NOW).batch(0).unwrap_err();
    assert_contains(&error.message, "lower rows_per_batch");
}

/// The rows of a seed are the same in every version: runs of different ones can be compared.
#[test]
fn rows_stay_what_they_are() {
    let found = digest(&batch(500, 1, 0)).unwrap();
    assert_eq!(found, 9_474_619_952_648_945_040);
}

//! Dates and times as text, and integers, without an allocation a value.

/// A day of the years 1 to 9999, since 1970-01-01, as `YYYY-MM-DD`; false: another year, in
/// which databases differ.
pub fn date(days: i64, out: &mut Vec<u8>) -> bool {
    const FIRST: i64 = -719_162; // 0001-01-01
    const LAST: i64 = 2_932_896; // 9999-12-31
    if !(FIRST..=LAST).contains(&days) {
        return false;
    }
    let (year, month, day) = civil(days);
    two(year / 100, out);
    two(year % 100, out);
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
    true
}

/// Year, month and day of a number of days since 1970-01-01 (proleptic Gregorian).
pub fn civil(days: i64) -> (i64, i64, i64) {
    // Howard Hinnant's civil_from_days: years begin in March, eras have 400 of them.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// `HH:MM:SS`, then `digits` digits of the second's fraction; `part` of `parts` in a second.
pub fn time(seconds: i64, part: i64, digits: usize, out: &mut Vec<u8>) {
    two(seconds / 3600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    if digits > 0 {
        out.push(b'.');
        let mut unit = 10i64.pow(digits as u32 - 1);
        for _ in 0..digits {
            out.push(b'0' + (part / unit % 10) as u8);
            unit /= 10;
        }
    }
}

fn two(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&PAIRS[number as usize % 100]);
}

/// 00, 01 ... 99.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// A decimal number, two digits a division.
#[inline]
pub fn unsigned(mut number: u64, out: &mut Vec<u8>) {
    let mut text = [0; 20];
    let mut at = text.len();
    while number >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
        at -= 1;
        text[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&text[at..]);
}

#[inline]
pub fn signed(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    unsigned(number.unsigned_abs(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn day(days: i64) -> String {
        text(|out| assert!(date(days, out)))
    }

    #[test]
    fn days_as_calendars_have_them() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(-1), "1969-12-31");
        assert_eq!(day(11_016), "2000-02-29");
        assert_eq!(day(20_717), "2026-09-21");
        assert_eq!(day(-719_162), "0001-01-01");
        assert_eq!(day(2_932_896), "9999-12-31");
        let mut out = Vec::new();
        for other in [-719_163, 2_932_897, i64::MIN, i64::MAX] {
            assert!(!date(other, &mut out));
        }
        assert!(out.is_empty());
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let date = |days| -> [u32; 3] {
            let text = day(days);
            let mut parts = text.split('-').map(|part| part.parse().unwrap());
            std::array::from_fn(|_| parts.next().unwrap())
        };
        // The calendar repeats every 400 years: the first 400, the 400 from 1970, the last 400.
        let ranges = [-719_161..=-573_065, 0..=146_097, 2_786_800..=2_932_896];
        for days in ranges.into_iter().flatten() {
            let (last, now) = (date(days - 1), date(days));
            let [year, month, _] = last;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match last {
                [year, 12, 31] => [year + 1, 1, 1],
                [year, month, day] if day == length => [year, month + 1, 1],
                [year, month, day] => [year, month, day + 1],
            };
            assert_eq!(now, next, "{days}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(text(|out| time(0, 0, 0, out)), "00:00:00");
        assert_eq!(text(|out| time(86_399, 7, 3, out)), "23:59:59.007");
        assert_eq!(
            text(|out| time(3_661, 123_456_789, 9, out)),
            "01:01:01.123456789"
        );
    }

    proptest! {
        #[test]
        fn integers_as_the_library_writes_them(number: i64, shift in 0u32..64) {
            let number = number >> shift;
            prop_assert_eq!(text(|out| signed(number, out)), number.to_string());
            let number = number as u64;
            prop_assert_eq!(text(|out| unsigned(number, out)), number.to_string());
        }
    }

    #[test]
    fn extreme_integers() {
        for number in [i64::MIN, i64::MAX, 0, -1, 9, 10, 99, 100] {
            assert_eq!(text(|out| signed(number, out)), number.to_string());
        }
        assert_eq!(text(|out| unsigned(u64::MAX, out)), u64::MAX.to_string());
    }
}

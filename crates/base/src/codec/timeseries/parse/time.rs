//! Stamps as text -> nanoseconds since the epoch (UTC).

const SECOND: i64 = 1_000_000_000;

fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A count of nanoseconds: digits only, below 2^63.
pub fn nanoseconds(text: &[u8]) -> Option<i64> {
    digits(text)
}

/// `YYYYMMDDTHHMMSS`, a fraction of one to nine digits behind a point; no zone.
pub fn basic_iso(text: &[u8]) -> Option<i64> {
    let (head, fraction) = match text.get(15) {
        None => (text, None),
        Some(b'.') => (&text[..15], Some(&text[16..])),
        Some(_) => return None,
    };
    if head.len() != 15 || head[8] != b'T' {
        return None;
    }
    let part = |from: usize, to: usize| digits(&head[from..to]);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(9, 11)?, part(11, 13)?, part(13, 15)?);
    let valid = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let nanos = match fraction {
        None => 0,
        Some(text) if text.len() <= 9 => digits(text)? * 10i64.pow(9 - text.len() as u32),
        Some(_) => return None,
    };
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

/// OpenTSDB's: whole seconds where the number is below 2^32, nanoseconds above.
pub fn seconds_or_nanoseconds(text: &[u8]) -> Option<i64> {
    digits(text).map(of_seconds_or_nanoseconds)
}

pub fn of_seconds_or_nanoseconds(number: i64) -> i64 {
    if number < 1 << 32 {
        number * SECOND
    } else {
        number
    }
}

/// A signed count of `unit` nanoseconds.
pub fn counted(text: &[u8], unit: i64) -> Option<i64> {
    match text.strip_prefix(b"-") {
        None => digits(text)?.checked_mul(unit),
        Some(text) => digits(text)?.checked_neg()?.checked_mul(unit),
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar, which repeats every 400 years.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar() {
        let cases: [(&str, Option<i64>); 16] = [
            ("19700101T000000", Some(0)),
            ("20170101T000001", Some(1_483_228_801 * SECOND)),
            (
                "20170101T000000.5",
                Some(1_483_228_800 * SECOND + 500_000_000),
            ),
            (
                "20170101T000000.000000001",
                Some(1_483_228_800 * SECOND + 1),
            ),
            ("20000229T235959", Some(951_868_799 * SECOND)),
            ("19691231T235959.9", Some(-100_000_000)),
            ("22620411T234716.854775807", Some(i64::MAX)),
            ("22620411T234716.854775808", None),
            ("99991231T235959", None),
            ("20170229T000000", None),
            ("20171301T000000", None),
            ("20170101T240000", None),
            ("20170101T000000.", None),
            ("20170101T000000.1234567890", None),
            ("20170101 000000", None),
            ("20170101T00000", None),
        ];
        for (text, expected) in cases {
            assert_eq!(basic_iso(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(nanoseconds(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(nanoseconds(b"9223372036854775808"), None);
        assert_eq!(nanoseconds(b""), None);
        assert_eq!(nanoseconds(b"1x"), None);
        assert_eq!(
            seconds_or_nanoseconds(b"4294967295"),
            Some(4_294_967_295 * SECOND)
        );
        assert_eq!(seconds_or_nanoseconds(b"4294967296"), Some(4_294_967_296));
        assert_eq!(counted(b"-5", 1000), Some(-5000));
        assert_eq!(counted(b"9223372036854775807", 2), None);
    }
}

//! Rows of an answer, as text or in binary -> columns, straight from where the message lies.
//!
//! Sources: "Text Resultset" and "Binary Protocol Resultset" in the servers' documentation.

use super::definition::Form;
use super::{short, Reader};
use crate::data::column::Column;
use crate::error::{Error, Result};

const DAY_MICROS: i64 = 86_400_000_000;

/// A row of text: each value behind its length.
pub fn text_row(message: &[u8], forms: &[Form], columns: &mut [Column]) -> Result<()> {
    let mut reader = Reader(message);
    for (column, form) in columns.iter_mut().zip(forms) {
        match reader.string().ok_or_else(|| short("a row"))? {
            None => column.push_null(),
            Some(value) => push_text(*form, column, value)?,
        }
    }
    over(&reader)
}

/// A row in binary: a zero, a bit a null, and the values that are there.
pub fn binary_row(message: &[u8], forms: &[Form], columns: &mut [Column]) -> Result<()> {
    /// Bits that are not a column's.
    const FIRST: usize = 2;
    let mut reader = Reader(message);
    let nulls = forms.len().saturating_add(7 + FIRST) / 8;
    let bits = match reader.byte() {
        Some(0) => reader.bytes(nulls).ok_or_else(|| short("a row"))?,
        _ => return Err(Error::protocol("an answer that is no row")),
    };
    for (at, (column, form)) in columns.iter_mut().zip(forms).enumerate() {
        let bit = at + FIRST;
        match bits[bit / 8] >> (bit % 8) & 1 {
            1 => column.push_null(),
            _ => push_binary(*form, column, &mut reader)?,
        }
    }
    over(&reader)
}

fn over(reader: &Reader<'_>) -> Result<()> {
    match reader.0.is_empty() {
        true => Ok(()),
        false => Err(Error::protocol("bytes behind the last value of a row")),
    }
}

fn wrong(column: &Column, what: impl std::fmt::Display) -> Error {
    Error::protocol(format!("column {}: {what}", column.name()))
}

fn invalid_value(column: &Column, value: &[u8]) -> Error {
    let text = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
    wrong(column, format_args!("{text:?} is no value of its type"))
}

/// A day of the calendar; one that there is not, as 0000-00-00, is refused.
fn days(column: &Column, year: i64, month: i64, day: i64) -> Result<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => 0,
    };
    if !(1..=most).contains(&day) || !(0..=9999).contains(&year) {
        let name = column.name();
        return Err(wrong(
            column,
            format_args!(
                "{year:04}-{month:02}-{day:02} is no day, so Arrow has no value for it: write \
                 NULLIF({name}, '0000-00-00') in a query"
            ),
        ));
    }
    // Years that begin in March, so that a leap day is the last; days since 1970-01-01.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    Ok(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn push_text(form: Form, column: &mut Column, value: &[u8]) -> Result<()> {
    macro_rules! number {
        ($kind:ty) => {{
            let text = std::str::from_utf8(value).ok();
            match text.and_then(|text| text.parse::<$kind>().ok()) {
                Some(number) => column.push(number),
                None => Err(invalid_value(column, value)),
            }
        }};
    }
    match form {
        Form::Int8 => number!(i8),
        Form::Int16 => number!(i16),
        Form::Int32 => number!(i32),
        Form::Int64 => number!(i64),
        Form::UInt8 => number!(u8),
        Form::UInt16 => number!(u16),
        Form::UInt32 => number!(u32),
        Form::UInt64 => number!(u64),
        Form::Float32 => number!(f32),
        Form::Float64 => number!(f64),
        Form::Bytes => column.push_bytes(value),
        Form::Decimal(digits, places) => decimal(column, value, digits, places),
        Form::Date => {
            let [year, month, day] =
                numbers(value, b"--").ok_or_else(|| invalid_value(column, value))?;
            let days = days(column, year, month, day)?;
            column.push(days as i32)
        }
        Form::DateTime => {
            let (day, time) = value.split_at(value.len().min(10));
            let parts = numbers(day, b"--").zip(match time.split_first() {
                Some((b' ' | b'T', time)) => clock(time),
                _ => None,
            });
            let ([year, month, day], micros) = parts.ok_or_else(|| invalid_value(column, value))?;
            let days = days(column, year, month, day)?;
            let micros = micros.checked_add(days * DAY_MICROS);
            column.push(micros.ok_or_else(|| invalid_value(column, value))?)
        }
        Form::Time => {
            let (sign, time) = match value.split_first() {
                Some((b'-', time)) => (-1, time),
                _ => (1, value),
            };
            let micros = clock(time).ok_or_else(|| invalid_value(column, value))?;
            column.push(sign * micros)
        }
    }
}

/// Numbers of digits alone between these separators.
fn numbers<const N: usize>(value: &[u8], between: &[u8]) -> Option<[i64; N]> {
    let mut found = [0i64; N];
    let mut at = 0;
    let mut any = false;
    for byte in value {
        if byte.is_ascii_digit() {
            found[at] = found[at]
                .checked_mul(10)?
                .checked_add(i64::from(byte - b'0'))?;
            any = true;
        } else if between.get(at) == Some(byte) && any {
            (at, any) = (at + 1, false);
        } else {
            return None;
        }
    }
    (at + 1 == N && any).then_some(found)
}

/// hh:mm:ss.ffffff, with any hours, in microseconds.
fn clock(value: &[u8]) -> Option<i64> {
    let (whole, part) = match value.iter().position(|byte| *byte == b'.') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &b""[..]),
    };
    let [hours, minutes, seconds] = numbers(whole, b"::")?;
    let mut micros = 0;
    if !part.is_empty() {
        let [digits] = numbers(part, b"")?;
        micros = digits * 10i64.checked_pow(6u32.checked_sub(part.len() as u32)?)?;
    }
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let seconds = minutes.checked_mul(60)?.checked_add(seconds)?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

fn decimal(column: &mut Column, value: &[u8], digits: u8, places: i8) -> Result<()> {
    let (sign, text) = match value.split_first() {
        Some((b'-', text)) => (-1, text),
        _ => (1, value),
    };
    let (mut number, mut behind) = (0i128, None::<u32>);
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                let next = number.checked_mul(10);
                let next = next.and_then(|n| n.checked_add(i128::from(byte - b'0')));
                number = next.ok_or_else(|| invalid_value(column, value))?;
                behind = behind.map(|places| places + 1);
            }
            b'.' if behind.is_none() => behind = Some(0),
            _ => return Err(invalid_value(column, value)),
        }
    }
    let places = u32::try_from(places).ok();
    let missing = places.and_then(|places| places.checked_sub(behind.unwrap_or(0)));
    let factor = missing.and_then(|missing| 10i128.checked_pow(missing));
    let number = factor.and_then(|factor| number.checked_mul(factor));
    let most = 10i128.checked_pow(digits.into()).unwrap_or(i128::MAX);
    match number.filter(|n| !text.is_empty() && *n < most) {
        Some(number) => column.push(sign * number),
        None => Err(invalid_value(column, value)),
    }
}

fn push_binary(form: Form, column: &mut Column, reader: &mut Reader<'_>) -> Result<()> {
    macro_rules! number {
        ($kind:ty) => {{
            let bytes = reader.bytes(size_of::<$kind>());
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            column.push(<$kind>::from_le_bytes(bytes.ok_or_else(|| short("a row"))?))
        }};
    }
    match form {
        Form::Int8 => number!(i8),
        Form::Int16 => number!(i16),
        Form::Int32 => number!(i32),
        Form::Int64 => number!(i64),
        Form::UInt8 => number!(u8),
        Form::UInt16 => number!(u16),
        Form::UInt32 => number!(u32),
        Form::UInt64 => number!(u64),
        Form::Float32 => number!(f32),
        Form::Float64 => number!(f64),
        Form::Bytes | Form::Decimal(..) => {
            let value = reader.string().flatten().ok_or_else(|| short("a row"))?;
            push_text(form, column, value)
        }
        Form::Date | Form::DateTime | Form::Time => {
            let value = reader.string().flatten().ok_or_else(|| short("a row"))?;
            moment(form, column, &mut Reader(value)).ok_or_else(|| short("a time"))?
        }
    }
}

/// A day or a time, of which the parts that are zero at the end are left out. `None`: it is cut short.
fn moment(form: Form, column: &mut Column, value: &mut Reader<'_>) -> Option<Result<()>> {
    let whole = value.0.len();
    let clock = |value: &mut Reader<'_>, whole: usize, before: usize| {
        let mut micros = 0;
        if whole > before {
            let (hour, minute, second) = (value.byte()?, value.byte()?, value.byte()?);
            let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
            micros = seconds * 1_000_000;
        }
        if whole > before + 3 {
            micros += i64::from(value.u32()?);
        }
        value.0.is_empty().then_some(micros)
    };
    if form == Form::Time {
        if whole == 0 {
            return Some(column.push(0i64));
        }
        let negative = value.byte()? != 0;
        let days = i64::from(value.u32()?);
        let clock = clock(value, whole, 5)?;
        let micros = days
            .checked_mul(DAY_MICROS)
            .and_then(|days| days.checked_add(clock));
        return Some(match micros {
            Some(micros) => column.push(if negative { -micros } else { micros }),
            None => Err(wrong(column, format_args!("a time of {days} days"))),
        });
    }
    let (mut year, mut month, mut day) = (0, 0, 0);
    if whole > 0 {
        year = i64::from(value.u16()?);
        (month, day) = (i64::from(value.byte()?), i64::from(value.byte()?));
    }
    let micros = clock(value, whole, 4)?;
    let days = match days(column, year, month, day) {
        Ok(days) => days,
        Err(error) => return Some(Err(error)),
    };
    Some(match form {
        Form::Date => column.push(days as i32),
        _ => column.push(days * DAY_MICROS + micros),
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Date32Type, Decimal128Type, Int64Type, TimestampMicrosecondType};
    use arrow_array::Array;
    use arrow_schema::{DataType, TimeUnit};
    use proptest::prelude::*;

    use super::super::definition::Definition;
    use super::*;

    const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    fn column(kind: &DataType) -> Column {
        Column::new("c", kind).unwrap()
    }

    #[test]
    fn text() {
        let mut dates = column(&DataType::Date32);
        for (text, days) in [
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("1969-12-31", -1),
            ("0001-01-01", -719_162),
        ] {
            push_text(Form::Date, &mut dates, text.as_bytes()).unwrap();
            let made = dates.finish().unwrap();
            assert_eq!(made.as_primitive::<Date32Type>().value(0), days, "{text}");
        }
        for wrong in ["0000-00-00", "2021-02-29", "2020-00-10"] {
            let said = push_text(Form::Date, &mut dates, wrong.as_bytes()).unwrap_err();
            assert!(
                said.message.contains("NULLIF(c, '0000-00-00')"),
                "{}",
                said.message
            );
        }
        const MOST: i64 = i64::MAX;
        for wrong in [
            "2020-01".to_owned(),
            format!("{MOST}-01-01"),
            format!("10000-{MOST}-{MOST}"),
        ] {
            assert!(push_text(Form::Date, &mut dates, wrong.as_bytes()).is_err());
        }
        let mut times = column(&TIMESTAMP);
        push_text(Form::DateTime, &mut times, b"1970-01-02 00:00:01.5").unwrap();
        push_text(Form::DateTime, &mut times, b"1970-01-01 00:00:00").unwrap();
        for hostile in [
            format!("2020-01-01 0:{MOST}:0"),
            format!("2020-01-01 0:{}:{MOST}", MOST / 60),
            format!("2020-01-01 {}:0:0", MOST / 3_600_000_000),
        ] {
            let pushed = push_text(Form::DateTime, &mut times, hostile.as_bytes());
            assert!(pushed.is_err(), "{hostile}");
        }
        let made = times.finish().unwrap();
        let made = made.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(made.values(), &[DAY_MICROS + 1_500_000, 0]);
        let mut prices = column(&DataType::Decimal128(6, 2));
        for (text, units) in [
            ("-12.5", -1250),
            ("7", 700),
            ("1234.56", 123_456),
            ("0.00", 0),
        ] {
            push_text(Form::Decimal(6, 2), &mut prices, text.as_bytes()).unwrap();
            let made = prices.finish().unwrap();
            assert_eq!(made.as_primitive::<Decimal128Type>().value(0), units);
        }
        for wrong in ["", "-", "1.234", "12345.67", "1e5", "1.2.3"] {
            assert!(
                push_text(Form::Decimal(6, 2), &mut prices, wrong.as_bytes()).is_err(),
                "{wrong}"
            );
        }
        let mut whole = column(&DataType::UInt64);
        push_text(Form::UInt64, &mut whole, b"18446744073709551615").unwrap();
        assert!(push_text(Form::UInt64, &mut whole, b"-1").is_err());
    }

    #[test]
    fn binary() {
        let forms = [Form::Int64, Form::Bytes, Form::DateTime, Form::Time];
        let mut columns = [
            column(&DataType::Int64),
            column(&DataType::Utf8),
            column(&TIMESTAMP),
            column(&DataType::Duration(TimeUnit::Microsecond)),
        ];
        // The text is null: the second column, behind two bits.
        let mut row = vec![0, 0b1000];
        row.extend_from_slice(&(-5i64).to_le_bytes());
        row.extend_from_slice(&[7, 0xb2, 7, 1, 2, 3, 4, 5]);
        row.extend_from_slice(&[8, 1, 1, 0, 0, 0, 1, 0, 0]);
        binary_row(&row, &forms, &mut columns).unwrap();
        let made = columns.each_mut().map(|column| column.finish().unwrap());
        assert_eq!(made[0].as_primitive::<Int64Type>().value(0), -5);
        assert!(made[1].is_null(0));
        let at = DAY_MICROS + (3 * 3600 + 4 * 60 + 5) * 1_000_000;
        assert_eq!(
            made[2].as_primitive::<TimestampMicrosecondType>().value(0),
            at
        );
        assert_eq!(
            made[3].to_data().buffers()[0].typed_data::<i64>(),
            &[-25 * 3_600_000_000]
        );
        let days = [&[8, 1][..], &u32::MAX.to_le_bytes(), &[1, 0, 0]].concat();
        let mut times = column(&DataType::Duration(TimeUnit::Microsecond));
        assert!(push_binary(Form::Time, &mut times, &mut Reader(&days)).is_err());
        for short in 0..row.len() {
            let mut columns = [
                column(&DataType::Int64),
                column(&DataType::Utf8),
                column(&TIMESTAMP),
                column(&DataType::Duration(TimeUnit::Microsecond)),
            ];
            assert!(
                binary_row(&row[..short], &forms, &mut columns).is_err(),
                "{short}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_row_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let forms = [Form::Int32, Form::Decimal(6, 2), Form::DateTime, Form::Time, Form::Bytes];
            let columns = || [
                column(&DataType::Int32),
                column(&DataType::Decimal128(6, 2)),
                column(&TIMESTAMP),
                column(&DataType::Duration(TimeUnit::Microsecond)),
                column(&DataType::Utf8),
            ];
            let _ = text_row(&bytes, &forms, &mut columns());
            let _ = binary_row(&[&[0, 0][..], &bytes].concat(), &forms, &mut columns());
            let _ = Definition::parse(&bytes);
        }
    }
}

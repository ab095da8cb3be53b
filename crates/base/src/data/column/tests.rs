//! Values one after another, and what of them is refused.

use arrow_array::types::{Decimal128Type, Int32Type};
use arrow_array::Array;
use arrow_schema::{Field, Schema};

use super::*;
use venturi_testkit::arrow::{items, texts, values};
use venturi_testkit::assert_contains;

fn columns(limit: usize) -> Columns {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let fields = vec![
        Field::new("n", DataType::Decimal128(5, 2), true),
        Field::new("t", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
        Field::new("u", DataType::FixedSizeBinary(2), true),
        Field::new("l", DataType::List(item), true),
    ];
    Columns::new(&Arc::new(Schema::new(fields)), limit).unwrap()
}

#[test]
fn values_and_nulls_one_batch_after_another() {
    let mut columns = columns(1000);
    for batch in 0..2 {
        for row in 0..2000 {
            let [n, t, b, u, l] = columns.each() else {
                unreachable!()
            };
            if row % 3 == batch {
                [n, t, b, u, l].into_iter().for_each(Column::push_null);
            } else {
                n.push(i128::from(row)).unwrap();
                t.push_bytes(b"ab").unwrap();
                b.push_bool(row % 2 == 0).unwrap();
                u.push_bytes(&[1, 2]).unwrap();
                l.push_list(|items| {
                    items.push(row)?;
                    items.push_null();
                    Ok(())
                })
                .unwrap();
            }
            columns.row(0).unwrap();
        }
        let made = columns.finish().unwrap().unwrap();
        assert_eq!(made.num_rows(), 2000);
        let there = 2000 - made.column(0).null_count();
        let mut all = made.columns().iter();
        assert!(all.all(|it| it.len() - it.null_count() == there));
        let at = if batch == 0 { 2 } else { 3 };
        let numbers = values::<Decimal128Type>(&made, 0);
        let seen = (numbers[at], numbers[batch as usize]);
        assert_eq!(seen, (Some(at as i128), None));
        let list = made.column(4).as_list::<i32>().value(at);
        assert_eq!(items::<Int32Type>(&list), [Some(at as i32), None]);
        assert_eq!(texts(&made, 1)[at], Some("ab"));
    }
}

#[test]
fn numbers_that_lie_as_arrow_has_them() {
    let mut column = Column::new("n", &DataType::Int32).unwrap();
    let bytes: Vec<u8> = (0..5i32).flat_map(i32::to_ne_bytes).collect();
    column.push_null();
    column.extend(&bytes, None).unwrap();
    let there = NullBuffer::from(vec![true, false, true, true, false]);
    column.extend(&bytes, Some(&there)).unwrap();
    assert!(column.extend(&bytes[1..], None).is_err());
    assert!(column.extend(&bytes[4..], Some(&there)).is_err());
    let found = items::<Int32Type>(&column.finish().unwrap());
    let known = [None, Some(0), Some(1), Some(2), Some(3), Some(4)];
    assert_eq!(found[..6], known);
    assert_eq!(found[6..], [Some(0), None, Some(2), Some(3), None]);
    let mut text = Column::new("t", &DataType::Utf8).unwrap();
    assert!(text.extend(&bytes, None).is_err());
}

#[test]
fn structs_and_maps() {
    let pair = |nullable| {
        let key = Field::new("key", DataType::Utf8, nullable);
        let value = Field::new("value", DataType::Int32, true);
        DataType::Struct(Fields::from(vec![key, value]))
    };
    let mut structs = Column::new("s", &pair(true)).unwrap();
    let entries = Arc::new(Field::new("entries", pair(false), false));
    let mut maps = Column::new("m", &DataType::Map(entries, false)).unwrap();
    let add = |columns: &mut [Column], text: &[u8]| {
        columns[0].push_bytes(text)?;
        columns[1].push(7i32)
    };
    structs.push_struct(|columns| add(columns, b"a")).unwrap();
    structs.push_null();
    maps.push_list(|pairs| {
        pairs.push_struct(|columns| add(columns, b"a"))?;
        pairs.push_struct(|columns| add(columns, b"b"))
    })
    .unwrap();
    maps.push_null();
    let (structs, maps) = (structs.finish().unwrap(), maps.finish().unwrap());
    assert_eq!(structs.null_count(), 1);
    let numbers = items::<Int32Type>(structs.as_struct().column(1));
    assert_eq!(numbers, [Some(7), None]);
    let map = maps.as_map();
    assert_eq!((map.value(0).len(), map.is_null(1)), (2, true));
    assert_eq!(map.keys().as_string::<i32>().value(1), "b");
    // Each of its columns has a value, and a map's key is none that is null.
    let mut half = Column::new("s", &pair(true)).unwrap();
    let pushed = half.push_struct(|columns| columns[0].push_bytes(b"a"));
    assert!(pushed.is_err());
    let mut keyless = Column::new("s", &pair(false)).unwrap();
    let pushed = keyless.push_struct(|columns| {
        columns[0].push_null();
        columns[1].push(7i32)
    });
    assert!(pushed.is_ok() && keyless.finish().is_err());
}

#[test]
fn bounds_and_types_are_kept() {
    let mut columns = columns(10);
    assert_eq!(columns.row(11).unwrap_err().kind, Kind::Memory);
    let [n, t, b, u, l] = columns.each() else {
        unreachable!()
    };
    assert!(n.push(1i64).is_err() && t.push(1i32).is_err() && b.push_bytes(b"x").is_err());
    assert!(u.push_bytes(b"abc").is_err() && l.push_bool(true).is_err());
    t.push_bytes(&[0xff]).unwrap();
    let said = t.finish().unwrap_err().message;
    assert_contains(&said, "column t: text that is not UTF-8");
    assert!(Column::new("m", &DataType::Null).is_err());
}

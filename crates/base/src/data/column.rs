//! Values of a database, one after the other -> columns of Arrow's.
//!
//! A value is copied once, from where the wire's bytes lie to where the column holds it; memory is
//! asked for by columns, not by values.

use std::sync::Arc;

use arrow_array::{make_array, ArrayRef, BooleanArray, ListArray, RecordBatch, RecordBatchOptions};
use arrow_array::{BinaryArray, StringArray};
use arrow_buffer::{
    ArrowNativeType, BooleanBufferBuilder, MutableBuffer, NullBuffer, NullBufferBuilder,
    OffsetBuffer, ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, SchemaRef};

use crate::error::{Error, Kind, Result};

/// Rows for which a column has room at first.
const FIRST: usize = 1024;

#[derive(Debug)]
enum Values {
    Bits(BooleanBufferBuilder),
    /// Of one width each, which is given.
    Plain(MutableBuffer, usize),
    /// Where each ends, and all of them.
    Bytes(Vec<i32>, Vec<u8>),
    List(Vec<i32>, Box<Column>, FieldRef),
}

/// One column in the making. Who adds a value to it knows its type.
#[derive(Debug)]
pub struct Column {
    name: String,
    data_type: DataType,
    values: Values,
    nulls: NullBufferBuilder,
}

impl Column {
    pub fn new(name: &str, data_type: &DataType) -> Result<Self> {
        let values = match data_type {
            DataType::Boolean => Values::Bits(BooleanBufferBuilder::new(FIRST)),
            DataType::Utf8 | DataType::Binary => Values::Bytes(vec![0], Vec::new()),
            DataType::FixedSizeBinary(width) => {
                Values::Plain(MutableBuffer::new(0), *width as usize)
            }
            DataType::List(field) => {
                let child = Self::new(name, field.data_type())?;
                Values::List(vec![0], Box::new(child), field.clone())
            }
            other => match other.primitive_width() {
                Some(width) => Values::Plain(MutableBuffer::new(width * FIRST), width),
                None => {
                    let what = format!("column {name}: no column of {other} is made of values");
                    return Err(Error::new(Kind::Internal, what));
                }
            },
        };
        Ok(Self {
            name: name.to_owned(),
            data_type: data_type.clone(),
            values,
            nulls: NullBufferBuilder::new(FIRST),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn strange(&self) -> Error {
        let what = format!(
            "column {}: a value that {} cannot hold",
            self.name, self.data_type
        );
        Error::new(Kind::Internal, what)
    }

    /// A number, as Arrow holds it.
    #[inline]
    pub fn push<T: ArrowNativeType>(&mut self, value: T) -> Result<()> {
        match &mut self.values {
            Values::Plain(all, width) if *width == size_of::<T>() => all.push(value),
            _ => return Err(self.strange()),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Numbers one behind the other, as Arrow holds them, and which of them are there.
    pub fn extend(&mut self, values: &[u8], there: Option<&NullBuffer>) -> Result<()> {
        let count = match &mut self.values {
            Values::Plain(all, width) if values.len().is_multiple_of((*width).max(1)) => {
                all.extend_from_slice(values);
                values.len() / (*width).max(1)
            }
            _ => return Err(self.strange()),
        };
        match there {
            None => self.nulls.append_n_non_nulls(count),
            Some(there) if there.len() == count => self.nulls.append_buffer(there),
            Some(_) => return Err(self.strange()),
        }
        Ok(())
    }

    #[inline]
    pub fn push_bool(&mut self, value: bool) -> Result<()> {
        match &mut self.values {
            Values::Bits(bits) => bits.append(value),
            _ => return Err(self.strange()),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Text or bytes, whether of any length or of one.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<()> {
        match &mut self.values {
            Values::Bytes(ends, all) => {
                all.extend_from_slice(value);
                let end = i32::try_from(all.len()).map_err(|_| too_long(&self.name))?;
                ends.push(end);
            }
            Values::Plain(all, width) if *width == value.len() => all.extend_from_slice(value),
            _ => return Err(self.strange()),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Text that is written where it will lie.
    pub fn push_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let Values::Bytes(ends, all) = &mut self.values else {
            return Err(self.strange());
        };
        write(all);
        ends.push(i32::try_from(all.len()).map_err(|_| too_long(&self.name))?);
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Bits(bits) => bits.append(false),
            Values::Plain(all, width) => all.extend_zeros(*width),
            Values::Bytes(ends, all) => ends.push(all.len() as i32),
            Values::List(ends, ..) => ends.push(ends.last().copied().unwrap_or_default()),
        }
        self.nulls.append_null();
    }

    /// A list whose values `add` adds.
    pub fn push_list(&mut self, add: impl FnOnce(&mut Column) -> Result<()>) -> Result<()> {
        let Values::List(ends, child, _) = &mut self.values else {
            return Err(self.strange());
        };
        add(child)?;
        let end = i32::try_from(child.nulls.len()).map_err(|_| too_long(&self.name))?;
        ends.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    /// The column; the builder is empty afterwards, with room for as much again.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let wrong =
            |what: &dyn std::fmt::Display| Error::protocol(format!("column {}: {what}", self.name));
        let offsets = |ends: &mut Vec<i32>| {
            let mut next = Vec::with_capacity(ends.len());
            next.push(0);
            OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, next)))
        };
        Ok(match &mut self.values {
            Values::Bits(bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Values::Plain(all, _) => {
                let next = MutableBuffer::new(all.len());
                let data = ArrayData::builder(self.data_type.clone())
                    .len(rows)
                    .add_buffer(std::mem::replace(all, next).into())
                    .nulls(nulls)
                    .build();
                make_array(data.map_err(|error| wrong(&error))?)
            }
            Values::Bytes(ends, all) => {
                let next = Vec::with_capacity(all.len());
                let all = std::mem::replace(all, next).into();
                match self.data_type {
                    DataType::Utf8 => Arc::new(
                        StringArray::try_new(offsets(ends), all, nulls)
                            .map_err(|_| wrong(&"text that is not UTF-8"))?,
                    ),
                    _ => Arc::new(
                        BinaryArray::try_new(offsets(ends), all, nulls)
                            .map_err(|error| wrong(&error))?,
                    ),
                }
            }
            Values::List(ends, child, field) => Arc::new(
                ListArray::try_new(field.clone(), offsets(ends), child.finish()?, nulls)
                    .map_err(|error| wrong(&error))?,
            ),
        })
    }
}

fn too_long(column: &str) -> Error {
    Error::new(
        Kind::Memory,
        format!("column {column}: a batch with more than 2 GiB of it: use fewer rows per batch"),
    )
}

/// The columns of a batch in the making, and how much of it there may be.
#[derive(Debug)]
pub struct Columns {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    limit: usize,
}

impl Columns {
    /// `limit`: so many bytes a batch may have come from.
    pub fn new(schema: &SchemaRef, limit: usize) -> Result<Self> {
        let fields = schema.fields().iter();
        let columns = fields.map(|field| Column::new(field.name(), field.data_type()));
        Ok(Self {
            schema: schema.clone(),
            columns: columns.collect::<Result<_>>()?,
            rows: 0,
            bytes: 0,
            limit,
        })
    }

    /// All of them, for a row: whoever adds a value to each says so by `row`.
    pub fn each(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// A row is whole, which had so many bytes.
    #[inline]
    pub fn row(&mut self, bytes: usize) -> Result<()> {
        self.more(1, bytes)
    }

    /// The same of several rows.
    #[inline]
    pub fn more(&mut self, rows: usize, bytes: usize) -> Result<()> {
        self.rows += rows;
        self.bytes += bytes;
        match self.bytes > self.limit {
            true => Err(Error::new(
                Kind::Memory,
                format!(
                    "a batch of more than {} bytes: use fewer rows per batch, or raise \
                     max_block_size",
                    self.limit
                ),
            )),
            false => Ok(()),
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn finish(&mut self) -> Result<RecordBatch> {
        let columns = self.columns.iter_mut().map(Column::finish);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        let schema = self.schema.clone();
        Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Decimal128Type, Int32Type};
    use arrow_array::Array;
    use arrow_schema::{Field, Schema};

    use super::*;

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
            let made = columns.finish().unwrap();
            assert_eq!(made.num_rows(), 2000);
            let there = 2000 - made.column(0).null_count();
            assert!(made
                .columns()
                .iter()
                .all(|c| c.len() - c.null_count() == there));
            let at = if batch == 0 { 2 } else { 3 };
            let n = made.column(0).as_primitive::<Decimal128Type>();
            assert_eq!((n.value(at), n.is_null(batch as usize)), (at as i128, true));
            let list = made.column(4).as_list::<i32>().value(at);
            assert_eq!(list.as_primitive::<Int32Type>().value(0), at as i32);
            assert!(list.is_null(1) && list.len() == 2);
            assert_eq!(made.column(1).as_string::<i32>().value(at), "ab");
        }
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
        assert!(t
            .finish()
            .unwrap_err()
            .message
            .contains("column t: text that is not UTF-8"));
        assert!(Column::new("m", &DataType::Null).is_err());
    }
}

//! Values of a database, one after the other -> columns of Arrow's.
//!
//! A value is copied once, from where the wire's bytes lie to where the column holds it; memory is
//! asked for by columns, not by values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{make_array, ArrayRef, BooleanArray, ListArray, RecordBatch, RecordBatchOptions};
use arrow_array::{BinaryArray, MapArray, StringArray, StructArray};
use arrow_buffer::{
    ArrowNativeType, BooleanBufferBuilder, MutableBuffer, NullBuffer, NullBufferBuilder,
    OffsetBuffer, ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, Fields, SchemaRef};

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
    /// A map is a list of pairs.
    List(Vec<i32>, Box<Column>, FieldRef),
    Struct(Vec<Column>, Fields),
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
            DataType::List(field) | DataType::Map(field, _) => {
                let child = Self::new(name, field.data_type())?;
                Values::List(vec![0], Box::new(child), field.clone())
            }
            DataType::Struct(fields) if !fields.is_empty() => {
                let children = fields
                    .iter()
                    .map(|field| Self::new(name, field.data_type()));
                Values::Struct(children.collect::<Result<_>>()?, fields.clone())
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

    fn unrepresentable(&self) -> Error {
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
            _ => return Err(self.unrepresentable()),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Numbers one behind the other, as Arrow holds them, and which of them are there.
    pub fn extend(&mut self, values: &[u8], there: Option<&NullBuffer>) -> Result<()> {
        let Values::Plain(all, width) = &mut self.values else {
            return Err(self.unrepresentable());
        };
        let count = values.len() / (*width).max(1);
        let fits = there.is_none_or(|there| there.len() == count);
        if !fits || count * *width != values.len() {
            return Err(self.unrepresentable());
        }
        all.extend_from_slice(values);
        match there {
            None => self.nulls.append_n_non_nulls(count),
            Some(there) => self.nulls.append_buffer(there),
        }
        Ok(())
    }

    #[inline]
    pub fn push_bool(&mut self, value: bool) -> Result<()> {
        match &mut self.values {
            Values::Bits(bits) => bits.append(value),
            _ => return Err(self.unrepresentable()),
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
            _ => return Err(self.unrepresentable()),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Text that is written where it will lie; its bytes.
    pub fn push_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<usize> {
        let Values::Bytes(ends, all) = &mut self.values else {
            return Err(self.unrepresentable());
        };
        let before = all.len();
        write(all);
        let written = all.len() - before;
        ends.push(i32::try_from(all.len()).map_err(|_| too_long(&self.name))?);
        self.nulls.append_non_null();
        Ok(written)
    }

    #[inline]
    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Bits(bits) => bits.append(false),
            Values::Plain(all, width) => all.extend_zeros(*width),
            Values::Bytes(ends, all) => ends.push(all.len() as i32),
            Values::List(ends, ..) => ends.push(ends.last().copied().unwrap_or_default()),
            Values::Struct(children, _) => children.iter_mut().for_each(Self::push_null),
        }
        self.nulls.append_null();
    }

    /// A struct: `add` adds a value to each of its columns.
    pub fn push_struct(&mut self, add: impl FnOnce(&mut [Column]) -> Result<()>) -> Result<()> {
        let Values::Struct(children, _) = &mut self.values else {
            return Err(self.unrepresentable());
        };
        add(children)?;
        self.nulls.append_non_null();
        let rows = self.nulls.len();
        match children.iter().all(|child| child.nulls.len() == rows) {
            true => Ok(()),
            false => Err(self.unrepresentable()),
        }
    }

    /// A list whose values `add` adds; of a map its pairs.
    pub fn push_list(&mut self, add: impl FnOnce(&mut Column) -> Result<()>) -> Result<()> {
        let Values::List(ends, child, _) = &mut self.values else {
            return Err(self.unrepresentable());
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
            Values::Struct(children, fields) => {
                let columns = children.iter_mut().map(Self::finish);
                let columns = columns.collect::<Result<_>>()?;
                let made = StructArray::try_new(fields.clone(), columns, nulls);
                Arc::new(made.map_err(|error| wrong(&error))?)
            }
            Values::List(ends, child, field) if matches!(self.data_type, DataType::Map(..)) => {
                let (offsets, pairs) = (offsets(ends), child.finish()?);
                let made = MapArray::try_new(
                    field.clone(),
                    offsets,
                    pairs.as_struct().clone(),
                    nulls,
                    false,
                );
                Arc::new(made.map_err(|error| wrong(&error))?)
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

    /// The batch of what is there; none of no rows.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter_mut().map(Column::finish);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        let schema = self.schema.clone();
        let batch = RecordBatch::try_new_with_options(schema, columns, &rows)?;
        Ok(Some(batch))
    }
}

#[cfg(test)]
mod tests;

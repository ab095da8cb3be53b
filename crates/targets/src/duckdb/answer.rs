//! What comes back of a statement: its columns, its rows in chunks, and the vectors of a chunk.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::api::{text, Api, Functions, Handle, Owned, RawResult, SUCCESS};
use super::handles::{Answer, Link};

/// The bytes of a string in a vector: its length, and then itself or where it lies.
const STRING: usize = 16;
/// So long a string is itself there.
const INLINE: usize = 12;

/// An answer, whose rows are fetched in chunks.
pub struct Rows {
    link: Arc<Link>,
    raw: RawResult,
}

// SAFETY: as a connection.
unsafe impl Send for Rows {}

impl Rows {
    /// # Safety
    /// `raw` was filled in by the call that returned `state`, and is nobody else's.
    pub(super) unsafe fn new(link: &Arc<Link>, state: i32, raw: RawResult) -> Answer<Self> {
        let mut rows = Self {
            link: link.clone(),
            raw,
        };
        match state {
            SUCCESS => Ok(rows),
            _ => Err(rows.error().unwrap_or_default()),
        }
    }

    fn f(&self) -> &Functions {
        &self.link.database.api.f
    }

    fn error(&mut self) -> Option<String> {
        // SAFETY: the result is ours; the text is copied.
        let said = unsafe { (self.link.database.api.f.result_error)(&mut self.raw) };
        (!said.is_null()).then(|| text(said))
    }

    /// Names and types.
    pub fn columns(&mut self) -> Vec<(String, Kind)> {
        // SAFETY: columns are asked for within their number; types are destroyed with their owner.
        unsafe {
            let api = self.link.database.api.clone();
            let raw = &raw mut self.raw;
            let column = |at| {
                let name = text((api.f.column_name)(raw, at));
                let handle = (api.f.column_logical_type)(raw, at);
                let api = api.clone();
                (name, Kind { api, handle })
            };
            (0..(api.f.column_count)(raw)).map(column).collect()
        }
    }

    /// The next rows; `None`: that was all.
    pub fn fetch(&mut self) -> Answer<Option<Chunk>> {
        // SAFETY: the result is ours, and takes a copy of its words; the chunk is destroyed with its owner.
        let handle = unsafe { (self.f().fetch_chunk)(self.raw) };
        if handle.is_null() {
            return match self.error().filter(|said| !said.is_empty()) {
                Some(said) => Err(said),
                None => Ok(None),
            };
        }
        // SAFETY: as above.
        let rows = unsafe { (self.f().data_chunk_get_size)(handle) } as usize;
        Ok(Some(Chunk {
            link: self.link.clone(),
            handle,
            rows,
        }))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: filled in once.
        unsafe { (self.link.database.api.f.destroy_result)(&mut self.raw) }
    }
}

/// A type with all its particulars.
pub struct Kind {
    api: Arc<Api>,
    handle: Handle,
}

// SAFETY: a description that nobody changes.
unsafe impl Send for Kind {}

impl Kind {
    fn of(&self, handle: Handle) -> Self {
        let api = self.api.clone();
        Self { api, handle }
    }

    /// `duckdb_type`
    pub fn id(&self) -> i32 {
        // SAFETY: here and below: the type is there, and what is asked for fits its id.
        unsafe { (self.api.f.get_type_id)(self.handle) }
    }

    /// Of a decimal: digits, those behind the point, and the id of the integer that it is kept in.
    pub fn decimal(&self) -> (u8, u8, i32) {
        let (f, h) = (&self.api.f, self.handle);
        // SAFETY: as above.
        unsafe {
            (
                (f.decimal_width)(h),
                (f.decimal_scale)(h),
                (f.decimal_internal_type)(h),
            )
        }
    }

    /// Of an enumeration: the id of the integer that it is kept in, and the words.
    pub fn words(&self) -> (i32, Vec<String>) {
        let (f, h) = (&self.api.f, self.handle);
        // SAFETY: as above; each text is freed.
        unsafe {
            let word = |at| Owned(&self.api, (f.enum_dictionary_value)(h, at)).text();
            let words = (0..u64::from((f.enum_dictionary_size)(h))).map(word);
            ((f.enum_internal_type)(h), words.collect())
        }
    }

    /// Of a list: what it is of.
    pub fn item(&self) -> Self {
        // SAFETY: as above.
        self.of(unsafe { (self.api.f.list_type_child_type)(self.handle) })
    }

    /// Of a map: its keys' and its values'.
    pub fn pair(&self) -> [Self; 2] {
        // SAFETY: as above.
        unsafe {
            let key = (self.api.f.map_type_key_type)(self.handle);
            let value = (self.api.f.map_type_value_type)(self.handle);
            [self.of(key), self.of(value)]
        }
    }

    /// Of a struct: its fields.
    pub fn fields(&self) -> Vec<(String, Self)> {
        let (f, h) = (&self.api.f, self.handle);
        // SAFETY: as above; each text is freed.
        unsafe {
            let field = |at| {
                let name = Owned(&self.api, (f.struct_type_child_name)(h, at)).text();
                (name, self.of((f.struct_type_child_type)(h, at)))
            };
            (0..(f.struct_type_child_count)(h)).map(field).collect()
        }
    }

    /// Of an array: what it is of, and how many of it.
    pub fn items(&self) -> (Self, usize) {
        // SAFETY: as above.
        unsafe {
            let item = (self.api.f.array_type_child_type)(self.handle);
            let count = (self.api.f.array_type_array_size)(self.handle);
            (self.of(item), count as usize)
        }
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        // SAFETY: made once.
        unsafe { (self.api.f.destroy_logical_type)(&mut self.handle) }
    }
}

/// Rows, column by column; vectors of an answer are flat.
pub struct Chunk {
    link: Arc<Link>,
    handle: Handle,
    pub rows: usize,
}

// SAFETY: as a connection.
unsafe impl Send for Chunk {}

impl Chunk {
    /// The column `at`, of those that the answer has.
    pub fn vector(&self, at: usize) -> Vector<'_> {
        let f = &self.link.database.api.f;
        // SAFETY: the chunk lives as long as what is made of it.
        unsafe {
            Vector::new(
                f,
                (f.data_chunk_get_vector)(self.handle, at as u64),
                self.rows,
            )
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: fetched once.
        unsafe { (self.link.database.api.f.destroy_data_chunk)(&mut self.handle) }
    }
}

/// The values of a column, `rows` of them, and which are there. Who asks for a value knows its type.
pub struct Vector<'a> {
    f: &'a Functions,
    handle: Handle,
    data: *const u8,
    /// A bit a value, the lowest first; null: all are there.
    mask: *const u64,
    rows: usize,
    chunk: PhantomData<&'a Chunk>,
}

impl<'a> Vector<'a> {
    /// # Safety
    /// The vector is flat, has so many values, and lives as long as 'a.
    unsafe fn new(f: &'a Functions, handle: Handle, rows: usize) -> Self {
        unsafe {
            Self {
                f,
                handle,
                data: (f.vector_get_data)(handle).cast_const().cast(),
                mask: (f.vector_get_validity)(handle).cast_const(),
                rows,
                chunk: PhantomData,
            }
        }
    }

    /// Values of so many bytes each, from one row to another.
    ///
    /// # Panics
    /// There are not so many rows.
    pub fn bytes(&self, width: usize, from: usize, to: usize) -> &'a [u8] {
        assert!(from <= to && to <= self.rows, "rows of a vector");
        if from == to {
            return &[];
        }
        // SAFETY: a flat vector has its values one behind the other; rows are within their number.
        unsafe { std::slice::from_raw_parts(self.data.add(from * width), (to - from) * width) }
    }

    /// Which of the rows are there; `None`: all.
    pub fn validity(&self, from: usize, to: usize) -> Option<NullBuffer> {
        assert!(from <= to && to <= self.rows, "rows of a vector");
        if self.mask.is_null() {
            return None;
        }
        // No words before the first row's: a list's values are asked for list by list.
        let (first, end) = (from / 64, to.div_ceil(64));
        // SAFETY: the mask has a bit for each row.
        let words = unsafe { std::slice::from_raw_parts(self.mask.add(first), end - first) };
        let bits = BooleanBuffer::new(Buffer::from_slice_ref(words), from % 64, to - from);
        let found = NullBuffer::new(bits);
        (found.null_count() > 0).then_some(found)
    }

    /// A string or a blob that is there.
    #[inline]
    pub fn string(&self, row: usize) -> &'a [u8] {
        let value = self.bytes(STRING, row, row + 1);
        let mut length = [0; 4];
        length.copy_from_slice(&value[..4]);
        let length = u32::from_ne_bytes(length) as usize;
        if length <= INLINE {
            return &value[4..4 + length];
        }
        let mut place = [0; 8];
        place.copy_from_slice(&value[8..]);
        // SAFETY: a longer string's last eight bytes are where it lies, which is as long as its chunk.
        unsafe { std::slice::from_raw_parts(usize::from_ne_bytes(place) as *const u8, length) }
    }

    /// Of structs: the values of a field.
    pub fn field(&self, at: usize) -> Self {
        // SAFETY: the vector is one of structs with such a field, which is flat as it is.
        unsafe {
            let child = (self.f.struct_vector_get_child)(self.handle, at as u64);
            Self::new(self.f, child, self.rows)
        }
    }

    /// Of lists, or maps: all their values.
    pub fn items(&self) -> Self {
        // SAFETY: the vector is one of lists, whose values are flat as it is.
        unsafe {
            let rows = (self.f.list_vector_get_size)(self.handle) as usize;
            Self::new(self.f, (self.f.list_vector_get_child)(self.handle), rows)
        }
    }

    /// Of arrays with so many values each: all of them.
    pub fn elements(&self, count: usize) -> Self {
        // SAFETY: the vector is one of such arrays.
        unsafe {
            let child = (self.f.array_vector_get_child)(self.handle);
            Self::new(self.f, child, self.rows * count)
        }
    }
}

//! What the library hands out, each closed with its owner: file, connection, statement,
//! appender; `answer` has what comes back. All unsafe code of this target is there, here and in `api`.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;

use super::answer::Rows;
use super::api::{text, Api, Functions, Handle, Owned, RawResult, Type, SUCCESS};
use super::types::{Column, Data};

/// What DuckDB says instead of an answer: `Constraint Error: Duplicate key ...`.
pub type Refusal = String;

pub(super) type Answer<T> = Result<T, Refusal>;

fn zero_ended(text: &str) -> Answer<CString> {
    CString::new(text).map_err(|_| "Invalid Input Error: a zero byte".to_owned())
}

/// An open file.
pub struct Database {
    pub(super) api: Arc<Api>,
    handle: Handle,
}

// SAFETY: duckdb.h: a database may be used by several threads at once; its connections by one
// each, which `&mut self` sees to.
unsafe impl Send for Database {}
unsafe impl Sync for Database {}

impl Database {
    /// `writes`: else other processes may read the file at the same time.
    pub fn open(api: &Arc<Api>, path: &str, writes: bool) -> Answer<Arc<Self>> {
        let path = zero_ended(path)?;
        let mut handle = ptr::null_mut();
        let mut said = ptr::null_mut();
        // SAFETY: all pointers live through the calls; the configuration, made once, is destroyed.
        let state = unsafe {
            let mut settings = ptr::null_mut();
            (api.f.create_config)(&mut settings);
            let mode = if writes { c"AUTOMATIC" } else { c"READ_ONLY" };
            (api.f.set_config)(settings, c"access_mode".as_ptr(), mode.as_ptr());
            let state = (api.f.open_ext)(path.as_ptr(), &mut handle, settings, &mut said);
            (api.f.destroy_config)(&mut settings);
            state
        };
        let said = Owned(api, said);
        match state {
            SUCCESS => Ok(Arc::new(Self {
                api: api.clone(),
                handle,
            })),
            _ => Err(said.text()),
        }
    }

    pub fn connect(self: &Arc<Self>) -> Answer<Connection> {
        let mut handle = ptr::null_mut();
        // SAFETY: the database is open.
        match unsafe { (self.api.f.connect)(self.handle, &mut handle) } {
            SUCCESS => Ok(Connection(Arc::new(Link {
                database: self.clone(),
                handle,
            }))),
            _ => Err("Connection Error: no connection".to_owned()),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened once, and its connections keep it from being dropped.
        unsafe { (self.api.f.close)(&mut self.handle) }
    }
}

/// One connection to an open file. What is made of it holds it open.
pub(super) struct Link {
    pub(super) database: Arc<Database>,
    pub(super) handle: Handle,
}

// SAFETY: duckdb.h: it may be used by any thread, by one at a time, which `&mut Connection` sees to; to
// interrupt it is for any thread at any time.
unsafe impl Send for Link {}
unsafe impl Sync for Link {}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: connected once.
        unsafe { (self.database.api.f.disconnect)(&mut self.handle) }
    }
}

pub struct Connection(pub(super) Arc<Link>);

impl Connection {
    fn f(&self) -> &Functions {
        &self.0.database.api.f
    }

    /// What ends its statement from another thread.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(self.0.clone())
    }

    /// Executes one or more statements.
    pub fn run(&mut self, sql: &CStr) -> Answer<()> {
        let mut result = RawResult::default();
        // SAFETY: `sql` ends with a zero; the result is destroyed in any case.
        unsafe {
            let state = (self.f().query)(self.0.handle, sql.as_ptr(), &mut result);
            self.finish(state, result)
        }
    }

    /// The answer to one statement, whose rows have all been made.
    pub fn query(&mut self, sql: &str) -> Answer<Rows> {
        let sql = zero_ended(sql)?;
        let mut result = RawResult::default();
        // SAFETY: `sql` ends with a zero; the result is destroyed with its owner.
        unsafe {
            let state = (self.f().query)(self.0.handle, sql.as_ptr(), &mut result);
            Rows::new(&self.0, state, result)
        }
    }

    pub fn run_text(&mut self, sql: &str) -> Answer<()> {
        let sql = zero_ended(sql)?;
        self.run(&sql)
    }

    /// The rows of an answer, as text.
    pub fn rows(&mut self, sql: &str) -> Answer<Vec<Vec<Option<String>>>> {
        let sql = zero_ended(sql)?;
        let mut result = RawResult::default();
        // SAFETY: rows and columns are looked at within their number; texts are freed.
        unsafe {
            let f = self.f();
            let state = (f.query)(self.0.handle, sql.as_ptr(), &mut result);
            let mut rows = Vec::new();
            if state == SUCCESS {
                let columns = (f.column_count)(&mut result);
                for row in 0..(f.row_count)(&mut result) {
                    let value = |column| {
                        let text = (f.value_varchar)(&mut result, column, row);
                        let value = Owned(&self.0.database.api, text);
                        (!value.1.is_null()).then(|| value.text())
                    };
                    rows.push((0..columns).map(value).collect());
                }
            }
            self.finish(state, result).map(|()| rows)
        }
    }

    /// # Safety
    /// `result` was filled in by the call that returned `state`, and is not used again.
    unsafe fn finish(&self, state: i32, mut result: RawResult) -> Answer<()> {
        unsafe {
            let f = self.f();
            let done = match state {
                SUCCESS => Ok(()),
                _ => Err(text((f.result_error)(&mut result))),
            };
            (f.destroy_result)(&mut result);
            done
        }
    }

    pub fn prepare(&mut self, sql: &str) -> Answer<Prepared> {
        let sql = zero_ended(sql)?;
        let mut handle = ptr::null_mut();
        // SAFETY: a handle is made in any case, and destroyed with its owner.
        let state = unsafe { (self.f().prepare)(self.0.handle, sql.as_ptr(), &mut handle) };
        let prepared = Prepared {
            link: self.0.clone(),
            handle,
        };
        match state {
            SUCCESS => Ok(prepared),
            // SAFETY: as above.
            _ => Err(text(unsafe { (self.f().prepare_error)(handle) })),
        }
    }

    pub fn execute(&mut self, prepared: &mut Prepared) -> Answer<()> {
        let mut result = RawResult::default();
        // SAFETY: the statement belongs to this connection; the result is destroyed.
        unsafe {
            let state = (self.f().execute_prepared)(prepared.handle, &mut result);
            self.finish(state, result)
        }
    }

    /// The same for a statement whose rows are made as they are fetched.
    pub fn stream(&mut self, prepared: &mut Prepared) -> Answer<Rows> {
        let mut result = RawResult::default();
        // SAFETY: as above; the result is destroyed with its owner.
        unsafe {
            let state = (self.f().execute_prepared_streaming)(prepared.handle, &mut result);
            Rows::new(&self.0, state, result)
        }
    }

    /// An appender whose rows `query` takes from the table `rows`.
    pub fn appender(&mut self, query: &str, names: &[&str], types: &[Type]) -> Answer<Appender> {
        let (query, table) = (zero_ended(query)?, c"rows");
        let names: Vec<CString> = names
            .iter()
            .map(|name| zero_ended(name))
            .collect::<Answer<_>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let f = self.f();
        let mut handle = ptr::null_mut();
        // SAFETY: as many types as names; the library copies what it is given. Types, chunk
        // and appender are destroyed by their owner in any case.
        unsafe {
            let mut kinds: Vec<Handle> = types
                .iter()
                .map(|kind| (f.create_logical_type)(*kind as i32))
                .collect();
            let state = (f.appender_create_query)(
                self.0.handle,
                query.as_ptr(),
                kinds.len() as u64,
                kinds.as_mut_ptr(),
                table.as_ptr(),
                pointers.as_mut_ptr(),
                &mut handle,
            );
            let chunk = (f.create_data_chunk)(kinds.as_mut_ptr(), kinds.len() as u64);
            for kind in &mut kinds {
                (f.destroy_logical_type)(kind);
            }
            let appender = Appender {
                link: self.0.clone(),
                handle,
                chunk,
            };
            match state {
                SUCCESS => Ok(appender),
                _ => Err(appender.refusal()),
            }
        }
    }
}

/// Ends a connection's statement.
pub struct Interrupt(Arc<Link>);

impl Interrupt {
    pub fn now(&self) {
        // SAFETY: the connection is open.
        unsafe { (self.0.database.api.f.interrupt)(self.0.handle) }
    }
}

/// A value for a placeholder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    /// Of their own width: a value that must be cast costs a third of the planning more.
    Integer32(i32),
    Unsigned32(u32),
    Double(f64),
    /// Microseconds since 1970, without a zone and with one.
    Timestamp(i64),
    TimestampTz(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// A prepared statement.
pub struct Prepared {
    link: Arc<Link>,
    handle: Handle,
}

// SAFETY: as a connection.
unsafe impl Send for Prepared {}

impl Prepared {
    /// Binds the placeholder `$at`, from 1 on. The library copies the value.
    pub fn bind(&mut self, at: usize, value: Value<'_>) -> Answer<()> {
        let (f, h, at) = (&self.link.database.api.f, self.handle, at as u64);
        // SAFETY: the handle is valid; pointers hold as many bytes as is said.
        let state = unsafe {
            match value {
                Value::Null => (f.bind_null)(h, at),
                Value::Boolean(value) => (f.bind_boolean)(h, at, value),
                Value::Integer(value) => (f.bind_int64)(h, at, value),
                Value::Unsigned(value) => (f.bind_uint64)(h, at, value),
                Value::Integer32(value) => (f.bind_int32)(h, at, value),
                Value::Unsigned32(value) => (f.bind_uint32)(h, at, value),
                Value::Double(value) => (f.bind_double)(h, at, value),
                Value::Timestamp(value) => (f.bind_timestamp)(h, at, value),
                Value::TimestampTz(value) => (f.bind_timestamp_tz)(h, at, value),
                Value::Text(value) => {
                    (f.bind_varchar_length)(h, at, value.as_ptr().cast(), value.len() as u64)
                }
                Value::Blob(value) => {
                    (f.bind_blob)(h, at, value.as_ptr().cast(), value.len() as u64)
                }
            }
        };
        match state {
            SUCCESS => Ok(()),
            // SAFETY: as above.
            _ => Err(text(unsafe { (f.prepare_error)(h) })),
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: made once; its connection is open.
        unsafe { (self.link.database.api.f.destroy_prepare)(&mut self.handle) }
    }
}

/// Takes rows in chunks and hands them to its query when it is flushed.
pub struct Appender {
    link: Arc<Link>,
    handle: Handle,
    chunk: Handle,
}

// SAFETY: as a connection.
unsafe impl Send for Appender {}

impl Appender {
    fn f(&self) -> &Functions {
        &self.link.database.api.f
    }

    fn refusal(&self) -> Refusal {
        // SAFETY: the library takes a null handle, too.
        text(unsafe { (self.f().appender_error)(self.handle) })
    }

    /// All rows of a batch, and then the query.
    pub fn append(&mut self, columns: &[Column], rows: usize) -> Answer<()> {
        let done = self.append_all(columns, rows);
        if done.is_err() {
            // What the query refused must not come again with the next rows.
            // SAFETY: the handle is valid.
            unsafe { (self.f().appender_clear)(self.handle) };
        }
        done
    }

    fn append_all(&mut self, columns: &[Column], rows: usize) -> Answer<()> {
        // SAFETY: it takes nothing.
        let most = unsafe { (self.f().vector_size)() } as usize;
        for from in (0..rows).step_by(most.max(1)) {
            self.append_some(columns, from, rows.min(from + most))?;
        }
        // SAFETY: the handle is valid.
        match unsafe { (self.f().appender_flush)(self.handle) } {
            SUCCESS => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    fn append_some(&mut self, columns: &[Column], from: usize, to: usize) -> Answer<()> {
        let f = self.f();
        // SAFETY: the chunk has a vector a column of its type, of `vector_size` values, which
        // `to - from` does not exceed; strings are copied; a validity mask has a bit a value.
        let state = unsafe {
            (f.data_chunk_reset)(self.chunk);
            for (at, column) in columns.iter().enumerate() {
                let vector = (f.data_chunk_get_vector)(self.chunk, at as u64);
                match &column.data {
                    Data::Fixed(bytes) => {
                        let width = column.kind.width();
                        let part = &bytes[from * width..to * width];
                        let place = (f.vector_get_data)(vector).cast::<u8>();
                        ptr::copy_nonoverlapping(part.as_ptr(), place, part.len());
                    }
                    Data::Bytes { .. } => {
                        for row in from..to {
                            let value = column.bytes(row);
                            let (place, length) = (value.as_ptr().cast(), value.len() as u64);
                            let row = (row - from) as u64;
                            (f.vector_assign_string_element_len)(vector, row, place, length);
                        }
                    }
                }
                let Some(nulls) = &column.nulls else { continue };
                (f.vector_ensure_validity_writable)(vector);
                let mask = (f.vector_get_validity)(vector);
                for row in (from..to).filter(|row| nulls.is_null(*row)) {
                    let (word, bit) = ((row - from) / 64, (row - from) % 64);
                    *mask.add(word) &= !(1u64 << bit);
                }
            }
            (f.data_chunk_set_size)(self.chunk, (to - from) as u64);
            (f.append_data_chunk)(self.handle, self.chunk)
        };
        match state {
            SUCCESS => Ok(()),
            _ => Err(self.refusal()),
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // SAFETY: made once each; null handles are taken.
        unsafe {
            let f = &self.link.database.api.f;
            (f.destroy_data_chunk)(&mut self.chunk);
            (f.appender_destroy)(&mut self.handle);
        }
    }
}

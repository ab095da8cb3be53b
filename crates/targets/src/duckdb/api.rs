//! DuckDB's C API, as far as it is needed, from a library that is loaded at run time: the
//! user's own DuckDB is measured, and no build has to compile one.
//!
//! Signatures: duckdb.h of DuckDB 1.4, which later versions keep.

use std::ffi::{c_char, c_void, CStr};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use venturi_base::error::{Error, Result};

/// `duckdb_state`
pub(super) const SUCCESS: i32 = 0;

/// `duckdb_result` of duckdb.h: six words, of which the C API alone makes sense.
#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(super) struct RawResult([usize; 6]);

pub(super) type Handle = *mut c_void;

/// `duckdb_type` of the columns that are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Type {
    Boolean = 1,
    TinyInt = 2,
    SmallInt = 3,
    Integer = 4,
    BigInt = 5,
    UTinyInt = 6,
    USmallInt = 7,
    UInteger = 8,
    UBigInt = 9,
    Float = 10,
    Double = 11,
    Timestamp = 12,
    Varchar = 17,
    Blob = 18,
    TimestampTz = 31,
}

macro_rules! functions {
    ($($name:ident: fn($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions by their names in duckdb.h, without the prefix.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
        }

        impl Functions {
            fn load(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the types are those of duckdb.h; the library is never unloaded.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!("duckdb_", stringify!($name), "\0"))?,)*
                    })
                }
            }
        }
    };
}

functions! {
    library_version: fn() -> *const c_char;
    free: fn(Handle);
    create_config: fn(*mut Handle) -> i32;
    set_config: fn(Handle, *const c_char, *const c_char) -> i32;
    destroy_config: fn(*mut Handle);
    open_ext: fn(*const c_char, *mut Handle, Handle, *mut *mut c_char) -> i32;
    close: fn(*mut Handle);
    connect: fn(Handle, *mut Handle) -> i32;
    disconnect: fn(*mut Handle);
    interrupt: fn(Handle);
    query: fn(Handle, *const c_char, *mut RawResult) -> i32;
    destroy_result: fn(*mut RawResult);
    result_error: fn(*mut RawResult) -> *const c_char;
    column_count: fn(*mut RawResult) -> u64;
    column_name: fn(*mut RawResult, u64) -> *const c_char;
    column_logical_type: fn(*mut RawResult, u64) -> Handle;
    row_count: fn(*mut RawResult) -> u64;
    fetch_chunk: fn(RawResult) -> Handle;
    value_varchar: fn(*mut RawResult, u64, u64) -> *mut c_char;
    prepare: fn(Handle, *const c_char, *mut Handle) -> i32;
    prepare_error: fn(Handle) -> *const c_char;
    destroy_prepare: fn(*mut Handle);
    execute_prepared: fn(Handle, *mut RawResult) -> i32;
    execute_prepared_streaming: fn(Handle, *mut RawResult) -> i32;
    bind_null: fn(Handle, u64) -> i32;
    bind_boolean: fn(Handle, u64, bool) -> i32;
    bind_int32: fn(Handle, u64, i32) -> i32;
    bind_uint32: fn(Handle, u64, u32) -> i32;
    bind_int64: fn(Handle, u64, i64) -> i32;
    bind_uint64: fn(Handle, u64, u64) -> i32;
    bind_double: fn(Handle, u64, f64) -> i32;
    bind_timestamp: fn(Handle, u64, i64) -> i32;
    bind_timestamp_tz: fn(Handle, u64, i64) -> i32;
    bind_varchar_length: fn(Handle, u64, *const c_char, u64) -> i32;
    bind_blob: fn(Handle, u64, *const c_void, u64) -> i32;
    appender_create_query: fn(Handle, *const c_char, u64, *mut Handle, *const c_char, *mut *const c_char, *mut Handle) -> i32;
    appender_error: fn(Handle) -> *const c_char;
    appender_flush: fn(Handle) -> i32;
    appender_clear: fn(Handle) -> i32;
    appender_destroy: fn(*mut Handle) -> i32;
    append_data_chunk: fn(Handle, Handle) -> i32;
    create_logical_type: fn(i32) -> Handle;
    destroy_logical_type: fn(*mut Handle);
    get_type_id: fn(Handle) -> i32;
    decimal_width: fn(Handle) -> u8;
    decimal_scale: fn(Handle) -> u8;
    decimal_internal_type: fn(Handle) -> i32;
    enum_internal_type: fn(Handle) -> i32;
    enum_dictionary_size: fn(Handle) -> u32;
    enum_dictionary_value: fn(Handle, u64) -> *mut c_char;
    list_type_child_type: fn(Handle) -> Handle;
    map_type_key_type: fn(Handle) -> Handle;
    map_type_value_type: fn(Handle) -> Handle;
    struct_type_child_count: fn(Handle) -> u64;
    struct_type_child_name: fn(Handle, u64) -> *mut c_char;
    struct_type_child_type: fn(Handle, u64) -> Handle;
    array_type_child_type: fn(Handle) -> Handle;
    array_type_array_size: fn(Handle) -> u64;
    create_data_chunk: fn(*mut Handle, u64) -> Handle;
    destroy_data_chunk: fn(*mut Handle);
    data_chunk_reset: fn(Handle);
    data_chunk_set_size: fn(Handle, u64);
    data_chunk_get_size: fn(Handle) -> u64;
    data_chunk_get_vector: fn(Handle, u64) -> Handle;
    vector_get_data: fn(Handle) -> Handle;
    vector_ensure_validity_writable: fn(Handle);
    vector_get_validity: fn(Handle) -> *mut u64;
    vector_assign_string_element_len: fn(Handle, u64, *const c_char, u64);
    vector_size: fn() -> u64;
    list_vector_get_child: fn(Handle) -> Handle;
    list_vector_get_size: fn(Handle) -> u64;
    struct_vector_get_child: fn(Handle, u64) -> Handle;
    array_vector_get_child: fn(Handle) -> Handle;
}

/// Memory of the library's own.
pub(super) struct Owned<'a>(pub(super) &'a Api, pub(super) *mut c_char);

impl Owned<'_> {
    pub(super) fn text(&self) -> String {
        text(self.1)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        if !self.1.is_null() {
            // SAFETY: the library allocated it, and nobody else frees it.
            unsafe { (self.0.f.free)(self.1.cast()) }
        }
    }
}

pub(super) fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: every text of the API ends with a zero byte, and is copied before anything else
    // is asked of the library.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

/// The library.
pub struct Api {
    pub(super) f: Functions,
    pub version: String,
}

impl Api {
    pub fn load(path: &Path) -> Result<Arc<Self>> {
        let wrong = |what: String| {
            Error::usage(format!(
                "library {}: {what}; name a shared object with DuckDB's C API, version 1.4 or \
                 newer (pip install duckdb brings one)",
                path.display()
            ))
        };
        // SAFETY: initialisers of the user's own DuckDB run; where Python has it loaded, this
        // is the same one.
        let library =
            unsafe { Library::new(path) }.map_err(|error| wrong(format!("not loaded: {error}")))?;
        let f = Functions::load(&library).map_err(|error| wrong(error.to_string()))?;
        // Its threads may outlive any trial: it is never unloaded.
        std::mem::forget(library);
        let Functions {
            library_version: ask_version,
            ..
        } = &f;
        // SAFETY: it takes nothing and returns a constant.
        let version = text(unsafe { ask_version() });
        Ok(Arc::new(Self { f, version }))
    }
}

impl Type {
    /// Bytes of a value in a vector; strings and blobs have none of their own.
    pub fn width(self) -> usize {
        match self {
            Self::Boolean | Self::TinyInt | Self::UTinyInt => 1,
            Self::SmallInt | Self::USmallInt => 2,
            Self::Integer | Self::UInteger | Self::Float => 4,
            Self::BigInt | Self::UBigInt | Self::Double => 8,
            Self::Timestamp | Self::TimestampTz => 8,
            Self::Varchar | Self::Blob => 0,
        }
    }
}

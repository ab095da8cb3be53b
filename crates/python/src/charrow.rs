//! charrow for Python: queries for an engine outside, and a reader of one partition.

use parking_lot::Mutex;

use arrow_array::ffi::{to_ffi, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, StructArray};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use venturi_core::server::charrow as server;
use venturi_core::target::charrow as target;

use crate::raised;

/// A query that somebody outside runs; given up when it is dropped unfinished.
#[pyclass(frozen)]
pub struct Query(server::Query);

impl Query {
    pub fn new(query: server::Query) -> Self {
        Self(query)
    }
}

#[pymethods]
impl Query {
    #[getter]
    fn id(&self) -> &str {
        self.0.id()
    }

    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }

    /// Hands over one Arrow IPC stream; blocks while enough of them wait. False: nobody wants
    /// more.
    fn push(&self, py: Python<'_>, stream: &[u8]) -> bool {
        let stream = stream.to_vec();
        py.detach(|| self.0.push(stream))
    }

    /// There is no more; or why there is not.
    #[pyo3(signature = (error = None))]
    fn finish(&self, error: Option<String>) {
        self.0.finish(error);
    }
}

/// One partition of one query: to be read once, by iteration or as an Arrow C stream.
#[pyclass(frozen)]
pub struct Reader {
    /// `None`: handed over as a stream.
    reader: Mutex<Option<target::Reader>>,
    schema: arrow_schema::SchemaRef,
    hello: std::collections::BTreeMap<String, String>,
}

#[pymethods]
impl Reader {
    /// What a server of version 1.2 says of itself, as `cpus`; empty for an older one.
    #[getter]
    fn server(&self) -> std::collections::BTreeMap<String, String> {
        self.hello.clone()
    }

    /// Takes no more; who reads other partitions of the query goes on.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let reader = self.reader.lock().take();
            drop(reader);
        });
    }

    /// As a pyarrow.Schema.
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("schema", (slf,))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(unexpected)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// What has not been read yet; an error is told through the stream.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a wish, which a producer may leave unfulfilled
        let reader = self
            .reader
            .lock()
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("this partition was handed over already"))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The next batch, as a pyarrow.RecordBatch.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = py.detach(|| {
            let mut reader = self.reader.lock();
            match reader.as_mut() {
                Some(reader) => reader.next_batch().map_err(raised),
                None => Err(PyRuntimeError::new_err(
                    "this partition was handed over as a stream",
                )),
            }
        })?;
        batch
            .map(|batch| {
                py.import("pyarrow")?
                    .call_method1("record_batch", (Batch(batch),))
            })
            .transpose()
    }
}

/// A batch on its way to pyarrow.
#[pyclass(frozen)]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let data = StructArray::from(self.0.clone()).to_data();
        let (array, _) = to_ffi(&data).map_err(unexpected)?;
        // With the names and metadata of the batch, which a struct's type has not all of.
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(unexpected)?;
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

pub fn unexpected(error: arrow_schema::ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("Arrow: {error}"))
}

/// Opens a partition: ValueError: it cannot be so; RuntimeError: the server says no, or is gone.
#[pyfunction]
pub fn charrow_reader(py: Python<'_>, url: &str, query: &str, options: &str) -> PyResult<Reader> {
    let options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let reader = py
        .detach(|| target::Reader::open(url, query, options))
        .map_err(raised)?;
    Ok(Reader {
        schema: reader.schema(),
        hello: reader.hello().clone(),
        reader: Mutex::new(Some(reader)),
    })
}

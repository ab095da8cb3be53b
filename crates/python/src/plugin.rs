//! Targets in Python: calls into what `venturi.targets.plugin_calls` makes of a plugin, a stream's own on its
//! own thread. Python's lock is held while Python runs, and not while an Arrow stream is asked for more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arrow_array::ffi::{from_ffi, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use venturi_core::data::{digest as digest_of, Cursor, Source};
use venturi_core::engine::{self, Record};
use venturi_core::error::{Error, Kind, Result};
use venturi_core::spec::TrialSpec;
use venturi_core::target::plugin::{Consumer, Planned, Plugged, Plugin, Producer, Taken};

use crate::charrow::{unexpected, Batch};

/// Calls of this process that nobody waits for and that still run.
static STUCK: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

pub fn run(spec: TrialSpec, calls: Py<PyAny>, control: &engine::Control) -> Record {
    let spec = Arc::new(spec);
    let code = Arc::new(Code(Arc::new(calls)));
    let target = Plugged::new(spec.clone(), code, STUCK.clone());
    engine::run_on(&spec, Box::new(target), control)
}

/// How many these are.
#[pyfunction]
pub fn stuck_calls() -> usize {
    STUCK.load(Ordering::Acquire)
}

/// An Arrow stream or array that was handed over: whoever takes it leaves an empty one.
fn taken<T>(capsule: &Bound<'_, PyAny>, name: &std::ffi::CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}

struct Code(Arc<Py<PyAny>>);

impl Code {
    /// What Python raised, as a line.
    fn describe(calls: &Py<PyAny>, py: Python<'_>, error: &PyErr) -> Error {
        let text = calls.call_method1(py, "describe_error", (error.value(py),));
        let text = text.and_then(|text| text.extract::<String>(py));
        Error::new(Kind::Plugin, text.unwrap_or_else(|_| error.to_string()))
    }

    fn call<T>(
        calls: &Py<PyAny>,
        work: impl for<'py> FnOnce(Python<'py>) -> PyResult<T>,
    ) -> Result<T> {
        let attached =
            Python::try_attach(|py| work(py).map_err(|error| Self::describe(calls, py, &error)));
        // The interpreter ends.
        attached.unwrap_or_else(|| Err(Error::cancelled()))
    }
}

impl Plugin for Code {
    fn plan(&self, source: Option<Source>) -> Result<Planned> {
        let told: String = Self::call(&self.0, |py| {
            let rows = source.map(Rows);
            self.0.call_method1(py, "plan", (rows,))?.extract(py)
        })?;
        serde_json::from_str(&told)
            .map_err(|error| Error::new(Kind::Internal, format!("what plan() answered: {error}")))
    }

    fn produce(&self, stream: usize) -> Result<Box<dyn Producer>> {
        let reader = Self::call(&self.0, |py| {
            let capsule = self.0.call_method1(py, "produce", (stream,))?;
            let stream = taken::<FFI_ArrowArrayStream>(capsule.bind(py), c"arrow_array_stream")?;
            // SAFETY: the capsule's name says what it points to; from_raw takes it out.
            Ok(unsafe { FFI_ArrowArrayStream::from_raw(stream) })
        })?;
        // Without Python's lock: its schema may be asked of whoever knows.
        let reader = RecordBatchStreamReader::try_new(reader);
        let reader = reader.or_else(|error| to_error(&self.0, error))?;
        Ok(Box::new(Stream {
            reader,
            calls: self.0.clone(),
        }))
    }

    fn consume(&self, stream: usize) -> Result<Box<dyn Consumer>> {
        let sink = Self::call(&self.0, |py| self.0.call_method1(py, "consume", (stream,)))?;
        Ok(Box::new(Sink {
            sink: Some(sink),
            calls: self.0.clone(),
        }))
    }

    fn close(&self) -> Result<()> {
        Self::call(&self.0, |py| self.0.call_method0(py, "close").map(drop))
    }

    /// One state of Python's for all calls of a thread, so that what it keeps by thread stays.
    fn within(&self, work: &mut (dyn FnMut() + Send)) {
        // None: the interpreter ends, and nobody waits for an answer.
        let _ = Python::try_attach(|py| py.detach(work));
    }
}

/// What a stream said instead of a batch.
fn to_error<T>(calls: &Py<PyAny>, error: ArrowError) -> Result<T> {
    let text = match error {
        ArrowError::CDataInterface(text) => text,
        error => error.to_string(),
    };
    Code::call(calls, |_| Err(PyRuntimeError::new_err(text)))
}

struct Stream {
    reader: RecordBatchStreamReader,
    calls: Arc<Py<PyAny>>,
}

impl Producer for Stream {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.reader.next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => to_error(&self.calls, error),
        }
    }
}

struct Sink {
    /// Taken when it is dropped.
    sink: Option<Py<PyAny>>,
    calls: Arc<Py<PyAny>>,
}

impl Sink {
    fn sink(&self) -> PyResult<&Py<PyAny>> {
        let dropped = || PyRuntimeError::new_err("the consumer was given back");
        self.sink.as_ref().ok_or_else(dropped)
    }
}

impl Drop for Sink {
    /// Here, on the thread of its stream: without Python's lock it would be given back by whoever takes that next.
    fn drop(&mut self) {
        let sink = self.sink.take();
        let _ = Python::try_attach(|_| drop(sink)); // None: the interpreter ends
    }
}

impl Consumer for Sink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Code::call(&self.calls, |py| {
            let batch = Batch(batch.clone());
            self.sink()?.call_method1(py, "write", (batch,)).map(drop)
        })
    }

    fn finish(&mut self) -> Result<Taken> {
        Code::call(&self.calls, |py| {
            let (rows, checksum) = self.sink()?.call_method0(py, "finish")?.extract(py)?;
            Ok(Taken { rows, checksum })
        })
    }
}

/// The rows of a trial: each time it is asked, one stream's, as an Arrow C stream.
#[pyclass(frozen)]
pub struct Rows(Source);

#[pymethods]
impl Rows {
    /// As a pyarrow.Schema.
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("schema", (slf,))
    }

    /// A stream of so many rows, or without end.
    #[pyo3(signature = (rows = None))]
    fn stream(&self, rows: Option<u64>) -> StreamOfRows {
        StreamOfRows(self.0.clone(), rows)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(unexpected)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// One stream's rows.
#[pyclass(frozen)]
pub struct StreamOfRows(Source, Option<u64>);

#[pymethods]
impl StreamOfRows {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a wish, which a producer may leave unfulfilled
        let batches = Batches(self.0.cursor(self.1));
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

struct Batches(Cursor);

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| Ok(item.batch().clone()))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.0.source().schema()
    }
}

/// The digest of a batch, by which a put's other end says what it took: the sum of its batches', modulo 2^64.
/// TypeError, ValueError: it is no batch of Arrow.
#[pyfunction]
pub fn digest(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<u64> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        batch.call_method0("__arrow_c_array__")?.extract()?;
    let schema = taken::<FFI_ArrowSchema>(&schema, c"arrow_schema")?;
    let array = taken::<FFI_ArrowArray>(&array, c"arrow_array")?;
    // SAFETY: the capsules' names say what they point to; from_raw takes it out.
    let (schema, array) = unsafe {
        (
            FFI_ArrowSchema::from_raw(schema),
            FFI_ArrowArray::from_raw(array),
        )
    };
    // SAFETY: the two belong together, as __arrow_c_array__ has it.
    let data = unsafe { from_ffi(array, &schema) }.map_err(unexpected)?;
    let named = Schema::try_from(&schema).map_err(unexpected)?;
    let columns = StructArray::from(data).into_parts().1;
    let batch = RecordBatch::try_new(Arc::new(named), columns).map_err(unexpected)?;
    py.detach(|| digest_of(&batch))
        .map_err(|error| PyValueError::new_err(error.message))
}

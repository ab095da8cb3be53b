//! A link of the laboratory for Python: what keeps its length and losses, and what tells what it is.

use parking_lot::Mutex;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use venturi_core::link;

/// Frames on their way between two interfaces of this network namespace, until it is stopped or dropped.
#[pyclass(frozen)]
pub struct LinkRelay(Mutex<Option<link::Relay>>);

#[pymethods]
impl LinkRelay {
    /// Between the interfaces of the JSON spec. ValueError: it cannot be read; OSError: one cannot be opened.
    #[new]
    fn new(py: Python<'_>, spec: &str) -> PyResult<Self> {
        let spec: link::Between = serde_json::from_str(spec)
            .map_err(|error| PyValueError::new_err(format!("the link's spec: {error}")))?;
        let started = py.detach(|| link::Relay::start(&spec));
        let relay = started.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self(Mutex::new(Some(relay))))
    }

    /// What passed either way so far, as JSON; None when it was stopped. OSError: it has ended by itself.
    fn passed(&self) -> PyResult<Option<String>> {
        let passed = self.0.lock().as_ref().map(link::Relay::passed).transpose();
        let passed = passed.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let text = passed
            .map(|passed| serde_json::to_string(&passed))
            .transpose();
        text.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// OSError: it had ended before.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let relay = self.0.lock().take();
        py.detach(|| relay.map_or(Ok(()), link::Relay::stop))
            .map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

/// Traffic of others out of an interface, until it is stopped or dropped.
#[pyclass(frozen)]
pub struct LinkFiller(Mutex<Option<link::Filler>>);

#[pymethods]
impl LinkFiller {
    /// As the JSON spec says. ValueError: it cannot be read; OSError: the interface cannot be opened.
    #[new]
    fn new(py: Python<'_>, spec: &str) -> PyResult<Self> {
        let spec: link::Fill = serde_json::from_str(spec)
            .map_err(|error| PyValueError::new_err(format!("the traffic's spec: {error}")))?;
        let started = py.detach(|| link::Filler::start(&spec));
        let filler = started.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self(Mutex::new(Some(filler))))
    }

    /// Bits that were sent so far, with all that Ethernet adds, and in how many seconds.
    fn sent(&self) -> (u64, f64) {
        let filler = self.0.lock();
        filler.as_ref().map_or((0, 0.0), link::Filler::sent)
    }

    fn stop(&self, py: Python<'_>) {
        let filler = self.0.lock().take();
        py.detach(|| drop(filler));
    }
}

/// What a path between two network namespaces is, as JSON. ValueError: the spec cannot be read; OSError:
/// nothing can be said, with the reason.
#[pyfunction]
pub fn link_look(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: link::Look = serde_json::from_str(spec)
        .map_err(|error| PyValueError::new_err(format!("the path's spec: {error}")))?;
    let found = py
        .detach(|| link::look(&spec))
        .map_err(|error| PyOSError::new_err(error.to_string()))?;
    serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
}

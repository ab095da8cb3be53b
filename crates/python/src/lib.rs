//! `venturi._core`: the thin line between Python and Rust. Documents cross it as JSON
//! text (docs/format.md); while Rust works, Python's lock is released.

mod charrow;
#[cfg(target_os = "linux")]
mod link;
mod plugin;

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use venturi_core::archives;
use venturi_core::ceiling;
use venturi_core::engine;
use venturi_core::error::{Error, Kind};
use venturi_core::meter::instrument::Instrument;
use venturi_core::net::runtime::block_on;
use venturi_core::server::{charrow as charrow_server, flight, http, timeseries};
use venturi_core::spec::TrialSpec;
use venturi_core::target;

fn raised(error: Error) -> PyErr {
    match error.kind {
        Kind::Usage => PyValueError::new_err(error.message),
        Kind::Io => PyOSError::new_err(error.message),
        _ => PyRuntimeError::new_err(error.message),
    }
}

/// The handle on one running trial or probe; every method may be called from any thread.
#[pyclass(frozen)]
struct Control(engine::Control);

#[pymethods]
impl Control {
    #[new]
    fn new() -> Self {
        Self(engine::Control::new())
    }

    /// Ends the trial soon: between batches, or after a second where it is blocked.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Where the trial is: phase, rows, payload_bytes, batches, elapsed_ns.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let progress = self.0.progress();
        let found = PyDict::new(py);
        found.set_item("phase", progress.phase.name())?;
        found.set_item("rows", progress.rows)?;
        found.set_item("payload_bytes", progress.bytes)?;
        found.set_item("batches", progress.batches)?;
        found.set_item("elapsed_ns", progress.elapsed_ns)?;
        Ok(found)
    }

    /// Waits until the trial has reached a phase or a later one, for so many seconds at most. True:
    /// it has; one that failed is "done". ValueError: there is no such phase.
    fn wait(&self, py: Python<'_>, phase: &str, seconds: f64) -> PyResult<bool> {
        let phase = engine::Phase::of_name(phase).map_err(raised)?;
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
        Ok(py.detach(|| self.0.wait(phase, limit)))
    }

    /// To a share, once: when its streams start, on this host's clock. ValueError: it was said.
    fn start_at(&self, unix_ns: u64) -> PyResult<()> {
        self.0.start_at(unix_ns).map_err(raised)
    }

    /// What the streams of a share have counted, as JSON; None before they all have ended well.
    fn tallies(&self) -> Option<String> {
        self.0.tallies()
    }

    /// To the lead, once: the tallies of all others; it verifies with them. ValueError: they cannot
    /// be read, or were said.
    fn conclude(&self, tallies: &str) -> PyResult<()> {
        self.0.conclude(tallies).map_err(raised)
    }
}

enum Running {
    Charrow(charrow_server::Server),
    Flight(flight::Server),
    Http(http::Server),
    Timeseries(timeseries::Server),
}

/// A running reference server; stops when it is dropped.
#[pyclass(frozen)]
struct Server(Running);

#[pymethods]
impl Server {
    /// Where it listens, "host:port".
    #[getter]
    fn address(&self) -> String {
        match &self.0 {
            Running::Charrow(server) => server.address(),
            Running::Flight(server) => server.address(),
            Running::Http(server) => server.address(),
            Running::Timeseries(server) => server.address(),
        }
    }

    /// Waits until it has stopped, for so many seconds at most. True: it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
        Ok(py.detach(|| match &self.0 {
            Running::Charrow(server) => server.wait(limit),
            Running::Flight(server) => server.wait(limit),
            Running::Http(server) => server.wait(limit),
            Running::Timeseries(server) => server.wait(limit),
        }))
    }

    /// Takes no more connections, lets open streams finish for a moment, and ends.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| match &self.0 {
            Running::Charrow(server) => server.stop(),
            Running::Flight(server) => server.stop(),
            Running::Http(server) => server.stop(),
            Running::Timeseries(server) => server.stop(),
        });
    }

    /// The next query for an engine outside, where one comes within so many seconds. Only of a
    /// charrow server whose spec says "engine": "outside".
    fn next_query(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<charrow::Query>> {
        let Running::Charrow(server) = &self.0 else {
            return Err(PyValueError::new_err("this server hands out no queries"));
        };
        let patience = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
        Ok(py
            .detach(|| server.next_query(patience))
            .map(charrow::Query::new))
    }

    /// Counts since the start, as JSON; of a time-series store, what it holds.
    fn statistics(&self, py: Python<'_>) -> String {
        py.detach(|| match &self.0 {
            Running::Charrow(server) => server.statistics(),
            Running::Flight(server) => server.statistics(),
            Running::Http(server) => server.statistics(),
            Running::Timeseries(server) => server.statistics(),
        })
    }
}

/// The sealed segments of a store of time series, and the files that are not what was written,
/// as JSON. OSError: the folder cannot be read.
#[pyfunction]
fn store_files(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let look =
        || serde_json::to_string(&timeseries::files::look(&folder)?).map_err(std::io::Error::from);
    Ok(py.detach(look)?)
}

#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Runs a trial; a failure is told in the record. `plugin`: the calls of the target, where it is in Python.
/// ValueError: the spec cannot be read.
#[pyfunction]
#[pyo3(signature = (spec, control, plugin = None))]
fn run_trial(
    py: Python<'_>,
    spec: &str,
    control: &Control,
    plugin: Option<Py<PyAny>>,
) -> PyResult<String> {
    let spec = TrialSpec::parse(spec).map_err(raised)?;
    Ok(py.detach(|| match plugin {
        Some(calls) => plugin::run(spec, calls, &control.0).to_json(),
        None => engine::run(spec, &control.0).to_json(),
    }))
}

/// Makes archives of points, as JSON asks; answers with their manifest. ValueError: it cannot be
/// so; OSError: a file cannot be written.
#[pyfunction]
fn generate(py: Python<'_>, spec: &str, control: &Control) -> PyResult<String> {
    py.detach(|| archives::generate(spec, &control.0))
        .map_err(raised)
}

/// Probes raw TCP between this host and a reference server's.
#[pyfunction]
fn probe_tcp(py: Python<'_>, spec: &str, control: &Control) -> PyResult<String> {
    let spec = ceiling::ProbeSpec::parse(spec).map_err(raised)?;
    Ok(py.detach(|| ceiling::run(&spec, &control.0).to_json()))
}

/// Probes a limit of this host: memory, disk, codec or pipe. ValueError: the spec cannot be read.
#[pyfunction]
fn probe(py: Python<'_>, spec: &str, control: &Control) -> PyResult<String> {
    let spec = ceiling::HostSpec::parse(spec).map_err(raised)?;
    Ok(py.detach(|| ceiling::run_host(&spec, &control.0).to_json()))
}

/// What measuring costs here: clock_resolution_ns, clock_read_ns, record_ns, as JSON.
#[pyfunction]
fn instrument(py: Python<'_>) -> String {
    py.detach(|| Instrument::get().to_json())
}

/// Answers that are known in advance beside those of the core, as JSON.
#[pyfunction]
fn self_test(py: Python<'_>) -> PyResult<String> {
    let found = py
        .detach(venturi_core::self_test::answers)
        .map_err(raised)?;
    serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Venturi's own program of exec://: writes the rows of a spec to standard output, or reads standard input. What
/// passed: rows, and the checksum of a put. ValueError: the spec cannot be read; RuntimeError: it broke off.
#[pyfunction]
fn program(py: Python<'_>, spec: &str) -> PyResult<(u64, u64)> {
    let passed = py.detach(|| target::exec::own::run(spec)).map_err(raised)?;
    Ok((passed.rows, passed.checksum))
}

/// What the systems are, as JSON: a record each (`targets/system.py`).
#[pyfunction]
fn systems() -> PyResult<String> {
    serde_json::to_string(target::SYSTEMS).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Starts a reference server: the one of the spec's "server", Flight where it says none.
#[pyfunction]
fn serve(py: Python<'_>, spec: &str) -> PyResult<Server> {
    let wanted: serde_json::Value = serde_json::from_str(spec)
        .map_err(|error| PyValueError::new_err(format!("the server's spec: {error}")))?;
    let started = py.detach(|| match wanted["server"].as_str() {
        Some("charrow") => charrow_server::Server::start(spec).map(Running::Charrow),
        Some("http") => http::Server::start(spec).map(Running::Http),
        Some("timeseries") => timeseries::Server::start(spec).map(Running::Timeseries),
        Some(other) => Err(Error::usage(format!(
            "the server's spec: no server is called {other}"
        ))),
        None => flight::Server::start(spec).map(Running::Flight),
    });
    started.map(Server).map_err(raised)
}

/// The environment of a reference server's end, as JSON; None where the server tells none.
#[pyfunction]
fn server_environment(py: Python<'_>, url: &str, options: &str) -> PyResult<Option<String>> {
    let options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let asking = || block_on(target::reference::environment(url, &options));
    py.detach(asking).and_then(|answer| answer).map_err(raised)
}

/// What a server of Flight can be asked for, as JSON: whether it makes records by Arrow's perf protocol, and the
/// flights that it lists.
#[pyfunction]
fn flight_offers(py: Python<'_>, url: &str, options: &str) -> PyResult<String> {
    let options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let asking = || block_on(target::flight::offers(url, &options));
    let offers = py
        .detach(asking)
        .and_then(|answer| answer)
        .map_err(raised)?;
    serde_json::to_string(&offers).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Control>()?;
    module.add_class::<Server>()?;
    module.add_class::<charrow::Query>()?;
    module.add_class::<charrow::Reader>()?;
    module.add_function(wrap_pyfunction!(charrow::charrow_reader, module)?)?;
    module.add_class::<plugin::Rows>()?;
    module.add_class::<plugin::StreamOfRows>()?;
    module.add_function(wrap_pyfunction!(plugin::digest, module)?)?;
    module.add_function(wrap_pyfunction!(plugin::stuck_calls, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(run_trial, module)?)?;
    module.add_function(wrap_pyfunction!(generate, module)?)?;
    module.add_function(wrap_pyfunction!(probe_tcp, module)?)?;
    module.add_function(wrap_pyfunction!(probe, module)?)?;
    module.add_function(wrap_pyfunction!(instrument, module)?)?;
    module.add_function(wrap_pyfunction!(self_test, module)?)?;
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(systems, module)?)?;
    module.add_function(wrap_pyfunction!(store_files, module)?)?;
    module.add_function(wrap_pyfunction!(server_environment, module)?)?;
    module.add_function(wrap_pyfunction!(flight_offers, module)?)?;
    #[cfg(target_os = "linux")]
    {
        module.add_class::<link::LinkFiller>()?;
        module.add_class::<link::LinkRelay>()?;
        module.add_function(wrap_pyfunction!(link::link_look, module)?)?;
    }
    Ok(())
}

//! A driver that is loaded into this process, and one connection through it. Every call may take any time, or never
//! return: whoever calls has a thread for it.

use std::sync::Arc;

use adbc_core::error::{Error as Said, Status};
use adbc_core::options::{AdbcVersion, InfoCode, OptionStatement, OptionValue};
use adbc_core::{
    CancelHandle, Connection, Database, Driver, Optionable, Statement, LOAD_FLAG_DEFAULT,
};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver, ManagedStatement};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use parking_lot::Mutex;

use super::options::{Level, Options, Settings};
use venturi_base::data::view::{Values, View};
use venturi_base::error::{Error, Kind, Result};

/// Drivers of the Apache project that PyPI has as adbc-driver-NAME.
const WHEELS: [&str; 5] = ["postgresql", "sqlite", "flightsql", "snowflake", "bigquery"];

/// What libpq says to whom the server does not let in. It gives out no SQLSTATE of a connection
/// that was not made, so its driver has nothing else to tell, and reports I/O.
const REFUSALS: [&str; 3] = [
    "password authentication failed",
    "pg_hba.conf",
    "no password supplied",
];

/// A stream of batches as drivers give it.
pub type Batches = Box<dyn RecordBatchReader + Send>;

/// Loads it. Drivers are never unloaded: some have threads of their own.
fn load(options: &Options) -> Result<ManagedDriver> {
    let entrypoint = options.entrypoint.as_deref().map(str::as_bytes);
    let tried = |version| match &options.library {
        Some(path) => ManagedDriver::load_dynamic_from_filename(path, entrypoint, version),
        None => ManagedDriver::load_from_name(
            &options.name,
            entrypoint,
            version,
            LOAD_FLAG_DEFAULT,
            None,
        ),
    };
    let loaded = match tried(AdbcVersion::V110) {
        // Of the first version of ADBC.
        Err(said) if said.status == Status::NotImplemented => tried(AdbcVersion::V100),
        loaded => loaded,
    };
    loaded.map_err(|said| not_loaded(options, &said))
}

fn not_loaded(options: &Options, said: &Said) -> Error {
    let line = one_line(&said.message);
    let text = match &options.library {
        Some(path) => format!(
            "{path}: not loaded as an ADBC driver: {line}; name a shared library that is one, and its function \
             by --driver-entrypoint where that is not AdbcDriverInit"
        ),
        None => {
            let name = &options.name;
            let install = match name.as_str() {
                "duckdb" => "pip install duckdb".to_owned(),
                known if WHEELS.contains(&known) => format!("pip install adbc-driver-{known}"),
                _ => format!(
                    "install it, name its file (adbc:///path/to/libadbc_driver_{name}.so), or write a driver \
                     manifest, {name}.toml"
                ),
            };
            format!("adbc://{name}: no driver is called so here; {install}: {line}")
        }
    };
    Error::usage(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A driver's database, of which connections are made; shared by all streams.
#[derive(Clone)]
pub struct Base {
    name: Arc<str>,
    database: ManagedDatabase,
    settings: Arc<Settings>,
    /// Statements that may still run.
    running: Arc<Mutex<Vec<Box<dyn CancelHandle>>>>,
}

impl Base {
    pub fn open(options: &Options) -> Result<Self> {
        let settings = Arc::new(options.filled()?);
        let mut driver = load(options)?;
        let name: Arc<str> = options.name.as_str().into();
        let given = settings.of(Level::Database);
        let given = given.map(|(key, value)| (key.into(), OptionValue::from(value)));
        let opened = driver.new_database_with_opts(given);
        let database =
            opened.map_err(|said| out_of_reach(refusal(&name, &settings, "open", said)))?;
        Ok(Self {
            name,
            database,
            settings,
            running: Arc::default(),
        })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Ends what still runs, as far as the driver can.
    pub fn cancel(&self) {
        for running in self.running.lock().drain(..) {
            // One that has ended, or that cannot be ended, is not worth a word.
            let _ = running.try_cancel();
        }
    }

    fn check<T>(&self, what: &str, done: std::result::Result<T, Said>) -> Result<T> {
        done.map_err(|said| refusal(&self.name, &self.settings, what, said))
    }

    /// What a stream of a driver's said instead of a batch.
    pub fn broken(&self, error: ArrowError) -> Error {
        let said = match error {
            ArrowError::CDataInterface(said) => said,
            other => other.to_string(),
        };
        let line = self.settings.cleaned(&one_line(&said));
        Error::new(
            Kind::Server,
            format!("{}: the next batch: {line}", self.name),
        )
    }

    /// `init`: statements that every connection executes first.
    pub fn connect(&self, init: &[String]) -> Result<Link> {
        let given = self.settings.of(Level::Connection);
        let given = given.map(|(key, value)| (key.into(), OptionValue::from(value)));
        let connection = self.database.new_connection_with_opts(given);
        let connection = self.check("connect", connection).map_err(out_of_reach)?;
        let mut link = Link {
            connection,
            base: self.clone(),
        };
        for statement in init {
            let done = link.run(statement);
            done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
        }
        Ok(link)
    }
}

/// Nobody has answered yet.
pub fn out_of_reach(error: Error) -> Error {
    let kind = match error.kind {
        Kind::Lost => Kind::Unreachable,
        kind => kind,
    };
    Error { kind, ..error }
}

/// One connection.
pub struct Link {
    connection: ManagedConnection,
    base: Base,
}

/// What a driver says of itself and of the database behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    pub vendor: String,
    pub vendor_version: String,
    pub driver: String,
    pub driver_version: String,
}

impl Link {
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// A statement with the options that were given for statements.
    pub fn statement(&mut self) -> Result<ManagedStatement> {
        let made = self.connection.new_statement();
        let mut statement = self.base.check("make a statement", made)?;
        self.base.running.lock().push(statement.get_cancel_handle());
        for (key, value) in self.base.settings.of(Level::Statement) {
            let set = statement.set_option(key.into(), value.into());
            self.base.check(&format!("option {key}"), set)?;
        }
        Ok(statement)
    }

    /// A statement that is ready to be executed.
    pub fn query(&mut self, sql: &str) -> Result<ManagedStatement> {
        let mut statement = self.statement()?;
        let set = statement.set_sql_query(sql);
        self.base.check("take a statement", set)?;
        Ok(statement)
    }

    pub fn execute(&self, statement: &mut ManagedStatement) -> Result<Batches> {
        self.base.check("execute", statement.execute())
    }

    /// The columns of a statement, which is not executed; `None`: the driver has no such call.
    pub fn columns(&mut self, sql: &str) -> Result<Option<SchemaRef>> {
        let mut statement = self.query(sql)?;
        match statement.execute_schema() {
            Ok(schema) => Ok(Some(schema.into())),
            Err(said) if said.status == Status::NotImplemented => Ok(None),
            Err(said) => self.base.check("tell the columns", Err(said)),
        }
    }

    /// Executes a statement whose rows nobody wants.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        let mut statement = self.query(sql)?;
        let done = statement.execute_update();
        self.base.check("execute", done).map(drop)
    }

    /// The values of an answer's first row, as text.
    pub fn ask(&mut self, sql: &str) -> Result<Vec<Option<String>>> {
        let mut statement = self.query(sql)?;
        let mut rows = self.execute(&mut statement)?;
        let first = loop {
            match rows.next() {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => break batch,
                Some(Err(error)) => return Err(self.base.broken(error)),
                None => return Ok(Vec::new()),
            }
        };
        first_row(&first)
    }

    /// Writes rows into a table. `mode`: adbc.ingest.mode.create, or .append.
    pub fn ingestion(
        &mut self,
        table: &str,
        mode: &str,
        rows: Batches,
    ) -> Result<ManagedStatement> {
        let mut statement = self.statement()?;
        for (key, value) in [
            (OptionStatement::TargetTable, table),
            (OptionStatement::IngestMode, mode),
        ] {
            let set = statement.set_option(key, value.into());
            self.base.check("bulk ingest", set)?;
        }
        let bound = statement.bind_stream(rows);
        self.base.check("bulk ingest", bound)?;
        Ok(statement)
    }

    /// Rows that were written, where the driver tells.
    pub fn ingest(&self, mut statement: ManagedStatement) -> Result<Option<u64>> {
        let done = self.base.check("bulk ingest", statement.execute_update())?;
        Ok(done.and_then(|rows| rows.try_into().ok()))
    }

    /// A driver need not tell.
    pub fn info(&self) -> Info {
        let mut found = Info::default();
        let codes = [
            InfoCode::VendorName,
            InfoCode::VendorVersion,
            InfoCode::DriverName,
            InfoCode::DriverVersion,
        ];
        let Ok(batches) = self.connection.get_info(Some(codes.into_iter().collect())) else {
            return found;
        };
        for batch in batches.flatten() {
            for (code, text) in pairs(&batch) {
                match code {
                    InfoCode::VendorName => found.vendor = text,
                    InfoCode::VendorVersion => found.vendor_version = text,
                    InfoCode::DriverName => found.driver = text,
                    InfoCode::DriverVersion => found.driver_version = text,
                    _ => {}
                }
            }
        }
        found
    }
}

impl Info {
    pub fn text(&self) -> String {
        let named = |name: &str, version: &str| {
            let words = [name, version];
            let words = words.into_iter().filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(" ")
        };
        let vendor = named(&self.vendor, &self.vendor_version);
        let driver = named(&self.driver, &self.driver_version);
        match (vendor.is_empty(), driver.is_empty()) {
            (_, true) => vendor,
            (true, false) => driver,
            (false, false) => format!("{vendor} ({driver})"),
        }
    }
}

/// Codes and their texts, of a batch of `GetInfo`.
fn pairs(batch: &RecordBatch) -> Vec<(InfoCode, String)> {
    let column = |name| batch.column_by_name(name);
    let (Some(codes), Some(values)) = (column("info_name"), column("info_value")) else {
        return Vec::new();
    };
    let (Some(codes), Some(values)) = (
        codes.as_primitive_opt::<UInt32Type>(),
        values.as_union_opt(),
    ) else {
        return Vec::new();
    };
    let pair = |row| {
        let value = values.value(row);
        let text = value.as_string_opt::<i32>()?;
        let text = (text.len() == 1 && text.is_valid(0)).then(|| text.value(0).to_owned());
        Some((codes.value(row).into(), text?))
    };
    (0..batch.num_rows()).filter_map(pair).collect()
}

fn first_row(batch: &RecordBatch) -> Result<Vec<Option<String>>> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let text = |(field, array): (&Arc<arrow_schema::Field>, _)| {
        let view = View::of(field.name(), array)?;
        if view.is_null(0) {
            return Ok(None);
        }
        Ok(Some(match &view.values {
            Values::Text(texts) => texts.value(0).to_owned(),
            Values::Int64(values) => values[0].to_string(),
            Values::Int32(values) => values[0].to_string(),
            Values::UInt64(values) => values[0].to_string(),
            _ => {
                let kind = field.data_type();
                return Err(Error::protocol(format!(
                    "an answer's first row has a {kind}"
                )));
            }
        }))
    };
    columns.map(text).collect()
}

/// One line for what a driver refused: what it was asked to do, and what it said.
fn refusal(name: &str, settings: &Settings, what: &str, said: Said) -> Error {
    let state: Vec<u8> = said.sqlstate.iter().map(|&c| c as u8).collect();
    let state = String::from_utf8(state).unwrap_or_default();
    let state = Some(state).filter(|state| state.chars().all(|c| c.is_ascii_alphanumeric()));
    let state = state.filter(|state| state != "00000");
    let refused = || REFUSALS.iter().any(|text| said.message.contains(text));
    let kind = match said.status {
        // Classes of SQLSTATE: invalid authorisation, which libpq's driver gives out as I/O.
        _ if state
            .as_deref()
            .is_some_and(|state| state.starts_with("28")) =>
        {
            Kind::Auth
        }
        Status::IO if state.is_none() && refused() => Kind::Auth,
        Status::Unauthenticated | Status::Unauthorized => Kind::Auth,
        Status::NotImplemented => Kind::Unsupported,
        Status::IO => Kind::Lost,
        Status::Timeout => Kind::Timeout,
        _ => Kind::Server,
    };
    let line = settings.cleaned(&one_line(&said.message));
    let line = match line.is_empty() {
        true => format!("{:?}, without a word", said.status),
        false => line,
    };
    let error = Error::new(kind, format!("{name}: {what}: {line}"));
    match state {
        Some(state) => error.with_code(state),
        None => error,
    }
}

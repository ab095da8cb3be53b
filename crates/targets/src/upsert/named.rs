//! What all databases ask of a spec: options, and the table's name, by which it may be dropped
//! or not.

use std::path::Path;

use serde::{Deserialize, Serialize};

use venturi_base::error::Error;
use venturi_base::spec::Data;

/// The options of every database.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Common {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    /// Statements that every connection executes when it is opened.
    pub init: Vec<String>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
        }
    }
}

impl Common {
    /// Whether the table goes when the trial is over.
    pub fn drops(&self) -> bool {
        self.setup && !self.keep
    }

    /// The table's name; where the user names none, by the data.
    pub fn table(&self, data: &Data) -> String {
        let named = self.table.clone();
        named.unwrap_or_else(|| default_name(data))
    }
}

/// How a batch becomes a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    Text,
    Prepared,
}

/// How rows get into the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// INSERT ... ON CONFLICT DO UPDATE.
    #[default]
    Upsert,
    /// By the quickest way that the database has, into a place from where the same takes them.
    Copy,
}

/// A choice as the spec writes it.
pub fn name_of(choice: &impl Serialize) -> String {
    let name = serde_json::to_value(choice).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Venturi drops tables of such names, and no others.
const OWN: &str = "venturi_";

/// Where the user names none: `venturi_usage`, or `venturi_` and the file's name.
fn default_name(data: &Data) -> String {
    let stem = match data {
        Data::File { path, .. } => Path::new(path)
            .file_stem()
            .map(|stem| stem.to_string_lossy().to_lowercase())
            .unwrap_or_default(),
        _ => "usage".to_owned(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{OWN}{}", stem.chars().map(plain).collect::<String>())
}

pub fn is_own(table: &str) -> bool {
    table.starts_with(OWN)
}

/// A table of somebody else's stands in the way.
pub fn occupied(table: &str) -> Error {
    Error::usage(format!(
        "table {table} exists already and is not Venturi's (its name does not begin with {OWN}): \
         drop it, name another by --table, or upsert into it as it is by --no-setup"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let file = |path: &str| {
            default_name(&Data::File {
                path: path.into(),
                ipc: String::new(),
            })
        };
        assert_eq!(file("/data/Sales 2026.parquet"), "venturi_sales_2026");
        assert_eq!(default_name(&Data::Remote), "venturi_usage");
        assert!(is_own("venturi_x") && !is_own("sales"));
        assert!(occupied("sales").message.contains("--no-setup"));
    }
}

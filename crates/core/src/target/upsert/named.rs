//! What all databases ask of a spec: options, and the table's name, by which it may be dropped
//! or not.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::spec::Data;

/// Options of a target, strictly; null means: the default.
pub fn read_options<T: DeserializeOwned>(
    scheme: &str,
    options: &BTreeMap<String, Value>,
) -> Result<T> {
    let given: serde_json::Map<_, _> = options
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    serde_json::from_value(Value::Object(given))
        .map_err(|error| Error::usage(format!("options of {scheme}://: {error}")))
}

/// Venturi drops tables of such names, and no others.
const OWN: &str = "venturi_";

/// Where the user names none: `venturi_usage`, or `venturi_` and the file's name.
pub fn default_name(data: &Data) -> String {
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

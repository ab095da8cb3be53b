//! Specs of trials.

use serde_json::{json, Value};
use venturi_base::spec::{TrialSpec, Upsert};

use crate::watch;

/// A trial's spec with these fields, and short ones for what they leave out: two threads, batches
/// of ten rows, data of the peer.
pub fn trial(fields: Value) -> Value {
    watch();
    let spec = json!({
        "trial": "t", "target": "test://", "operation": "get", "data": {"source": "remote"},
        "rows_per_batch": 10, "streams": 1, "threads": 2,
    });
    with(spec, fields)
}

/// A spec with these fields instead of those that it has.
pub fn with(mut spec: Value, fields: Value) -> Value {
    let (Value::Object(spec_fields), Value::Object(fields)) = (&mut spec, fields) else {
        panic!("fields of a spec are an object")
    };
    spec_fields.extend(fields);
    spec
}

pub fn parse(fields: Value) -> TrialSpec {
    TrialSpec::parse(&trial(fields).to_string()).unwrap()
}

/// Why there can be no trial with these fields.
pub fn refusal(fields: Value) -> String {
    let parsed = TrialSpec::parse(&trial(fields).to_string());
    parsed.unwrap_err().message
}

/// Columns by their roles in an upsert.
pub fn roles(key: &[&str], add: &[&str]) -> Upsert {
    let [key, add] = [key, add].map(|all| all.iter().map(|name| (*name).to_owned()).collect());
    Upsert { key, add }
}

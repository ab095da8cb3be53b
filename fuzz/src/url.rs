//! A target's URL, and in the next line its options, as a trial spec has them.

use std::sync::Arc;

use venturi_core::spec::TrialSpec;
use venturi_core::target::systems::for_spec;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (url, options) = text.split_once('\n').unwrap_or((text, ""));
    let options: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
    let spec = serde_json::json!({
        "trial": "t", "target": url, "options": options, "operation": "get",
        "data": {"source": "remote"}, "rows_per_batch": 1, "streams": 1, "threads": 1,
    });
    if let Ok(spec) = TrialSpec::parse(&spec.to_string()) {
        let _ = for_spec(Arc::new(spec));
    }
}

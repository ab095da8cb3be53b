//! A target's URL and its options, as a trial spec has them.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use venturi_core::spec::TrialSpec;
use venturi_core::target::for_spec;

fuzz_target!(|input: (&str, &str)| {
    let (url, options) = input;
    let options: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
    let spec = serde_json::json!({
        "trial": "t", "target": url, "options": options, "operation": "get",
        "data": {"source": "remote"}, "rows_per_batch": 1, "streams": 1, "threads": 1,
    });
    if let Ok(spec) = TrialSpec::parse(&spec.to_string()) {
        let _ = for_spec(Arc::new(spec));
    }
});

//! What the store tells over HTTP.

use serde_json::{json, Value};

use super::http::Request;
use super::reader::Shared;
use super::segment::metric;
use super::totals::Totals;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn empty() -> Self {
        Self {
            status: 204,
            kind: "",
            body: Vec::new(),
        }
    }

    fn json(value: &Value) -> Self {
        Self {
            status: 200,
            kind: "application/json",
            body: format!("{value}\n").into_bytes(),
        }
    }

    fn text(body: String) -> Self {
        Self {
            status: 200,
            kind: "text/plain; charset=utf-8",
            body: body.into_bytes(),
        }
    }

    /// As Influx says it.
    pub fn error(status: u16, message: String) -> Self {
        let code = if status < 500 {
            "invalid"
        } else {
            "unavailable"
        };
        let told = json!({"code": code, "error": message, "message": message});
        Self {
            status,
            ..Self::json(&told)
        }
    }
}

pub fn answer(request: &Request, shared: &Shared) -> Answer {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/stats") => Answer::json(&shared.store.statistics(&shared.heads)),
        ("GET", "/api/stored") => stored(request, shared),
        ("POST", "/api/query") => query(request, shared),
        // What Influx's clients ask before they write.
        ("GET" | "HEAD", "/ping") => Answer::empty(),
        ("GET", "/health") => Answer::json(&json!({"name": "venturi", "status": "pass"})),
        (_, "/api/seal" | "/api/stats" | "/api/stored" | "/api/query" | "/ping" | "/health") => Answer::error(
            405,
            format!("{} does not take {}", request.path, request.method),
        ),
        _ => Answer::error(
            404,
            format!(
                "no {}: there are /api/stats, /api/seal, /api/stored, /api/query, /write, /api/v2/write",
                request.path
            ),
        ),
    }
}

/// Seals everything, so that stored bytes are those of all points, and tells the statistics.
pub async fn sealed(shared: &Shared) -> Answer {
    match shared.seal().await {
        Ok(()) => Answer::json(&shared.store.statistics(&shared.heads)),
        Err(failure) => Answer::error(503, failure),
    }
}

/// Series of a metric that have points, by name.
fn series_of(wanted: &str, shared: &Shared) -> Vec<(String, Totals)> {
    let totals = shared.store.totals(&shared.heads);
    let names = shared.store.registry.names();
    let mut found: Vec<(String, Totals)> = names
        .iter()
        .zip(totals)
        .filter(|(name, totals)| totals.points > 0 && metric(name) == wanted.as_bytes())
        .map(|(name, totals)| (String::from_utf8_lossy(name).into_owned(), totals))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn stored(request: &Request, shared: &Shared) -> Answer {
    let Some(metric) = request.parameter("metric") else {
        return Answer::error(
            400,
            "which metric? /api/stored?metric=NAME[&series=1]".into(),
        );
    };
    let series = series_of(&metric, shared);
    if request
        .parameter("series")
        .is_some_and(|wanted| wanted != "0")
    {
        let mut lines = String::new();
        for (name, totals) in series {
            let mut line = totals.json();
            line["series"] = name.into();
            lines += &format!("{line}\n");
        }
        return Answer {
            kind: "application/x-ndjson",
            ..Answer::text(lines)
        };
    }
    let mut all = Totals::default();
    series.iter().for_each(|(_, totals)| all.add(totals));
    let mut told = all.json();
    told["metric"] = metric.into();
    told["series"] = series.len().into();
    Answer::json(&told)
}

/// Akumuli's count of a metric: series, stamp and count, a line each. Its errors come
/// with status 200 and a minus sign.
fn query(request: &Request, shared: &Shared) -> Answer {
    let wrong = |why: &str| Answer::text(format!("-{why}\r\n"));
    let parsed: Value = match serde_json::from_slice(&request.body) {
        Ok(parsed) => parsed,
        Err(error) => return wrong(&format!("the query is not JSON: {error}")),
    };
    let Some(asked) = parsed["aggregate"]
        .as_object()
        .filter(|asked| asked.len() == 1)
    else {
        return wrong("the only query is {\"aggregate\": {METRIC: \"count\"}}");
    };
    let mut lines = String::new();
    for (metric, function) in asked {
        if function != "count" {
            return wrong("the only aggregate is count");
        }
        for (name, totals) in series_of(metric, shared) {
            let tags = name[metric.len()..].trim_start();
            let (time, count) = (totals.last, totals.points);
            lines += &format!("+{metric}:count {tags}\r\n+{time}\r\n+{count}\r\n");
        }
    }
    Answer::text(lines)
}

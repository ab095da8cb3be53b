//! What the store tells over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{json, Value};

use super::counts::{self, Tally, Wanted};
use super::http::Request;
use super::reader::Shared;
use super::totals::Totals;
use venturi_base::codec::budget::Claim;

/// Bytes of an answer that lists series.
const MOST: usize = 64 << 20;
/// Of a series' line beside its name.
const LINE: usize = 300;

#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Room for a large body, given back with it.
    _claim: Option<Claim>,
}

impl Answer {
    pub fn empty() -> Self {
        Self {
            status: 204,
            ..Self::default()
        }
    }

    fn json(value: &Value) -> Self {
        Self {
            status: 200,
            kind: "application/json",
            body: format!("{value}\n").into_bytes(),
            _claim: None,
        }
    }

    fn text(body: String) -> Self {
        Self {
            status: 200,
            kind: "text/plain; charset=utf-8",
            body: body.into_bytes(),
            _claim: None,
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

pub async fn answer(request: Request, shared: &Arc<Shared>) -> Answer {
    match (request.asked.method.as_str(), request.asked.path.as_str()) {
        ("GET", "/api/stats") => counted(shared, statistics).await,
        ("GET", "/api/stored") => counted(shared, move |shared| stored(&request, shared)).await,
        ("POST", "/api/query") => counted(shared, move |shared| query(&request, shared)).await,
        // Seals everything, so that stored bytes are those of all points.
        ("POST", "/api/seal") => match shared.seal().await {
            Ok(()) => counted(shared, statistics).await,
            Err(failure) => Answer::error(503, failure),
        },
        // What Influx's clients ask before they write.
        ("GET" | "HEAD", "/ping") => Answer::empty(),
        ("GET", "/health") => Answer::json(&json!({"name": "venturi", "status": "pass"})),
        (_, "/api/seal" | "/api/stats" | "/api/stored" | "/api/query" | "/ping" | "/health") => Answer::error(
            405,
            format!("{} does not take {}", request.asked.path, request.asked.method),
        ),
        _ => Answer::error(
            404,
            format!(
                "no {}: there are /api/stats, /api/seal, /api/stored, /api/query, /write, /api/v2/write",
                request.asked.path
            ),
        ),
    }
}

/// What takes as long as there are points, on a thread where no connection waits for it.
async fn counted(
    shared: &Arc<Shared>,
    count: impl FnOnce(&Shared) -> Answer + Send + 'static,
) -> Answer {
    let _turn = shared.counting.acquire().await;
    let shared = shared.clone();
    let counting = tokio::task::spawn_blocking(move || count(&shared));
    let failed = |_| Answer::error(503, "the store is stopping".into());
    counting.await.unwrap_or_else(failed)
}

fn statistics(shared: &Shared) -> Answer {
    Answer::json(&shared.store.statistics(&shared.heads))
}

/// Of all series together.
fn sum_of(series: &[u32], shared: &Shared) -> Totals {
    let wanted = Wanted::new(series);
    counts::count(
        &shared.store,
        &shared.heads,
        Some(&wanted),
        |catalog, all| {
            catalog
                .of(series)
                .for_each(|(_, totals)| Totals::add(all, totals));
        },
    )
}

/// A line of each series, sorted by their names. Err: there is no room for them now, or there
/// never is.
fn lines_of(
    series: &[u32],
    shared: &Shared,
    write: impl Fn(&str, &Totals, &mut String),
) -> Result<(String, Option<Claim>), (u16, String)> {
    let mut length = 0;
    let names = shared.store.registry.names();
    for &series in series {
        length += names.get(series).len() + LINE;
        if length > MOST {
            break;
        }
    }
    drop(names);
    if length > MOST {
        let text = format!(
            "{} series have lines of more than {MOST} bytes: ask for their sum, without series=1, \
             or the sealed ones by `venturi sql`",
            series.len()
        );
        return Err((413, text));
    }
    let claim = shared.bodies.claim(2 * length);
    let claim = claim.map_err(|_| (503, super::http::BUSY.to_owned()))?;
    let wanted = Wanted::new(series);
    let found = counts::count(
        &shared.store,
        &shared.heads,
        Some(&wanted),
        |catalog, all: &mut HashMap<u32, Totals>| {
            catalog
                .of(series)
                .for_each(|(series, totals)| Tally::add(all, series, totals));
        },
    );
    // Copied: new series cannot be registered as long as names are held.
    let names = shared.store.registry.names();
    let named = |(series, totals)| (names.get(series).to_vec(), totals);
    let mut found: Vec<_> = found.into_iter().map(named).collect();
    drop(names);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut lines = String::with_capacity(length);
    for (name, totals) in found {
        write(&String::from_utf8_lossy(&name), &totals, &mut lines);
    }
    Ok((lines, claim))
}

fn stored(request: &Request, shared: &Shared) -> Answer {
    let Some(metric) = request.asked.parameter("metric") else {
        return Answer::error(
            400,
            "which metric? /api/stored?metric=NAME[&series=1]".into(),
        );
    };
    let series = counts::series_of(&shared.store, metric.as_bytes());
    let each = request.asked.parameter("series");
    if each.is_none_or(|wanted| wanted == "0") {
        let mut told = sum_of(&series, shared).json();
        told["metric"] = metric.into();
        told["series"] = series.len().into();
        return Answer::json(&told);
    }
    let lines = lines_of(&series, shared, |name, totals, lines| {
        let mut line = totals.json();
        line["series"] = name.into();
        *lines += &format!("{line}\n");
    });
    match lines {
        Ok((lines, claim)) => Answer {
            kind: "application/x-ndjson",
            _claim: claim,
            ..Answer::text(lines)
        },
        Err((status, why)) => Answer::error(status, why),
    }
}

/// Akumuli's count of a metric: series, stamp and count, a line each. What is wrong with the
/// question is answered with status 200 and a minus sign.
fn query(request: &Request, shared: &Shared) -> Answer {
    let wrong = |why: &str| Answer::text(format!("-{why}\r\n"));
    let parsed: Value = match serde_json::from_slice(&request.body) {
        Ok(parsed) => parsed,
        Err(error) => return wrong(&format!("the query is not JSON: {error}")),
    };
    let asked = parsed["aggregate"].as_object();
    let asked = asked.filter(|asked| asked.len() == 1);
    let Some((metric, function)) = asked.and_then(|asked| asked.iter().next()) else {
        return wrong("the only query is {\"aggregate\": {METRIC: \"count\"}}");
    };
    if function != "count" {
        return wrong("the only aggregate is count");
    }
    let series = counts::series_of(&shared.store, metric.as_bytes());
    let lines = lines_of(&series, shared, |name, totals, lines| {
        let tags = name.get(metric.len()..).unwrap_or_default().trim_start();
        let (time, count) = (totals.last, totals.points);
        *lines += &format!("+{metric}:count {tags}\r\n+{time}\r\n+{count}\r\n");
    });
    match lines {
        Ok((lines, claim)) => Answer {
            _claim: claim,
            ..Answer::text(lines)
        },
        // Not with a minus sign: that is also what a metric without points is answered with.
        Err((status, why)) => Answer::error(status, why),
    }
}

//! Servers that count their points when they are asked by HTTP: Akumuli, InfluxDB in its own query
//! language, QuestDB in SQL.

use std::time::Duration;

use super::post::escaped;
use serde_json::Value;
use venturi_base::codec::timeseries::Names;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{self, Client, Head, Web};
use venturi_base::limit;
use venturi_base::secrets::beginning;

const MOST_ANSWER: usize = 1 << 20;
/// Akumuli answers a count in three lines a series.
const MOST_SERIES: usize = 1 << 30;
/// Characters of a refusal that are shown.
const SHOWN: usize = 200;

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Akumuli,
    InfluxDb,
    QuestDb,
}

impl Counter {
    /// A point of the same series and time takes the place of the one that was there.
    pub fn keeps_one(self) -> bool {
        self == Self::InfluxDb
    }

    /// As it takes the names of fields and tags.
    pub fn names(self) -> Names {
        match self {
            Self::QuestDb => Names::Columns,
            _ => Names::AsTheyAre,
        }
    }

    /// Points may be counted a moment after they were taken.
    pub fn lags(self) -> bool {
        self == Self::QuestDb
    }
}

/// A server that says of itself what it is, and where it is asked.
#[derive(Debug, Clone)]
pub struct Counting {
    pub who: Counter,
    /// Name and version.
    pub software: String,
    pub web: Web,
    database: String,
    authorization: Option<String>,
}

impl Counting {
    /// `None`: what listens there is neither, or nobody does. `Elapsed`: it says nothing.
    pub async fn find(
        web: &Web,
        database: Option<&str>,
        authorization: Option<String>,
        patience: Duration,
    ) -> std::result::Result<Option<Self>, limit::Elapsed> {
        let asking = get(web, None, "/ping");
        let answer = limit::within(patience, asking).await?.ok();
        let recognised = answer.and_then(|(head, _)| recognised(|name| head.get(name)));
        let Some((who, software)) = recognised else {
            return Ok(None);
        };
        // `organisation/bucket`: to queries a bucket is a database.
        let database = database.map_or("", |it| it.rsplit('/').next().unwrap_or(it));
        let mut found = Self {
            who,
            software,
            web: web.clone(),
            database: database.to_owned(),
            authorization,
        };
        if who == Counter::QuestDb {
            if let Ok(Some(version)) = found.version().await {
                found.software = version;
            }
        }
        Ok(Some(found))
    }

    /// Points of these metrics, all series together.
    pub async fn count(&self, metrics: &[String]) -> Result<u64> {
        let mut points = 0u64;
        for metric in metrics {
            // As the writer of the lines cuts it.
            let (table, field) = metric.rsplit_once('.').unwrap_or((metric, "value"));
            let field = self.who.names().written(field);
            let counted = match self.who {
                Counter::QuestDb => self.sql_count(table, &field).await,
                _ => self.influx_count(table, &field).await,
            };
            let counted =
                counted.map_err(|error| error.context(format!("no count of {metric}")))?;
            points = points.saturating_add(counted);
        }
        Ok(points)
    }

    async fn ask(&self, path: &str) -> Result<(u16, Value)> {
        let authorization = self.authorization.as_deref();
        // A count reads all of a metric's points on some servers.
        let asking = get(&self.web, authorization, path);
        let (head, body) = limit::patient(&self.web.authority, asking).await?;
        match serde_json::from_slice(&body) {
            Ok(found) => Ok((head.status, found)),
            Err(_) => Err(self.refused(&String::from_utf8_lossy(&body))),
        }
    }

    fn refused(&self, said: &str) -> Error {
        let said = beginning(said.trim(), SHOWN);
        let text = format!("{} said: {said}", self.web.authority);
        Error::new(Kind::Server, text)
    }

    async fn influx_count(&self, measurement: &str, field: &str) -> Result<u64> {
        let quoted = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
        let query = format!(
            "SELECT count(\"{}\") FROM \"{}\"",
            quoted(field),
            quoted(measurement)
        );
        let (database, query) = (escaped(&self.database), escaped(&query));
        let (status, found) = self.ask(&format!("/query?db={database}&q={query}")).await?;
        let result = &found["results"][0];
        let error = [&found["error"], &result["error"]];
        if let Some(error) = error.into_iter().find_map(Value::as_str) {
            return Err(self.refused(error));
        }
        if status != 200 || !result.is_object() {
            return Err(self.refused(&found.to_string()));
        }
        // No series: nobody has written such a measurement yet.
        let Some(series) = result["series"].as_array() else {
            return Ok(0);
        };
        let counts = series.iter().map(|it| it["values"][0][1].as_u64());
        let counted: Option<u64> = counts.sum();
        counted.ok_or_else(|| self.refused(&found.to_string()))
    }

    async fn sql(&self, query: &str) -> Result<(u16, Value)> {
        self.ask(&format!("/exec?query={}", escaped(query))).await
    }

    async fn sql_count(&self, table: &str, column: &str) -> Result<u64> {
        let quoted = |name: &str| name.replace('"', "\"\"");
        let query = format!(
            "select count(\"{}\") from \"{}\"",
            quoted(column),
            quoted(table)
        );
        let (_, found) = self.sql(&query).await?;
        if let Some(error) = found["error"].as_str() {
            // Nobody has written such a table or column yet. QuestDB's errors have a text and a
            // place in the query, and no code.
            return match error.contains("does not exist") || error.contains("Invalid column") {
                true => Ok(0),
                false => Err(self.refused(error)),
            };
        }
        let counted = found["dataset"][0][0].as_u64();
        counted.ok_or_else(|| self.refused(&found.to_string()))
    }

    /// `QuestDB 9.2.2`, out of what it says of its build.
    async fn version(&self) -> Result<Option<String>> {
        let (_, found) = self.sql("select build").await?;
        let build = found["dataset"][0][0].as_str().unwrap_or_default();
        let at = build.find("QuestDB ");
        let named = at.and_then(|at| build[at..].split(',').next());
        Ok(named.map(|named| named.chars().take(SHOWN).collect()))
    }
}

async fn get(web: &Web, authorization: Option<&str>, path: &str) -> Result<(Head, Vec<u8>)> {
    let mut headers = vec![("Connection", "close")];
    if let Some(authorization) = authorization {
        headers.push(("Authorization", authorization));
    }
    let mut client = Client::connect(web).await?;
    client.call("GET", path, &headers, b"", MOST_ANSWER).await
}

/// By the headers of an answer to `/ping`. QuestDB tells a version of InfluxDB there too, and
/// others that take InfluxDB's lines answer as well, but name no build of it.
fn recognised<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<(Counter, String)> {
    let server = header("server").unwrap_or_default();
    if server.to_ascii_lowercase().starts_with("questdb") {
        return Some((Counter::QuestDb, "QuestDB".into()));
    }
    let version = header("x-influxdb-version")?;
    header("x-influxdb-build")?;
    let version: String = version
        .trim_start_matches('v')
        .chars()
        .take(SHOWN)
        .collect();
    Some((Counter::InfluxDb, format!("InfluxDB {version}")))
}

/// Points of these metrics by Akumuli, all series together.
pub async fn count_by_akumuli(web: &Web, metrics: &[String]) -> Result<u64> {
    let mut points = 0u64;
    for metric in metrics {
        let query = serde_json::json!({"aggregate": {metric: "count"}}).to_string();
        let answer = http1::ask(web, "POST", "/api/query", query.as_bytes(), MOST_SERIES).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let refused = || {
            let said = beginning(text.trim(), 200);
            Error::new(
                Kind::Server,
                format!("{}: no count of {metric}: {said}", web.authority),
            )
        };
        if answer.status != 200 {
            return Err(refused());
        }
        match counted(&text) {
            Some(more) => points = points.saturating_add(more),
            // A metric that nobody has written yet is an error to Akumuli.
            None if text.starts_with('-') => {}
            None => return Err(refused()),
        }
    }
    Ok(points)
}

/// Adds up what an answer says: `+metric:count tags`, a time, the count, for each series.
fn counted(answer: &str) -> Option<u64> {
    let mut lines = answer.lines().filter(|line| !line.is_empty());
    let mut points = 0u64;
    while let Some(series) = lines.next() {
        let (_time, count) = (lines.next()?, lines.next()?);
        if !series.starts_with('+') {
            return None;
        }
        let count: f64 = count.strip_prefix(['+', ':'])?.trim().parse().ok()?;
        points = points.checked_add(count as u64)?;
    }
    Some(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up() {
        let two = "+cpu.user:count host=a\r\n+20170101T000001.000000000\r\n+86400\r\n\
                   +cpu.user:count host=b\r\n+20170101T000001.000000000\r\n:14\r\n";
        assert_eq!(counted(two), Some(86_414));
        assert_eq!(counted(""), Some(0));
        assert_eq!(counted("-not found\r\n"), None);
        assert_eq!(counted("+a\r\n+b\r\n"), None);
    }

    #[test]
    fn servers_are_known_by_their_headers() {
        let of = |headers: &[(&str, &str)]| {
            let find = |name: &str| headers.iter().find(|(known, _)| *known == name);
            recognised(|name| find(name).map(|(_, value)| *value))
        };
        let influx = ("x-influxdb-version", "v2.7.4");
        let build = ("x-influxdb-build", "OSS");
        assert_eq!(
            of(&[influx, build]),
            Some((Counter::InfluxDb, "InfluxDB 2.7.4".into()))
        );
        assert_eq!(
            of(&[influx, ("server", "questDB/1.0")]),
            Some((Counter::QuestDb, "QuestDB".into()))
        );
        assert_eq!(of(&[influx]), None);
        assert_eq!(of(&[("server", "nginx")]), None);
    }
}

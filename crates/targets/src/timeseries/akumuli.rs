//! `akumuli://`: RESP over TCP, or by `akumuli+udp://` in datagrams, and Akumuli's own count of points by HTTP.

use super::options::Words;
use super::{Counts, Protocol, Transport};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{self, Web};
use venturi_base::secrets::beginning;

pub const TCP: Protocol = Protocol {
    scheme: "akumuli",
    port: 8282,
    databases: false,
    http_port: 8181,
    counting_port: 0,
    protocol: "resp",
    transport: Transport::Tcp,
    dialect: Words::Resp,
    flush: "+FLUSH\r\n",
    flushed: "+OK ",
    counts: Counts::Akumuli,
};

pub const UDP: Protocol = Protocol {
    scheme: "akumuli+udp",
    port: 8383,
    protocol: "resp-udp",
    transport: Transport::Udp,
    ..TCP
};

/// An answer to a count has three lines a series.
const MOST_ANSWER: usize = 1 << 30;

/// Points of these metrics, all series together.
pub async fn count(web: &Web, metrics: &[String]) -> Result<u64> {
    let mut points = 0u64;
    for metric in metrics {
        let query = serde_json::json!({"aggregate": {metric: "count"}}).to_string();
        let answer = http1::ask(web, "POST", "/api/query", query.as_bytes(), MOST_ANSWER).await?;
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
}

//! Requests to a server, and what it says when it refuses one.

use std::time::Duration;

use super::options::{Options, Place, SCHEME};
use venturi_base::codec::coding::Coding;
use venturi_base::codec::flight::{SAMPLE_HEADER, TRIAL_HEADER, VERIFY_HEADER};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, Head, Web};
use venturi_base::limit::{self, Elapsed};
use venturi_base::secrets::masked;
use venturi_base::spec::{TrialSpec, Verify};

/// Of an answer with an account, and with samples: eight million numbers at most.
const MOST_ANSWER: usize = 32 << 20;
const MOST_SAMPLES: usize = 256 << 20;
/// Of a refusal that is read, and the characters of it that are shown.
const MOST_REFUSAL: usize = 4 << 10;
const SHOWN: usize = 300;

/// How requests are made.
#[derive(Debug)]
pub struct Server {
    pub web: Web,
    /// Who asks.
    headers: Vec<(String, String)>,
    pub timeout: Duration,
}

impl Server {
    pub fn new(place: &Place, options: &Options, timeout: Duration) -> Result<Self> {
        Ok(Self {
            web: place.web(options)?,
            headers: options.headers()?,
            timeout,
        })
    }

    pub fn authority(&self) -> &str {
        &self.web.authority
    }

    /// A connection that ends, or is silent, before anything was said may be another protocol's.
    pub fn cut_short(&self, error: Error) -> Error {
        match error.kind {
            Kind::Lost | Kind::Timeout => {
                let message = format!(
                    "{}; is it an HTTP server, and {}",
                    error.message,
                    self.scheme_advice()
                );
                Error { message, ..error }
            }
            _ => error,
        }
    }

    fn scheme_advice(&self) -> &'static str {
        match self.web.tls {
            Some(_) => "does it speak TLS on this port?",
            None => "does it want TLS (http+arrow+tls://)?",
        }
    }

    /// Bounds a call outside of the clock.
    pub async fn within<T>(
        &self,
        what: &str,
        call: impl std::future::Future<Output = Result<T>>,
    ) -> Result<T> {
        let late = |over: Elapsed| {
            let message = format!("{}: {what}: no answer within {over}", self.authority());
            Err(Error::new(Kind::Timeout, message))
        };
        let answered = limit::within(self.timeout, call).await;
        answered.unwrap_or_else(late)
    }

    pub async fn connect(&self) -> Result<Client> {
        self.within("connecting", Client::connect(&self.web)).await
    }

    /// Who asks, and what else is to be said.
    pub fn with<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let own = self.headers.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain(more.iter().copied()).collect()
    }

    /// A question to a reference server, on a connection that is there.
    pub async fn ask_on(&self, client: &mut Client, name: &str, payload: &str) -> Result<Vec<u8>> {
        let most = match name {
            "samples" => MOST_SAMPLES,
            _ => MOST_ANSWER,
        };
        let path = format!("/.venturi/{name}");
        let headers = self.with(&[]);
        let head = client.begin("POST", &path, &headers, payload.as_bytes());
        let head = head.await?;
        if head.status != 200 {
            return Err(self.refusal(client, &head).await);
        }
        client.read_rest(most).await
    }

    /// The same on a connection of its own.
    pub async fn ask(&self, name: &str, payload: &str) -> Result<Vec<u8>> {
        let what = format!("asking the server for {name}");
        let asking = async {
            let mut client = Client::connect(&self.web).await?;
            self.ask_on(&mut client, name, payload).await
        };
        self.within(&what, asking).await
    }

    /// What a refusal says, as an error.
    pub async fn refusal(&self, client: &mut Client, head: &Head) -> Error {
        let body = client.start(MOST_REFUSAL).await.unwrap_or_default();
        self.refused(head, &body)
    }

    pub fn refused(&self, head: &Head, body: &[u8]) -> Error {
        let status = head.status;
        let kind = match status {
            401 | 403 => Kind::Auth,
            404 | 405 | 415 | 501 | 300..=399 => Kind::Unsupported,
            _ => Kind::Server,
        };
        let said = match (head.get("location"), one_line(body)) {
            (Some(place), _) if (300..400).contains(&status) => {
                let place = one_line(place.as_bytes());
                format!("what is asked for is at {place}; name that place: no redirect is followed")
            }
            (_, said) if said.is_empty() => "it does not say why".to_owned(),
            (_, said) => said,
        };
        let advice = match status {
            401 => "; give token_env, or user and password_env",
            _ => "",
        };
        let line = format!("{}: HTTP {status}: {said}{advice}", self.authority());
        Error::new(kind, line).with_code(status)
    }
}

/// What goes with a stream of the trial.
pub fn of_trial(spec: &TrialSpec) -> Vec<(&'static str, String)> {
    let verify = match spec.verify {
        Verify::Checksum => "checksum",
        Verify::Count => "count",
        Verify::None => "none",
    };
    let mut headers = vec![
        (TRIAL_HEADER, spec.trial.clone()),
        (VERIFY_HEADER, verify.to_owned()),
    ];
    // Where the clock runs already, a call of its own would be in the interval.
    if spec.include_setup && spec.sample_interval_ns > 0 {
        headers.push((SAMPLE_HEADER, spec.sample_interval_ns.to_string()));
    }
    headers
}

/// How an answer is packed, which must be what was asked for.
pub fn packed(head: &Head, asked: Coding) -> Result<Coding> {
    let name = head.get("content-encoding").unwrap_or_default();
    match Coding::of_name(name) {
        Some(coding) if coding == asked => Ok(coding),
        Some(Coding::Identity) => Err(Error::new(
            Kind::Unsupported,
            format!(
                "the server does not compress its answer with {}: leave http_compression out",
                asked.name().unwrap_or_default()
            ),
        )),
        _ => Err(Error::protocol(format!(
            "the answer comes in content-encoding {}, which was not asked for; http_compression has gzip and zstd",
            one_line(name.as_bytes())
        ))),
    }
}

/// The beginning of a text from a stranger, fit to be shown.
pub fn one_line(bytes: &[u8]) -> String {
    let text = masked(String::from_utf8_lossy(bytes).into_owned());
    let plain = text.replace(|c: char| c.is_control(), " ");
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Of a path that is not there: what might be meant.
pub fn without_path(authority: &str) -> Error {
    Error::new(
        Kind::Unsupported,
        format!(
            "{authority} is not Venturi's own server, which makes records: it gives what it has; name that in the URL: {SCHEME}://{authority}/PATH"
        ),
    )
}

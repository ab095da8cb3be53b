//! One stream over HTTP: a batch is a request, acknowledged by its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use super::options::{Options, TargetUrl};
use super::supply::{Batch, Maker};
use crate::{Moved, Session, Tally};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, Response};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::Sockets;
use venturi_base::secrets::beginning;

/// Bytes of an answer that are read; it says what is wrong, if anything is.
const MOST_ANSWER: usize = 1 << 20;
/// Characters of it that are shown.
const SHOWN: usize = 400;

/// What every request has.
#[derive(Debug)]
pub struct Head {
    pub place: String,
    /// With the database.
    pub path: String,
    pub authorization: Option<String>,
}

/// What all requests to write to one server have: with a token the second version's path, where
/// `organisation/bucket` stands for a bucket of an organisation; else the first one's.
pub fn head(authority: &str, url: &TargetUrl, options: &Options) -> Result<Head> {
    let database = url.database.as_deref().unwrap_or_default();
    let path = match (&options.token_env, database.split_once('/')) {
        (_, Some((organisation, bucket))) => format!(
            "/api/v2/write?org={}&bucket={}&precision=ns",
            escaped(organisation),
            escaped(bucket)
        ),
        (Some(_), None) => format!("/api/v2/write?bucket={}&precision=ns", escaped(database)),
        (None, None) => format!("/write?db={}&precision=ns", escaped(database)),
    };
    Ok(Head {
        place: authority.to_owned(),
        path,
        authorization: options.authorization()?,
    })
}

pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

type Call = Pin<Box<dyn Future<Output = (Box<Client>, Batch, Result<Response>)>>>;

enum State {
    Idle(Box<Client>, Batch),
    Busy(Call),
    Gone,
}

pub struct Posts {
    state: State,
    head: Arc<Head>,
    maker: Maker,
    tally: Tally,
}

impl Posts {
    pub fn new(mut client: Client, sockets: &Arc<Sockets>, head: Arc<Head>, maker: Maker) -> Self {
        client.watch(sockets);
        Self {
            state: State::Idle(Box::new(client), Batch::default()),
            head,
            maker,
            tally: Tally::default(),
        }
    }

    fn place(&self) -> String {
        format!(
            "{}: after {} points had been acknowledged",
            self.head.place, self.tally.rows
        )
    }

    /// Begins the next request; false: there is none.
    fn poll_begin(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<bool>> {
        let State::Idle(_, batch) = &mut self.state else {
            return Poll::Ready(Ok(!matches!(self.state, State::Gone)));
        };
        if !ready!(self.maker.poll_next(batch, cx, clock))? {
            return Poll::Ready(Ok(false));
        }
        let State::Idle(mut client, batch) = std::mem::replace(&mut self.state, State::Gone) else {
            return Poll::Ready(Ok(false));
        };
        let head = self.head.clone();
        self.state = State::Busy(Box::pin(async move {
            let mut headers = vec![("Content-Type", "text/plain; charset=utf-8")];
            if let Some(authorization) = &head.authorization {
                headers.push(("Authorization", authorization));
            }
            let body = batch.text.bytes();
            let answer = client
                .call("POST", &head.path, &headers, body, MOST_ANSWER)
                .await
                .map(|(head, body)| Response {
                    status: head.status,
                    body,
                });
            (client, batch, answer)
        }));
        Poll::Ready(Ok(true))
    }

    fn refused(&self, answer: &Response) -> Error {
        let text = String::from_utf8_lossy(&answer.body);
        let text = beginning(text.trim(), SHOWN);
        let kind = match answer.status {
            401 | 403 => Kind::Auth,
            _ => Kind::Server,
        };
        let message = format!(
            "{}, the server said {}: {text}",
            self.place(),
            answer.status
        );
        Error::new(kind, message).with_code(answer.status)
    }
}

impl Session for Posts {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if !ready!(self.poll_begin(cx, clock))? {
            return Poll::Ready(Ok(None));
        }
        let State::Busy(call) = &mut self.state else {
            let gone = Error::new(Kind::Internal, "no request is in flight");
            return Poll::Ready(Err(gone));
        };
        let answer = call.as_mut().poll(cx);
        clock.mark(Stage::Send);
        if answer.is_pending() {
            clock.wait(Stage::AwaitReply);
        }
        let (client, mut batch, answer) = ready!(answer);
        self.tally.wire_bytes = client.carried();
        let done = match answer {
            Err(error) => Err(error.context(self.place())),
            Ok(answer) if !(200..300).contains(&answer.status) => Err(self.refused(&answer)),
            Ok(_) => Ok(Some(batch.done(&mut self.tally))),
        };
        self.state = State::Idle(client, batch);
        Poll::Ready(done)
    }

    fn is_spent(&self) -> bool {
        self.maker.is_spent()
    }

    fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocols::INFLUX_HTTP;
    use super::*;

    #[test]
    fn paths() {
        let path = |url: &str, token: bool| {
            let options = Options {
                token_env: token.then(|| "PATH".to_owned()),
                ..Options::default()
            };
            let url = TargetUrl::parse(url, &INFLUX_HTTP).unwrap();
            head(&url.hosts[0].authority(), &url, &options).unwrap()
        };
        let plain = path("influx+http://h/d b", false);
        assert_eq!(plain.path, "/write?db=d%20b&precision=ns");
        assert_eq!(
            (plain.place.as_str(), plain.authorization),
            ("h:8086", None)
        );
        let token = path("influx+http://h:1/d", true);
        assert_eq!(token.path, "/api/v2/write?bucket=d&precision=ns");
        assert!(token.authorization.unwrap().starts_with("Token /"));
        let both = path("influx+http://h/o/b/", false).path;
        assert_eq!(both, "/api/v2/write?org=o&bucket=b&precision=ns");
        assert!(TargetUrl::parse("influx+http://h", &INFLUX_HTTP).is_err());
    }
}

//! Before the clock starts: who the server is and which version it speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::channel::{no_ring, server_error, Channel};
use super::options::{parse_url, Options};
use super::{values_name, Charrow};
use crate::flight::Address;
use crate::systems::Answer;
use crate::LocalFuture;
use venturi_base::codec::charrow::handshake::{pairs_by_key, Parameters, Request};
use venturi_base::codec::charrow::receive::Event;
use venturi_base::codec::charrow::ring;
use venturi_base::codec::charrow::{EXTENDED, PLAIN};
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit::{self, Elapsed};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::os::machine::Place;
use venturi_base::spec::{Data, Values};

/// A server of 1.1 does not answer a handshake. After this time a server that is still silent is sent a query,
/// and its first message decides which version it speaks, whenever it comes. The time decides nothing: servers
/// of 1.2, which say Hello at once, are spared the query.
const UNTIL_QUERY: Duration = Duration::from_millis(100);
/// A query that any server answers, by rows or by an error.
const ANY_QUERY: &str = "SELECT 1";

/// The query of made records.
pub fn records_query(
    columns: usize,
    values: Values,
    seed: u64,
    block_rows: usize,
    rows: Option<u64>,
) -> String {
    let rows = rows.map_or(String::new(), |rows| format!("rows = {rows}, "));
    format!(
        "SELECT * FROM records({rows}columns = {columns}, values = {}, seed = {seed}, block_rows = {block_rows})",
        values_name(values)
    )
}

/// How a server begins.
struct Greeting {
    first: FirstMessage,
    /// Whether a query was on its way by then, which the message may answer.
    after_query: bool,
}

enum FirstMessage {
    Hello(BTreeMap<String, String>),
    /// Of a result: the server speaks 1.1.
    Schema,
    /// An error, of the server or of the connection.
    Error(Error),
}

impl Greeting {
    /// The error of a server that refuses 1.1 too; an error that answers the query is no refusal. `extended`:
    /// how the server began when it was offered 1.2.
    fn refusal(&self, extended: Option<&Greeting>) -> Option<Error> {
        let FirstMessage::Error(error) = &self.first else {
            return None;
        };
        let answers_query = self.after_query && is_refusal(error);
        let repeated = extended.is_some_and(|extended| match &extended.first {
            FirstMessage::Error(first) => !extended.after_query && first.message == error.message,
            _ => false,
        });
        (!answers_query || repeated).then(|| error.clone())
    }
}

impl Charrow {
    /// Finds out who answers, and warms it up.
    pub(super) async fn first_contact(&mut self) -> Result<()> {
        let authority = self.place.address.authority();
        self.encoders = self.options.encoders()?.unwrap_or(1);
        self.identity.address = authority.clone();
        let (mut channel, hello, busy) = self.greeted_channel().await?;
        self.identity.route = channel.route();
        self.minor = match hello {
            Some(_) => EXTENDED,
            None => PLAIN,
        };
        self.identity.protocol = format!("1.{}", self.minor);
        match hello {
            Some(hello) => {
                self.know(&hello)?;
                if self.asks.contains("clock") && !self.spec.include_setup {
                    let trips = async {
                        if busy {
                            channel = self.asking().await?;
                        }
                        round_trip(&mut channel).await
                    };
                    self.identity.round_trip_ns =
                        answered(self.within("first contact", trips).await)?;
                }
            }
            None => self.settle_for_plain()?,
        }
        if self.identity.same_machine.is_none() {
            self.guess(&channel);
        }
        // Its ring is room that the trial's may need.
        drop(channel);
        // The server's side, so once for all that share the trial.
        if !self.spec.leads() {
            return Ok(());
        }
        match self.spec.data {
            Data::Records {
                columns,
                values,
                seed,
            } => {
                let rows = self.spec.rows_per_batch;
                let query = records_query(columns, values, seed, rows, Some(rows as u64));
                self.warm_up(query).await
            }
            // Where the clock runs already, the query may as well do it itself.
            _ if self.asks.contains("prepare") && !self.spec.include_setup => self.prepare().await,
            _ => Ok(()),
        }
    }

    /// Lets the server make what it will hand out again and again.
    async fn prepare(&self) -> Result<()> {
        let asking = self.ask("prepare", &self.query);
        // What is wrong with a query it says when it is asked.
        let what = format!("{}: preparing the query", self.place.address.authority());
        answered(limit::patient(what, asking).await).map(drop)
    }

    /// A connection to the server, its Hello unless it speaks 1.1, and whether an answer is still to come over
    /// that connection.
    async fn greeted_channel(&self) -> Result<(Channel, Option<BTreeMap<String, String>>, bool)> {
        let wanted = self.options.minor()?;
        let (mut channel, mut greeting) = self.greet(wanted).await?;
        let mut extended = None;
        if wanted == EXTENDED
            && !self.place.shared // of which 1.1 has nothing
            && matches!(greeting.first, FirstMessage::Error(ref error) if error.kind != Kind::Auth)
        {
            extended = Some(greeting);
            (channel, greeting) = self.greet(PLAIN).await?;
        }
        let refusal = match (&greeting.first, self.place.shared) {
            (FirstMessage::Error(error), true) => Some(error.clone()),
            _ => greeting.refusal(extended.as_ref()),
        };
        if let Some(error) = refusal {
            let authority = self.place.address.authority();
            return Err(match error.message.starts_with(&authority) {
                true => error,
                false => error.context(&authority),
            });
        }
        let hello = match greeting.first {
            FirstMessage::Hello(hello) => Some(hello),
            _ => None,
        };
        Ok((channel, hello, greeting.after_query))
    }

    async fn greet(&self, minor: i64) -> Result<(Channel, Greeting)> {
        let parameters = Parameters {
            // Whether there is any: no more than that is to be seen.
            ring: self.options.ring(&self.place)?.map(|_| ring::SMALLEST),
            ..Parameters::default()
        };
        let mut channel = self.channel(minor, &parameters).await?;
        let mut greeting = match minor {
            // The clock runs already, and a question would be in the interval: the partitions hear what is wrong.
            PLAIN if self.spec.include_setup => Greeting {
                first: FirstMessage::Schema,
                after_query: false,
            },
            _ => {
                let greeting = greeting(&mut channel, minor, &self.spec.trial);
                let greeting = limit::within(self.timeout(), greeting).await;
                greeting.map_err(|over| self.no_answer(over))?
            }
        };
        if let FirstMessage::Error(error) = greeting.first {
            greeting.first = FirstMessage::Error(first_words(error, &self.place.address));
        }
        Ok((channel, greeting))
    }

    fn no_answer(&self, over: Elapsed) -> Error {
        Error::new(
            Kind::Timeout,
            format!(
                "{}: no answer within {over}, neither to the handshake nor to a query",
                self.place.address.authority(),
            ),
        )
    }

    fn know(&mut self, hello: &BTreeMap<String, String>) -> Result<()> {
        let said = |key: &str| {
            hello
                .get(key)
                .map(String::as_str)
                .filter(|text| !text.is_empty())
        };
        self.asks = asks(hello);
        let identity = &mut self.identity;
        identity.reference = ["account", "watch", "samples"]
            .iter()
            .all(|name| self.asks.contains(*name));
        identity.samples_itself = identity.reference;
        identity.software = said("software").map(str::to_owned);
        identity.handicap = said("handicap").map(str::to_owned);
        identity.runs_at(&Place {
            boot_id: said("boot_id").map(str::to_owned),
            pid: said("pid").and_then(|pid| pid.parse().ok()),
            pid_namespace: said("pid_namespace").unwrap_or_default().to_owned(),
            time_namespace: said("time_namespace").unwrap_or_default().to_owned(),
        });
        if self.options.encoders()?.is_none() {
            let cpus = said("cpus").and_then(|cpus| cpus.parse().ok());
            self.encoders = cpus
                .unwrap_or(1)
                .clamp(1, venturi_base::codec::charrow::MOST_ENCODERS);
        }
        Ok(())
    }

    /// A server of 1.1 has less.
    fn settle_for_plain(&self) -> Result<()> {
        if self.place.shared {
            return Err(no_ring().context(self.place.address.authority()));
        }
        if self.options.compression()? != Compression::None || self.options.checksum {
            return Err(Error::usage(format!(
                "{} speaks 1.1, which has neither compression nor checksums: leave the options out",
                self.place.address.authority()
            )));
        }
        Ok(())
    }

    /// Where a server does not say which process it is, who listens here tells.
    fn guess(&mut self, channel: &Channel) {
        let route = self.identity.route.filter(|route| is_own(route.peer.ip()));
        self.identity = std::mem::take(&mut self.identity).beside(channel.neighbour());
        if let Some(route) = route {
            self.identity.same_machine = Some(true);
            self.identity.pid = pid_of(route.peer);
        }
    }

    /// One block: the server has made the rows when the clock starts, and knows how to.
    async fn warm_up(&self, query: String) -> Result<()> {
        let parameters = Parameters {
            trial: None,
            partition: None,
            partitions: Some(1),
            ring: None,
            ..self.parameters(0)?
        };
        let warming = async {
            let mut channel = self.channel(self.minor, &parameters).await?;
            channel.say(&Request::Query {
                id: format!("{}/warm-up", self.query_id),
                text: query,
            });
            loop {
                match channel.event().await? {
                    Event::End => return Ok(()),
                    Event::Error(text) => return Err(server_error(&text)),
                    _ => {}
                }
            }
        };
        self.within("warming up", warming).await
    }
}

/// How a server begins after a handshake of this version, whenever that is.
async fn greeting(channel: &mut Channel, minor: i64, trial: &str) -> Greeting {
    let early = match minor {
        EXTENDED => tokio::time::timeout(UNTIL_QUERY, channel.event())
            .await
            .ok(),
        _ => None,
    };
    let after_query = early.is_none();
    let event = match early {
        Some(event) => event,
        None => {
            channel.say(&Request::Query {
                id: format!("{}/version", super::run_of(trial)),
                text: ANY_QUERY.to_owned(),
            });
            channel.event().await
        }
    };
    let first = match event {
        Ok(Event::Hello(text)) if minor == EXTENDED => FirstMessage::Hello(pairs_by_key(&text)),
        Ok(Event::Schema(_)) if after_query => FirstMessage::Schema,
        Ok(Event::Error(text)) => FirstMessage::Error(server_error(&text)),
        Ok(_) => FirstMessage::Error(Error::protocol(
            "the server answers a handshake by something else",
        )),
        Err(error) => FirstMessage::Error(error),
    };
    Greeting { first, after_query }
}

/// The first exchange with a server that is something else fails in odd ways.
fn first_words(mut error: Error, address: &Address) -> Error {
    if matches!(error.kind, Kind::Lost | Kind::Protocol) {
        let question = match address.tls {
            true => "is it a charrow server, and does it want a client certificate (tls_certificate, tls_key)?".to_owned(),
            false => address.doubt("a charrow server", "charrow"),
        };
        error.kind = Kind::Protocol;
        error.message = format!("{}; {question}", error.message);
    }
    error
}

/// The questions that a server answers.
pub fn asks(hello: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = hello.get("asks").map_or("", String::as_str).split(',');
    names.map(|name| name.trim().to_owned()).collect()
}

/// What the server itself answers in place of an answer.
pub fn is_refusal(error: &Error) -> bool {
    error.kind == Kind::Server
}

/// A server may refuse any question, and is measured without the answer.
pub fn answered<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lesser of two, in ns.
async fn round_trip(channel: &mut Channel) -> Result<u64> {
    let mut least = Duration::MAX;
    for _ in 0..2 {
        let begun = Instant::now();
        ask(channel, "clock", "").await?;
        least = least.min(begun.elapsed());
    }
    Ok(least.as_nanos() as u64)
}

/// The server's first words: before them it is asked nothing that is of 1.2.
pub async fn hello(channel: &mut Channel) -> Result<BTreeMap<String, String>> {
    match channel.event().await? {
        Event::Hello(text) => Ok(pairs_by_key(&text)),
        Event::Error(text) => Err(server_error(&text)),
        _ => Err(Error::protocol(
            "the server's first message is not its Hello",
        )),
    }
}

/// A question to a server that has said Hello, and its answer.
pub async fn ask(channel: &mut Channel, name: &str, payload: &str) -> Result<Vec<u8>> {
    channel.say(&Request::Ask {
        name: name.to_owned(),
        payload: payload.to_owned(),
    });
    match channel.event().await? {
        Event::Answer(bytes) => Ok(bytes),
        Event::Error(text) => Err(server_error(&text)),
        _ => Err(Error::protocol(format!(
            "the server answers the question {name:?} by something else than Answer"
        ))),
    }
}

/// A question outside of any trial, to a server that answers it.
pub fn ask_once<'a>(
    url: &'a str,
    options: &'a BTreeMap<String, Value>,
    name: &'a str,
) -> LocalFuture<'a, Answer> {
    Box::pin(ask_in_time(url, options, name))
}

async fn ask_in_time(url: &str, options: &BTreeMap<String, Value>, name: &str) -> Answer {
    const PATIENCE: Duration = Duration::from_secs(10);
    let place = parse_url(url)?;
    let options = Options::parse(options)?;
    let host = place.address.to_host();
    let parameters = Parameters::default();
    let dial = || Channel::open(&place, &options, EXTENDED, &parameters, 1, PATIENCE);
    let asking = async {
        let mut channel = dial().await?;
        let greeting = greeting(&mut channel, EXTENDED, name).await;
        let pairs = match greeting.first {
            FirstMessage::Hello(pairs) => pairs,
            FirstMessage::Error(error) if !(greeting.after_query && is_refusal(&error)) => {
                return Err(error)
            }
            _ => return Ok(None),
        };
        if !asks(&pairs).contains(name) {
            return Ok(None);
        }
        if greeting.after_query {
            channel = dial().await?;
            hello(&mut channel).await?;
        }
        ask(&mut channel, name, "").await.map(Some)
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => Ok(answer?.map(|bytes| (host, bytes))),
        Err(_) => Err(Error::new(
            Kind::Timeout,
            format!("{}: no answer to {name:?}", place.address.authority()),
        )),
    }
}

//! One connection: its requests, one after the other, on one thread.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::get::Get;
use super::put::Put;
use super::request::{reading, Place};
use crate::account::{Counted, Spent, ThreadCpu, Trial};
use crate::admission::{Activity, Slot};
use crate::rows::Sink;
use crate::shell::{Service, GRACE};
use crate::state::State;
use venturi_base::codec::flight::{SAMPLE_HEADER, TRIAL_HEADER, VERIFY_HEADER};
use venturi_base::error::{Error, Result};
use venturi_base::http1::server::{head, Length, Next, Refusal, Request};
use venturi_base::http1::Connection;
use venturi_base::meter::clock::StageClock;

/// How long a connection may be silent between two requests.
const IDLE: Duration = Duration::from_secs(120);
/// How long a client that was refused may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long one that makes room may take for it.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Bytes of a question.
const MOST_QUESTION: usize = 64 << 10;

/// What becomes of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoesOn,
    Closes,
    /// The client is gone, or was told what cannot be taken back.
    Broken,
}

pub(super) async fn serve(
    socket: socket2::Socket,
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
    slot: Slot,
) {
    let Some(wire) = state.wire(socket, acceptor, &slot).await else {
        return;
    };
    let connection = Connection::new(wire.peer(), wire);
    let slot = Rc::new(slot);
    let full = slot.refusal.clone();
    let mut client = Client {
        connection,
        state,
        slot: slot.clone(),
        has_trial: false,
    };
    loop {
        let idle = match full {
            Some(_) => client.state.patience,
            None => IDLE,
        };
        let said = tokio::time::timeout(idle, client.connection.wait_for_request());
        let said = tokio::select! {
            biased;
            said = said => said.unwrap_or(false),
            () = slot.evicted() => return client.evict().await,
            _ = stopped.changed() => false,
        };
        if !said {
            return;
        }
        client.set_activity(Activity::Incomplete);
        let patience = client.state.patience;
        let next = tokio::select! {
            biased;
            next = tokio::time::timeout(patience, client.connection.request()) => next,
            () = slot.evicted() => return client.evict().await,
        };
        let late = |_| Next::Refused(Refusal::new(408, "the request did not come to its end"));
        let then = match next.unwrap_or_else(late) {
            Next::Gone => Then::Broken,
            Next::Refused(refusal) => {
                client.refuse(&refusal).await;
                Then::Closes
            }
            Next::Request(_) if full.is_some() => {
                let why = full.unwrap_or_default();
                client.refuse(&Refusal::new(503, why)).await;
                return client.leave().await;
            }
            Next::Request(request) => {
                if let Length::Nothing = request.length {
                    client.set_activity(Activity::Protected);
                }
                tokio::select! {
                    biased;
                    then = client.serve(request) => then,
                    () = slot.evicted() => return client.evict().await,
                    () = end_of(&mut stopped) => Then::Broken,
                }
            }
        };
        match then {
            Then::GoesOn => client.set_activity(Activity::Idle),
            Then::Closes => return client.leave().await,
            Then::Broken => return,
        }
    }
}

/// When the server stops, and has waited a moment for what runs.
async fn end_of(stopped: &mut watch::Receiver<bool>) {
    if stopped.changed().await.is_ok() {
        tokio::time::sleep(GRACE).await;
    }
}

struct Client {
    connection: Connection,
    state: Arc<State>,
    slot: Rc<Slot>,
    /// It has named one.
    has_trial: bool,
}

impl Client {
    fn set_activity(&self, activity: Activity) {
        self.slot.set_activity(match self.has_trial {
            true => Activity::Protected,
            false => activity,
        });
    }

    async fn serve(&mut self, request: Request) -> Then {
        let closes = request.closes;
        let then = match self.answer(&request).await {
            Ok(then) => then,
            Err(refusal) => {
                self.refuse(&refusal).await;
                // It may have had no leave to send the body that it speaks of.
                match request.expects {
                    true => Then::Closes,
                    false => Then::GoesOn,
                }
            }
        };
        match then {
            // Bytes of a body that nobody has read are no request.
            Then::GoesOn if closes || !self.connection.is_complete() => Then::Closes,
            then => then,
        }
    }

    async fn answer(&mut self, request: &Request) -> std::result::Result<Then, Refusal> {
        if let Some(token) = &self.state.token {
            let given = request.fields.get("authorization");
            if !token.admits(given) {
                let why = match given {
                    None => "this server wants a token",
                    Some(_) => "the token is wrong",
                };
                return Err(Refusal::new(401, why));
            }
        }
        match (request.method.as_str(), Place::of(request)) {
            ("GET" | "POST", Place::Question(name)) => self.question(request, &name).await,
            ("GET", Place::Root) => {
                let tables = self.state.store.tables();
                let tables: Vec<_> = tables
                    .iter()
                    .map(|(path, table)| json!({"path": path, "rows": table.rows}))
                    .collect();
                let text = json!({ "tables": tables }).to_string();
                Ok(self.tell(text.as_bytes()).await)
            }
            ("GET", Place::Table(table)) => Ok(self.get(request, &table).await?),
            ("PUT" | "POST", Place::Root) => self.put(request, Sink::Discard).await,
            ("PUT" | "POST", Place::Table(table)) => {
                let sink = Sink::keep(&self.state.store, table)?;
                self.put(request, sink).await
            }
            ("DELETE", Place::Table(table)) => {
                self.state.store.drop_table(&table)?;
                Ok(self.tell(b"{}").await)
            }
            (method, _) => {
                let method: String = method.chars().take(40).collect();
                let path: String = request.path.chars().take(80).collect();
                let why = format!("{path} does not take {method}");
                Err(Refusal::new(405, why))
            }
        }
    }

    async fn question(
        &mut self,
        request: &Request,
        name: &str,
    ) -> std::result::Result<Then, Refusal> {
        if request.expects {
            let _ = self.connection.go_on().await;
        }
        let body = self.connection.body(MOST_QUESTION);
        let body = tokio::time::timeout(self.state.patience, body).await;
        let late = |_| Err(Refusal::new(408, "the request did not come to its end"));
        let body = body.unwrap_or_else(late)?;
        self.set_activity(Activity::Protected);
        let payload = String::from_utf8_lossy(&body);
        let answer = match name {
            "hello" => self.state.hello(),
            "statistics" => self.state.statistics().to_string().into_bytes(),
            "drop" => {
                // One that is gone already is no error.
                let _ = self.state.store.drop_table(&payload);
                b"{}".to_vec()
            }
            _ => {
                let route = self.connection.wire().route();
                let answer = self.state.answer(name, &payload, route).await?;
                let name: String = name.chars().take(40).collect();
                let nothing = || Refusal::new(404, format!("nobody can ask for {name:?}"));
                answer.ok_or_else(nothing)?
            }
        };
        Ok(self.tell(&answer).await)
    }

    /// A stream that belongs to a trial is accounted for.
    fn trial(&mut self, request: &Request) -> Option<Trial> {
        let id = request.fields.get(TRIAL_HEADER)?;
        self.has_trial = true;
        self.set_activity(Activity::Protected);
        let accounts = &self.state.accounts;
        let interval = request.fields.get(SAMPLE_HEADER);
        if let Some(interval) = interval.and_then(|interval| interval.parse().ok()) {
            let route = self.connection.wire().route();
            accounts.watch.open(id, interval, route);
        }
        let trial = Trial {
            id: id.to_owned(),
            checksum: request.fields.get(VERIFY_HEADER) == Some("checksum"),
            stop: accounts.begin(id),
        };
        if let Some(sockets) = accounts.watch.sockets(id) {
            self.connection.watch(&sockets);
        }
        Some(trial)
    }

    async fn get(&mut self, request: &Request, table: &str) -> Result<Then> {
        let reading = reading(&self.state, request, table)?;
        let mut get = Get::new(&self.state.store, reading, request)?;
        let trial = self.trial(request);
        get.rows.trial.clone_from(&trial);
        self.state.totals.gets.fetch_add(1, Ordering::Relaxed);
        let cpu = ThreadCpu::now();
        let mut clock = StageClock::start();
        let sent = get
            .send(&mut self.connection, &self.state.handicap, &mut clock)
            .await;
        let counted = get.rows.counted;
        self.state.totals.count_sent(&counted);
        self.settle(trial, counted, cpu, &mut clock);
        Ok(match sent {
            Ok(()) if get.closes() => Then::Closes,
            Ok(()) => Then::GoesOn,
            // Cut off, so that nobody takes it for the whole.
            Err(_) => Then::Broken,
        })
    }

    async fn put(&mut self, request: &Request, sink: Sink) -> std::result::Result<Then, Refusal> {
        let mut put = Put::new(&self.state, request, sink)?;
        if request.expects && self.connection.go_on().await.is_err() {
            return Ok(Then::Broken);
        }
        let trial = self.trial(request);
        put.rows.trial.clone_from(&trial);
        self.state.totals.puts.fetch_add(1, Ordering::Relaxed);
        let cpu = ThreadCpu::now();
        let mut clock = StageClock::start();
        let taken = put
            .receive(&mut self.connection, &self.state, &self.slot, &mut clock)
            .await;
        let counted = put.rows.counted;
        self.state.totals.count_received(&counted);
        let kept = taken.and_then(|()| Ok(put.end(&self.state.store)?));
        self.settle(trial, counted, cpu, &mut clock);
        kept?;
        let answer = json!({
            "rows": counted.rows,
            "batches": counted.batches,
            "payload_bytes": counted.payload,
        });
        Ok(self.tell(answer.to_string().as_bytes()).await)
    }

    fn settle(
        &self,
        trial: Option<Trial>,
        counted: Counted,
        before: ThreadCpu,
        clock: &mut StageClock,
    ) {
        let Some(trial) = trial else { return };
        let stages = clock.take();
        let time = Duration::from_nanos(stages.total());
        let spent = Spent::of_worker(stages, time, before);
        self.state.accounts.end(&trial.id, counted, spent);
    }

    async fn tell(&mut self, json: &[u8]) -> Then {
        let sent = self.say(200, "application/json", json).await;
        sent.map_or(Then::Broken, |()| Then::GoesOn)
    }

    async fn refuse(&mut self, refusal: &Refusal) {
        let text = format!("{}\n", refusal.why);
        let kind = "text/plain; charset=utf-8";
        let _ = self.say(refusal.status, kind, text.as_bytes()).await;
    }

    async fn say(&mut self, status: u16, kind: &str, body: &[u8]) -> Result<()> {
        let length = body.len().to_string();
        let mut headers = vec![("Content-Type", kind), ("Content-Length", length.as_str())];
        if status == 401 {
            headers.push(("WWW-Authenticate", "Bearer"));
        }
        let answer = [&head(status, &headers), body].concat();
        let late = |_| Err(Error::protocol("the answer is not taken"));
        tokio::time::timeout(self.state.patience, self.connection.say(&answer))
            .await
            .unwrap_or_else(late)
    }

    /// Says why, as far as the socket takes it at once.
    async fn evict(mut self) {
        let farewell = async {
            let why = Refusal::new(503, self.slot.why());
            self.refuse(&why).await;
            poll_fn(|cx| self.connection.poll_shutdown(cx)).await;
        };
        let _ = tokio::time::timeout(AT_ONCE, farewell).await;
    }

    /// Closes; takes what is in flight meanwhile, and throws it away: a reset at once could overtake
    /// the answer.
    async fn leave(mut self) {
        let farewell = async {
            poll_fn(|cx| self.connection.poll_shutdown(cx)).await;
            while self.connection.dropped().await {}
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

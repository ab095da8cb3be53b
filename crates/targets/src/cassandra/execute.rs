//! Statements on their way: a stream's connections and the lanes that share them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use scylla::errors::DbError;

use super::errors::{self, Written};
use super::frame::Request;
use super::limits::Limits;
use super::link::{Call, Link, Reply};
use super::statement::{Shape, Statement};
use crate::upsert::{self, Executing};
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::clock::Stage;

/// How often a statement that the server has forgotten is prepared again for one batch.
pub const MOST_PREPARED: usize = 2;

pub struct Stream {
    /// One to each node, as the cluster lists them; `None`: it cannot be reached.
    pub links: Vec<Option<Rc<Link>>>,
    pub shape: Arc<Shape>,
    pub limits: Arc<Limits>,
    /// For error lines.
    pub place: String,
    /// Nodes that would do as well as others take turns.
    turn: Cell<usize>,
}

impl Stream {
    pub fn new(
        links: Vec<Option<Rc<Link>>>,
        shape: Arc<Shape>,
        limits: Arc<Limits>,
        place: &str,
    ) -> Self {
        Self {
            links,
            shape,
            limits,
            place: place.to_owned(),
            turn: Cell::new(0),
        }
    }

    /// A node that has the row, else any that is there.
    fn choose(&self, replicas: &[u16]) -> Option<&Rc<Link>> {
        let there = |at: usize| self.links.get(at)?.as_ref().filter(|link| !link.is_lost());
        if let [Some(link)] = &self.links[..] {
            return (!link.is_lost()).then_some(link);
        }
        let turn = self.turn.replace(self.turn.get().wrapping_add(1));
        order(replicas, self.links.len(), turn).find_map(there)
    }

    /// An answer to any request, on whichever connection.
    pub async fn ask(&self, lane: usize, request: Request) -> Reply {
        match self.choose(&[]) {
            Some(link) => link.ask(lane, Call::Other(Arc::new(request))).await,
            None => Reply::Lost("there is no connection".to_owned()),
        }
    }

    /// A statement that is not of the trial itself.
    pub async fn run(&self, link: &Rc<Link>, text: &str) -> Result<()> {
        let request = Request::query(text, self.shape.consistency);
        match link.ask(0, Call::Other(Arc::new(request))).await {
            Reply::Done => Ok(()),
            reply => self.outcome(reply, Written::default()),
        }
    }

    async fn call(&self, lane: usize, call: &Arc<upsert::Prepared<Statement>>) -> Result<()> {
        let Some(link) = self.choose(&call.statement.replicas) else {
            // Nothing was sent, so nothing can have been applied.
            let rows = call.rows;
            let message = format!("{}: the connection is gone", self.place);
            return Err(Error::new(Kind::Lost, message).with_fate(Fate::Refused { rows }));
        };
        match link.ask(lane, Call::Batch(call.clone())).await {
            Reply::Done => Ok(()),
            reply => Box::pin(self.look_at(reply, link, lane, call)).await,
        }
    }

    /// Anything but the usual answer.
    async fn look_at(
        &self,
        mut reply: Reply,
        link: &Rc<Link>,
        lane: usize,
        call: &Arc<upsert::Prepared<Statement>>,
    ) -> Result<()> {
        for _ in 0..MOST_PREPARED {
            let Some(text) = self.forgotten(&reply) else {
                break;
            };
            let again = Call::Other(Arc::new(Request::prepare(text)));
            reply = match link.ask(lane, again).await {
                Reply::Done => link.ask(lane, Call::Batch(call.clone())).await,
                other => other,
            };
        }
        let written = Written {
            rows: call.rows,
            whole: self.shape.is_whole(call.statement.rows),
        };
        let too_large = is_too_large(&reply);
        match self.outcome(reply, written) {
            Err(said) if too_large => {
                Err(self.limits.explain(self, lane, &call.statement, said).await)
            }
            outcome => outcome,
        }
    }

    /// The text of a statement that the server no longer knows.
    fn forgotten(&self, reply: &Reply) -> Option<&str> {
        match reply {
            Reply::Said(answer) => match &answer.refusal.as_ref()?.error {
                DbError::Unprepared { statement_id } => self.shape.text(statement_id),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn outcome(&self, reply: Reply, written: Written) -> Result<()> {
        let place = &self.place;
        match reply {
            Reply::Done => Ok(()),
            Reply::Said(answer) => {
                self.limits.note(answer.warnings.iter().map(String::as_str));
                match answer.refusal {
                    None => Ok(()),
                    Some(refusal) => Err(errors::of_server(
                        place,
                        &refusal.error,
                        &refusal.reason,
                        written,
                    )),
                }
            }
            Reply::Late(after) => Err(errors::late(place, after, written)),
            Reply::Lost(why) => Err(errors::broken(place, &why)),
        }
    }
}

/// Nodes that have a row in turn, then all.
pub fn order(replicas: &[u16], nodes: usize, turn: usize) -> impl Iterator<Item = usize> + '_ {
    let near = (0..replicas.len())
        .map(move |next| replicas[(turn % replicas.len() + next) % replicas.len()]);
    let any = (0..nodes).map(move |next| (turn % nodes + next) % nodes);
    near.map(usize::from).chain(any)
}

/// Whether the server refused a batch for its size.
pub fn is_too_large(reply: &Reply) -> bool {
    let Reply::Said(answer) = reply else {
        return false;
    };
    answer.refusal.as_ref().is_some_and(|refusal| {
        matches!(refusal.error, DbError::Invalid) && refusal.reason.contains("Batch too large")
    })
}

/// A lane of a stream.
pub struct Executor {
    pub stream: Rc<Stream>,
    pub lane: usize,
}

impl upsert::Executor for Executor {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(self, call: Arc<upsert::Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let answer = self.stream.call(self.lane, &call).await;
            (self, answer)
        })
    }
}

//! Statements on their way: a stream's connection and the lanes that share it.

use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::statement::prepared::PreparedStatement;

use super::errors::{self, Written};
use super::limits::Limits;
use super::statement::{unbound, Statement};
use crate::error::{Error, Result};
use crate::meter::clock::Stage;
use crate::target::upsert::{self, Executing};

pub struct Stream {
    pub session: Session,
    pub prepared: PreparedStatement,
    pub limits: Arc<Limits>,
    /// For error lines.
    pub place: String,
}

type Call = Arc<upsert::Prepared<Statement>>;

impl Stream {
    /// The future of a single row is kept small, for there is one a row; the others' are boxed.
    async fn send(
        &self,
        statement: &Statement,
    ) -> std::result::Result<QueryResult, ExecutionError> {
        match statement {
            Statement::Row(row) => self.session.execute_unpaged(&self.prepared, row).await,
            Statement::Batch { batch, rows } => {
                Box::pin(self.session.batch(batch, rows.iter())).await
            }
            Statement::Texts(batch) => {
                let values = unbound(batch.statements.len());
                Box::pin(self.session.batch(batch, values)).await
            }
            Statement::Text(text) => Box::pin(self.session.query_unpaged(text.clone(), ())).await,
        }
    }

    async fn call(&self, call: &Call) -> Result<()> {
        match self.send(&call.statement).await {
            Ok(answer) => {
                self.limits.note(answer.warnings());
                Ok(())
            }
            Err(error) => Err(Box::pin(self.failed(error, &call.statement, call.rows)).await),
        }
    }

    async fn failed(&self, error: ExecutionError, statement: &Statement, rows: u64) -> Error {
        let whole = statement.is_whole();
        let said = errors::of_execution(&self.place, &error, Written { rows, whole });
        match errors::is_too_large(&error) {
            true => self.limits.explain(self, statement, said).await,
            false => said,
        }
    }
}

/// What goes in and out of a lane.
#[derive(Default)]
struct Slot {
    call: Cell<Option<Call>>,
    answer: Cell<Option<Result<()>>>,
}

/// A lane: its driver's future is made once and used for all its calls, for it takes kilobytes,
/// and memory of that size is slow to get and give back for each single row.
pub struct Executor {
    slot: Rc<Slot>,
    lane: Pin<Box<dyn Future<Output = ()>>>,
}

impl Executor {
    pub fn new(stream: Arc<Stream>) -> Self {
        let slot = Rc::new(Slot::default());
        let mine = slot.clone();
        let lane = async move {
            loop {
                let next = |_: &mut Context<'_>| match mine.call.take() {
                    Some(call) => Poll::Ready(call),
                    None => Poll::Pending,
                };
                let call = poll_fn(next).await;
                mine.answer.set(Some(stream.call(&call).await));
            }
        };
        Self {
            slot,
            lane: Box::pin(lane),
        }
    }
}

/// One call of a lane.
struct Under(Option<Executor>);

impl Future for Under {
    type Output = (Executor, Result<()>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(executor) = &mut self.0 else {
            return Poll::Pending; // it has given its answer
        };
        let _ = executor.lane.as_mut().poll(cx); // it never ends
        match (executor.slot.answer.take(), self.0.take()) {
            (Some(answer), Some(executor)) => Poll::Ready((executor, answer)),
            (_, executor) => {
                self.0 = executor;
                Poll::Pending
            }
        }
    }
}

impl upsert::Executor for Executor {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(self, call: Call) -> Executing<Self> {
        self.slot.call.set(Some(call));
        Box::pin(Under(Some(self)))
    }
}

//! A statement's rows over one connection, and where their time goes.

use std::error::Error as StdError;
use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use futures::Stream;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, CopyOutStream, RowStream, Statement};

use super::super::connect;
use super::super::connect::{Driver, Link};
use super::super::errors::describe;
use super::super::options::WireFormat;
use super::decode::Decoder;
use crate::read::Rows;
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};

/// Of a message: its kind and its length.
const MESSAGE_HEAD: u64 = 5;
/// Of a row's message its count of values, and of each value its length.
const ROW_HEAD: u64 = 2;
const VALUE_HEAD: u64 = 4;

/// What the server sends in answer.
enum Pieces {
    Copy(Pin<Box<CopyOutStream>>),
    Rows(Pin<Box<RowStream>>),
}

type Asking = Pin<Box<dyn Future<Output = connect::Answer<Pieces>>>>;

enum State {
    Idle(Statement),
    Asking(Asking),
    Reading(Pieces),
    Over,
}

/// A stream's rows.
pub struct Answer {
    state: State,
    format: WireFormat,
    client: Rc<Client>,
    driver: Driver,
    decoder: Decoder,
    place: Arc<str>,
    carried: u64,
}

impl Answer {
    /// The statement is a COPY, or the query, as the format asks.
    pub fn new(
        link: Link,
        format: WireFormat,
        statement: Statement,
        decoder: Decoder,
        place: Arc<str>,
    ) -> Self {
        Self {
            state: State::Idle(statement),
            format,
            client: Rc::new(link.client),
            driver: link.driver,
            decoder,
            place,
            carried: 0,
        }
    }

    fn ask(&self, statement: Statement) -> Asking {
        let client = self.client.clone();
        match self.format {
            WireFormat::Copy => Box::pin(async move {
                let stream = client.copy_out(&statement).await?;
                Ok(Pieces::Copy(Box::pin(stream)))
            }),
            WireFormat::Rows => Box::pin(async move {
                let none = iter::empty::<&(dyn ToSql + Sync)>();
                let stream = client.query_raw(&statement, none).await?;
                Ok(Pieces::Rows(Box::pin(stream)))
            }),
        }
    }

    /// Takes what comes next, a row as a rule; false: that was all.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        let failed = |error| describe(&self.place, &error);
        match &mut self.state {
            State::Reading(Pieces::Copy(stream)) => {
                let Some(piece) = ready!(stream.as_mut().poll_next(cx)) else {
                    return Poll::Ready(self.decoder.end_copy().map(|()| false));
                };
                let piece = piece.map_err(failed)?;
                self.carried += MESSAGE_HEAD + piece.len() as u64;
                self.decoder.copied(&piece)?;
                Poll::Ready(Ok(true))
            }
            State::Reading(Pieces::Rows(stream)) => {
                let Some(row) = ready!(stream.as_mut().poll_next(cx)) else {
                    return Poll::Ready(Ok(false));
                };
                let row = row.map_err(failed)?;
                let mut carried = MESSAGE_HEAD + ROW_HEAD;
                self.decoder.row(|at| {
                    let value = row.try_get::<_, Option<Raw<'_>>>(at).map_err(failed)?;
                    let value = value.map(|Raw(value)| value);
                    carried += VALUE_HEAD + value.map_or(0, <[u8]>::len) as u64;
                    Ok(value)
                })?;
                self.carried += carried;
                Poll::Ready(Ok(true))
            }
            _ => Poll::Ready(Ok(false)),
        }
    }
}

impl Rows for Answer {
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            match &mut self.state {
                State::Idle(statement) => {
                    let statement = statement.clone();
                    self.state = State::Asking(self.ask(statement));
                }
                State::Asking(asking) => {
                    let mut asked = asking.as_mut().poll(cx);
                    if asked.is_pending() {
                        let _ = self.driver.poll_wire(cx);
                        asked = asking.as_mut().poll(cx);
                    }
                    clock.mark(Stage::Send);
                    if asked.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    let pieces = ready!(asked).map_err(|error| describe(&self.place, &error))?;
                    self.state = State::Reading(pieces);
                }
                State::Reading(_) => {
                    let mut taken = self.poll_take(cx)?;
                    if taken.is_pending() {
                        // All that had come is decoded; its end is told by the answer.
                        clock.mark(Stage::Decode);
                        let _ = self.driver.poll_wire(cx);
                        clock.mark(Stage::Receive);
                        taken = self.poll_take(cx)?;
                    }
                    if taken.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    let more = ready!(taken);
                    if !more {
                        self.state = State::Over;
                    }
                    if !more || self.decoder.is_full() {
                        let batch = self.decoder.finish();
                        clock.mark(Stage::Decode);
                        return Poll::Ready(batch);
                    }
                }
                State::Over => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn carried(&self) -> u64 {
        self.carried
    }
}

/// A value as it lies in its message.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

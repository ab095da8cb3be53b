//! A stream's rows: page by page, of one piece of the ring after another. The next page is asked for as
//! soon as one has come, before it is decoded.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use scylla::errors::DbError;
use scylla::frame::Compression;
use scylla::statement::Consistency;

use super::super::errors::{self, Written};
use super::super::execute::MOST_PREPARED;
use super::super::frame::{opcode, Answer, Head, Request, HEAD};
use super::ring::Piece;
use crate::read::Rows;
use venturi_base::codec::cql::{self, Definition, Form, Page, Prepared};
use venturi_base::data::column::Columns;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::net::wire::Wire;

/// Memory for an answer grows with what has come of it.
const FIRST: usize = 64 << 10;

/// How pages are asked for.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The statement, for a server that has forgotten it.
    pub text: String,
    pub consistency: Consistency,
    pub compression: Option<Compression>,
    pub page_size: i32,
    /// Bytes of an answer at most.
    pub limit: usize,
}

/// A connection to a node that has prepared the statement.
pub struct Link {
    wire: Wire,
    /// The statement.
    id: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// The answer, of which so many bytes have come.
    input: Vec<u8>,
    filled: usize,
}

impl Link {
    pub fn new(wire: Wire, id: Vec<u8>) -> Self {
        Self {
            wire,
            id,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            filled: 0,
        }
    }

    fn ask(&mut self, request: &Request) {
        self.out.clear();
        self.out.extend_from_slice(&request.head(0));
        self.out.extend_from_slice(&request.body);
        (self.sent, self.filled) = (0, 0);
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.out.len() {
            let rest = [IoSlice::new(&self.out[self.sent..])];
            match ready!(self.wire.poll_write(cx, &rest)) {
                Ok(0) => return Poll::Ready(Err(broken("it takes no more bytes"))),
                Ok(count) => self.sent += count,
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
        self.wire.poll_flush(cx).map_err(broken)
    }

    /// What stands before the answer, once it is there as a whole.
    fn poll_answer(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<Result<Head>> {
        loop {
            let head = Head::within(&self.input[..self.filled], limit).map_err(advised)?;
            let whole = head.as_ref().map_or(HEAD, |head| HEAD + head.length);
            match head {
                Some(head) if self.filled >= whole => return Poll::Ready(Ok(head)),
                _ => {}
            }
            let room = whole.min((2 * self.filled).max(FIRST));
            if self.input.len() < room {
                self.input.resize(room, 0);
            }
            // No further than this answer: the next one has a buffer of its own.
            let place = &mut self.input[self.filled..room];
            match ready!(self.wire.poll_read(cx, &mut [IoSliceMut::new(place)])) {
                Ok(0) => return Poll::Ready(Err(broken("the server closed it"))),
                Ok(count) => self.filled += count,
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
    }
}

fn advised(error: Error) -> Error {
    match error.kind {
        Kind::Memory => Error {
            message: format!(
                "{}: take a smaller page_size, or raise max_block_size",
                error.message
            ),
            ..error
        },
        _ => error,
    }
}

fn broken(why: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Lost,
        format!(
            "the connection broke ({why}): is the server still running, and what does its log say?"
        ),
    )
}

pub struct Pages {
    /// By node; `None`: not needed, or it cannot be reached.
    links: Vec<Option<Link>>,
    asking: Asking,
    planned: Arc<[Definition]>,
    forms: Vec<Form>,
    columns: Columns,
    rows_per_batch: usize,
    /// The first is being read.
    pieces: VecDeque<Piece>,
    begun: bool,
    /// The link whose answer is waited for, and the state of the page that is asked for.
    asked: Option<usize>,
    state: Option<Vec<u8>>,
    /// How often the statement has been prepared again for this page; the answer is to that.
    prepared: usize,
    preparing: bool,
    /// The answer being decoded: its rows that are left begin and end there.
    page: Vec<u8>,
    at: usize,
    end: usize,
    left: usize,
    carried: u64,
    place: Arc<str>,
}

impl Pages {
    pub fn new(
        links: Vec<Option<Link>>,
        asking: Asking,
        planned: Arc<[Definition]>,
        columns: Columns,
        rows_per_batch: usize,
        pieces: Vec<Piece>,
        place: Arc<str>,
    ) -> Self {
        Self {
            links,
            asking,
            forms: planned.iter().map(|column| column.form.clone()).collect(),
            planned,
            columns,
            rows_per_batch,
            pieces: pieces.into(),
            begun: false,
            asked: None,
            state: None,
            prepared: 0,
            preparing: false,
            page: Vec::new(),
            at: 0,
            end: 0,
            left: 0,
            carried: 0,
            place,
        }
    }

    /// Asks for a page of the first piece.
    fn ask(&mut self) -> Result<()> {
        let Some(piece) = self.pieces.front().copied() else {
            self.asked = None;
            return Ok(());
        };
        let there = |at: usize| self.links.get(at).is_some_and(Option::is_some);
        let any = || (0..self.links.len()).find(|at| there(*at));
        let at = piece.node.filter(|at| there(*at)).or_else(any);
        let found = at.and_then(|at| Some((at, self.links[at].as_mut()?)));
        let (at, link) = found.ok_or_else(|| broken("there is none"))?;
        let Asking {
            consistency,
            page_size,
            ..
        } = self.asking;
        let state = self.state.as_deref();
        let request = Request::page(&link.id, consistency, piece.tokens, page_size, state);
        link.ask(&request.compressed(self.asking.compression)?);
        self.asked = Some(at);
        Ok(())
    }

    /// An answer is there: its rows, and what is asked for next.
    fn take(&mut self, at: usize, head: &Head) -> Result<()> {
        let Some(link) = self.links.get_mut(at).and_then(Option::as_mut) else {
            return Ok(());
        };
        std::mem::swap(&mut self.page, &mut link.input);
        (self.at, self.end) = (HEAD, HEAD + head.length);
        if !head.is_plain() || head.opcode == opcode::ERROR {
            let body = &self.page[HEAD..self.end];
            let Asking {
                compression, limit, ..
            } = self.asking;
            let answer = Answer::parse(head, body, compression, limit).map_err(advised)?;
            if let Some(refusal) = answer.refusal {
                let forgotten = matches!(refusal.error, DbError::Unprepared { .. });
                if forgotten && !self.preparing && self.prepared < MOST_PREPARED {
                    (self.prepared, self.preparing) = (self.prepared + 1, true);
                    let request = Request::prepare(&self.asking.text);
                    link.ask(&request.compressed(compression)?);
                    return Ok(());
                }
                let written = Written::default();
                let (error, reason) = (&refusal.error, &refusal.reason);
                return Err(errors::of_server(&self.place, error, reason, written));
            }
            self.page = answer.body.into();
            (self.at, self.end) = (0, self.page.len());
        }
        let whole = &self.page[self.at..self.end];
        if std::mem::take(&mut self.preparing) {
            let prepared = Prepared::parse(whole)?;
            let strange = || Error::protocol("a statement was not prepared again");
            link.id = prepared.ok_or_else(strange)?.id;
            return self.ask();
        }
        let page = match head.opcode {
            opcode::RESULT => Page::parse(whole)?,
            _ => None,
        };
        let page = page.ok_or_else(|| Error::protocol("an answer to a query that is no rows"))?;
        if page.columns[..] != self.planned[..] {
            return Err(Error::protocol(
                "the answer has other columns than the statement had when it was planned; was the table altered?",
            ));
        }
        self.at = self.end - page.body.len();
        self.left = page.rows;
        self.state = page.next.map(<[u8]>::to_vec);
        self.prepared = 0;
        if self.state.is_none() {
            self.pieces.pop_front();
        }
        self.ask()
    }

    /// Takes rows of the page, as many as the batch lacks.
    fn decode(&mut self) -> Result<()> {
        while self.left > 0 && self.columns.rows() < self.rows_per_batch {
            let bytes = &self.page[self.at..self.end];
            let rest = cql::row(bytes, &self.forms, &mut self.columns)?;
            self.at = self.end - rest.len();
            self.left -= 1;
        }
        match self.left == 0 && self.at != self.end {
            true => Err(Error::protocol("bytes behind the last row of a page")),
            false => Ok(()),
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            if self.left > 0 {
                let decoded = self.decode();
                clock.mark(Stage::Decode);
                decoded?;
            }
            if self.columns.rows() == self.rows_per_batch {
                let batch = self.columns.finish();
                clock.mark(Stage::Decode);
                return Poll::Ready(batch);
            }
            if !self.begun {
                self.begun = true;
                self.ask()?;
            }
            let asked = self.asked;
            let found = asked.and_then(|at| Some((at, self.links[at].as_mut()?)));
            let Some((at, link)) = found else {
                let batch = self.columns.finish()?;
                clock.mark(Stage::Decode);
                return Poll::Ready(Ok(batch));
            };
            let sent = link.poll_send(cx);
            clock.mark(Stage::Send);
            if sent.is_pending() {
                clock.wait(Stage::AwaitInput);
            }
            ready!(sent)?;
            let before = link.filled;
            let answer = link.poll_answer(cx, self.asking.limit);
            self.carried += (link.filled - before) as u64;
            clock.mark(Stage::Receive);
            if answer.is_pending() {
                clock.wait(Stage::AwaitInput);
            }
            let head = ready!(answer)?;
            self.take(at, &head)?;
            clock.mark(Stage::Decode);
            if let Some(link) = self.asked.and_then(|at| self.links[at].as_mut()) {
                // What goes wrong here goes wrong again when it is waited for.
                let _ = link.poll_send(cx);
                clock.mark(Stage::Send);
            }
        }
    }
}

impl Rows for Pages {
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let polled = self.poll(cx, clock);
        polled.map_err(|error| match error.message.starts_with(&*self.place) {
            true => error,
            false => error.context(&self.place),
        })
    }

    fn carried(&self) -> u64 {
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use arrow_schema::{DataType, Field, Schema};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use venturi_testkit::{pair, run};

    const UNPREPARED: &[u8] = &[0, 0, 0x25, 0, 0, 0, 0, 1, 1];
    /// A statement of this number that takes and gives nothing.
    const PREPARED: &[u8] = &[
        0, 0, 0, 4, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0,
    ];
    /// Of a column a, an int, of k.t.
    const NO_ROWS: &[u8] = b"\0\0\0\x02\0\0\0\0\0\0\0\x01\0\x01k\0\x01t\0\x01a\0\x09\0\0\0\0";

    #[test]
    fn a_statement_that_the_server_has_forgotten_is_prepared_again() {
        let (error, result) = (opcode::ERROR, opcode::RESULT);
        let forgets = [(error, UNPREPARED), (result, PREPARED)];
        let good = [forgets[0], forgets[1], (result, NO_ROWS)];
        let never = [&forgets[..], &forgets[..], &forgets[..1]].concat();
        for (answers, failed) in [(&good[..], false), (&never[..], true)] {
            let (found, asked) = run(get(answers));
            assert_eq!(found.is_err(), failed, "{found:?}");
            let asks = [opcode::EXECUTE, opcode::PREPARE].into_iter().cycle();
            assert_eq!(asked, asks.take(answers.len()).collect::<Vec<_>>());
        }
    }

    /// What comes of these answers, and the opcodes of what was asked.
    async fn get(answers: &[(u8, &[u8])]) -> (Result<Option<RecordBatch>>, Vec<u8>) {
        let (near, mut far) = pair().await;
        let asking = Asking {
            text: "SELECT".into(),
            consistency: Consistency::One,
            compression: None,
            page_size: 1,
            limit: 1 << 20,
        };
        let links = vec![Some(Link::new(Wire::Tcp(near), vec![1]))];
        let whole = Piece {
            tokens: None,
            node: None,
        };
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        let columns = Columns::new(&Arc::new(schema), 1 << 20).unwrap();
        let planned = Page::parse(NO_ROWS).unwrap().unwrap().columns.into();
        let mut pages = Pages::new(links, asking, planned, columns, 1, vec![whole], "h".into());
        let serving = async {
            let mut asked = Vec::new();
            for (kind, body) in answers {
                let mut head = [0; HEAD];
                far.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes(head[5..].try_into().unwrap());
                far.read_exact(&mut vec![0; length as usize]).await.unwrap();
                asked.push(head[4]);
                let length = (body.len() as u32).to_be_bytes();
                let answer = [&[0x84, 0, 0, 0, *kind][..], &length, body].concat();
                far.write_all(&answer).await.unwrap();
            }
            asked
        };
        let mut clock = StageClock::start();
        tokio::join!(poll_fn(|cx| pages.poll(cx, &mut clock)), serving)
    }
}

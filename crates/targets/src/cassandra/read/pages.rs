//! A stream's rows: page by page, of one piece of the ring after another. The next page is asked for as
//! soon as one has come, before it is decoded.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use scylla::frame::Compression;
use scylla::statement::Consistency;

use super::super::errors::{self, Written};
use super::super::frame::{opcode, Answer, Head, Request, HEAD};
use super::ring::Piece;
use crate::read::Rows;
use venturi_base::codec::cql::{self, Definition, Form, Page};
use venturi_base::data::column::Columns;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::net::wire::Wire;

/// Memory for an answer grows with what has come of it.
const FIRST: usize = 64 << 10;

/// How pages are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
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
    /// The link whose answer is waited for.
    asked: Option<usize>,
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
            page: Vec::new(),
            at: 0,
            end: 0,
            left: 0,
            carried: 0,
            place,
        }
    }

    /// Asks for a page of the first piece.
    fn ask(&mut self, state: Option<&[u8]>) -> Result<()> {
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
                let written = Written::default();
                let (error, reason) = (&refusal.error, &refusal.reason);
                return Err(errors::of_server(&self.place, error, reason, written));
            }
            self.page = answer.body.into();
            (self.at, self.end) = (0, self.page.len());
        }
        let whole = &self.page[self.at..self.end];
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
        let next = page.next.map(<[u8]>::to_vec);
        if next.is_none() {
            self.pieces.pop_front();
        }
        self.ask(next.as_deref())
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
                self.ask(None)?;
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

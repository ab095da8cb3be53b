//! A client of charrow that does as it is told, over any socket.

use std::io::{Read, Write};
use std::net::TcpStream;

use venturi_base::codec::charrow::handshake::{Handshake, Parameters, Request};
use venturi_base::codec::charrow::receive::{ipc_header, Event, Receiver};
use venturi_base::codec::ipc::Decoder;
use venturi_base::data::digest;

use crate::connect;

/// The handshake of a client of 1.1.
pub fn plain(encoders: usize) -> Handshake {
    Handshake {
        minor: 1,
        client: "test".into(),
        database: String::new(),
        user: String::new(),
        password: String::new(),
        encoders,
    }
}

/// The handshake of a client of 1.2.
pub fn extended(encoders: usize, parameters: &Parameters) -> Handshake {
    Handshake {
        minor: 2,
        client: parameters.name("test"),
        ..plain(encoders)
    }
}

#[allow(missing_debug_implementations)]
pub struct Client<S = TcpStream> {
    pub socket: S,
    pub receiver: Receiver,
    pub decoder: Decoder,
}

/// What a partition was given.
#[derive(Debug, Default, Clone)]
pub struct Received {
    pub digests: Vec<u64>,
    pub rows: usize,
    pub statistics: Option<String>,
}

impl Client {
    /// One that has said nothing yet.
    pub fn raw(address: impl AsRef<str>) -> Self {
        Self::over(connect(address), Receiver::new(1 << 30))
    }

    pub fn plain(address: impl AsRef<str>, encoders: usize) -> Self {
        let mut client = Self::raw(address);
        client.say(&plain(encoders).write());
        client
    }

    pub fn extended(address: impl AsRef<str>, encoders: usize, parameters: &Parameters) -> Self {
        let mut client = Self::raw(address);
        client.say(&extended(encoders, parameters).write());
        assert!(matches!(client.event(), Ok(Event::Hello(_))));
        client
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(socket: S, receiver: Receiver) -> Self {
        Self {
            socket,
            receiver,
            decoder: Decoder::default(),
        }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn query(&mut self, id: &str, text: &str) {
        let (id, text) = (id.to_owned(), text.to_owned());
        self.say(&Request::Query { id, text }.write());
    }

    /// ... of which the first thing comes.
    pub fn begin(&mut self, id: &str, text: &str) {
        self.query(id, text);
        assert!(matches!(self.event(), Ok(Event::Schema(_))));
    }

    /// The outcome of a query without an id.
    pub fn outcome(&mut self, text: &str) -> Result<Received, String> {
        self.query("", text);
        self.drain()
    }

    pub fn asks(&mut self, name: &str, payload: &str) {
        let (name, payload) = (name.to_owned(), payload.to_owned());
        self.say(&Request::Ask { name, payload }.write());
    }

    pub fn ask(&mut self, name: &str, payload: &str) -> Vec<u8> {
        self.asks(name, payload);
        loop {
            if let Event::Answer(bytes) = self.event().unwrap() {
                return bytes;
            }
        }
    }

    /// Reads some bytes; an error if there will be none.
    pub fn fill(&mut self) -> Result<(), String> {
        let socket = &mut self.socket;
        let read = self.receiver.fill(|places| socket.read_vectored(places));
        match read.map_err(|error| format!("{:?}", error.kind()))? {
            0 => return Err("closed".into()),
            read => self.receiver.filled(read),
        }
        Ok(())
    }

    pub fn event(&mut self) -> Result<Event, String> {
        loop {
            let event = self.receiver.next().map_err(|error| error.message)?;
            if let Some(bytes) = self.receiver.freed() {
                // A server that has hung up has said why.
                let freed = Request::Freed(bytes as i64).write();
                let _ = self.socket.write_all(&freed);
                if event.is_none() {
                    continue;
                }
            }
            match event {
                Some(Event::Schema(bytes)) => {
                    self.decoder = Decoder::default();
                    let header = ipc_header(&bytes).unwrap();
                    self.decoder.message(header, None).unwrap();
                    return Ok(Event::Schema(bytes));
                }
                Some(event) => return Ok(event),
                None => self.fill()?,
            }
        }
    }

    /// Reads to the end of the query.
    pub fn drain(&mut self) -> Result<Received, String> {
        let mut given = Received::default();
        loop {
            match self.event()? {
                Event::Block(block) => {
                    block.check().unwrap();
                    let batch = self.decoder.message(&block.header, block.body);
                    let batch = batch.unwrap().unwrap();
                    given.digests.push(digest(&batch).unwrap());
                    given.rows += batch.num_rows();
                }
                Event::End => return Ok(given),
                Event::Error(text) => return Err(text),
                Event::Statistics(text) => given.statistics = Some(text),
                Event::Hello(_) | Event::Schema(_) | Event::Answer(_) => {}
            }
        }
    }
}

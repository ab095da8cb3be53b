mod engines;
mod hostile;
#[cfg(target_os = "linux")]
mod ring;
mod sharing;
mod trials;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Server;
use venturi_base::codec::charrow::handshake::{Handshake, Parameters, Request};
use venturi_base::codec::charrow::receive::{ipc_header, Event, Receiver};
use venturi_base::codec::ipc::Decoder;
use venturi_base::data::digest;

/// Only what hangs takes that long.
const LONG: Duration = Duration::from_secs(300);

fn serve(more: &str) -> Server {
    let spec = format!(r#"{{"server": "charrow", "host": "127.0.0.1", "port": 0{more}}}"#);
    Server::start(&spec).unwrap()
}

fn plain(encoders: usize) -> Handshake {
    Handshake {
        minor: 1,
        client: "test".into(),
        database: String::new(),
        user: String::new(),
        password: String::new(),
        encoders,
    }
}

/// A client that does as it is told.
struct Client {
    socket: TcpStream,
    receiver: Receiver,
    decoder: Decoder,
}

/// What a partition was given.
#[derive(Debug, Default, Clone)]
struct Given {
    digests: Vec<u64>,
    rows: usize,
    statistics: Option<String>,
}

impl Client {
    fn raw(server: &Server) -> Self {
        Self {
            socket: venturi_testkit::connect(server.address()),
            receiver: Receiver::new(1 << 30),
            decoder: Decoder::default(),
        }
    }

    fn plain(server: &Server, encoders: usize) -> Self {
        let mut client = Self::raw(server);
        client.socket.write_all(&plain(encoders).write()).unwrap();
        client
    }

    fn extended(server: &Server, encoders: usize, parameters: &Parameters) -> Self {
        let mut client = Self::raw(server);
        let hello = Handshake {
            minor: 2,
            client: parameters.name("test"),
            ..plain(encoders)
        };
        client.socket.write_all(&hello.write()).unwrap();
        assert!(matches!(client.event(), Ok(Event::Hello(_))));
        client
    }

    fn query(&mut self, id: &str, text: &str) {
        let (id, text) = (id.to_owned(), text.to_owned());
        self.socket
            .write_all(&Request::Query { id, text }.write())
            .unwrap();
    }

    /// ... of which the first thing comes.
    fn begin(&mut self, id: &str, text: &str) {
        self.query(id, text);
        assert!(matches!(self.event(), Ok(Event::Schema(_))));
    }

    fn asks(&mut self, name: &str, payload: &str) {
        let (name, payload) = (name.to_owned(), payload.to_owned());
        let asked = Request::Ask { name, payload }.write();
        self.socket.write_all(&asked).unwrap();
    }

    fn ask(&mut self, name: &str, payload: &str) -> Vec<u8> {
        self.asks(name, payload);
        loop {
            if let Event::Answer(bytes) = self.event().unwrap() {
                return bytes;
            }
        }
    }

    fn event(&mut self) -> Result<Event, String> {
        loop {
            let event = self.receiver.next().map_err(|error| error.message)?;
            if let Some(event) = event {
                if let Event::Schema(bytes) = &event {
                    let header = ipc_header(bytes).unwrap();
                    self.decoder.message(header, None).unwrap();
                }
                return Ok(event);
            }
            let socket = &mut self.socket;
            let read = self
                .receiver
                .fill(|places| socket.read_vectored(places))
                .map_err(|error| format!("{:?}", error.kind()))?;
            if read == 0 {
                return Err("closed".into());
            }
            self.receiver.filled(read);
        }
    }

    /// Reads to the end of the query.
    fn drain(&mut self) -> Result<Given, String> {
        let mut given = Given::default();
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

/// All of it through one connection: what any number of them must be given together.
fn whole(server: &Server, text: &str) -> Given {
    let mut client = Client::plain(server, 1);
    client.query("", text);
    client.drain().unwrap()
}

fn sorted(mut digests: Vec<u64>) -> Vec<u64> {
    digests.sort_unstable();
    digests
}

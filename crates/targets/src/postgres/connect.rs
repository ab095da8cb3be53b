//! One connection: dialled, logged in, and driven.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::errors::at_login;
use super::options::{Options, URL};
use super::tls::Tls;
use crate::upsert::{Host, Place};
use venturi_base::error::{Error, Kind};
use venturi_base::meter::sockets::Sockets;
use venturi_base::net;
use venturi_base::net::route::{Neighbour, Route};

/// Of the driver's answers.
pub type Answer<T> = Result<T, tokio_postgres::Error>;

type Wire = Pin<Box<dyn Future<Output = Answer<()>> + Send>>;

/// The connection's end of the wire. Somebody has to poll it for anything to move.
pub struct Driver {
    /// `None` once it has ended: what waits for an answer is told of it when the wire is gone.
    wire: Option<Wire>,
}

impl Driver {
    /// Does `work` over this connection, on the task of who polls it: so that its time is
    /// the caller's, and no other task has to be woken.
    pub async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            // It hands messages over, the wire sends them and brings the answers.
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            // Its end is no answer: that is what `work` finds when it is polled again.
            let _ = self.poll_wire(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Sends and receives what can be; ready: it has ended.
    pub fn poll_wire(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wire) = &mut self.wire else {
            return Poll::Ready(());
        };
        wire.as_mut().poll(cx).map(|_| self.wire = None)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_wire(cx)
    }
}

pub struct Link {
    pub client: Client,
    pub driver: Driver,
    pub route: Option<Route>,
    pub neighbour: Option<Neighbour>,
}

impl Link {
    pub async fn run(&mut self, sql: &str) -> Answer<()> {
        self.driver.drive(self.client.batch_execute(sql)).await
    }

    /// All rows of the answer, as text.
    pub async fn rows(&mut self, sql: &str) -> Answer<Vec<Vec<Option<String>>>> {
        let answer = self.driver.drive(self.client.simple_query(sql)).await?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let cell = |at| row.get(at).map(str::to_owned);
                Some((0..row.len()).map(cell).collect())
            }
            _ => None,
        };
        Ok(answer.into_iter().filter_map(row).collect())
    }
}

/// Why there is no connection.
pub struct Failed {
    pub error: Error,
    /// The server knows no such database.
    pub no_database: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            error,
            no_database: false,
        }
    }
}

/// Connects and logs in to `database`; one of `sockets` is read while the trial runs.
pub async fn dial(
    place: &Place,
    database: &str,
    options: &Options,
    tls: Option<&ClientConfig>,
    timeout: Duration,
    sockets: Option<&Sockets>,
) -> Result<Link, Failed> {
    let (host, authority) = (socket_of(place.host_of(0)), place.address());
    let wire = host.dial(Some(timeout), None).await;
    let wire = wire.map_err(|error| error.context(&authority))?;
    if let Some(sockets) = sockets {
        sockets.keep(wire.socket());
    }
    let (route, neighbour) = (wire.route().map(canonical), wire.neighbour());
    let mut config = Config::new();
    config
        .user(options.user(place)?)
        .dbname(database)
        .application_name("venturi");
    if let Some(password) = options.login.password()? {
        config.password(password);
    }
    let connected = match (wire, tls) {
        (net::wire::Wire::Tcp(socket), Some(tls)) => {
            config.ssl_mode(SslMode::Require);
            let mut tls = tls.clone();
            tls.alpn_protocols = vec![b"postgresql".to_vec()];
            let name = options.login.tls_server_name.as_deref();
            let tls = Tls {
                config: Arc::new(tls),
                name: name.unwrap_or(&host.name).to_owned(),
            };
            driven(config.connect_raw(socket, tls).await)
        }
        (net::wire::Wire::Tcp(socket), None) => {
            config.ssl_mode(SslMode::Disable);
            driven(config.connect_raw(socket, NoTls).await)
        }
        (net::wire::Wire::Unix(socket), _) => {
            config.ssl_mode(SslMode::Disable);
            driven(config.connect_raw(socket, NoTls).await)
        }
        (net::wire::Wire::Tls(_), _) => {
            let text = "a connection that begins with TLS";
            return Err(Error::new(Kind::Internal, text).into());
        }
    };
    match connected {
        Ok((client, wire)) => Ok(Link {
            client,
            driver: Driver { wire: Some(wire) },
            route,
            neighbour,
        }),
        Err(error) => Err(Failed {
            no_database: error.code().is_some_and(|code| code.code() == "3D000"),
            error: at_login(&authority, &error),
        }),
    }
}

fn driven<S, T>(
    connected: Answer<(Client, tokio_postgres::Connection<S, T>)>,
) -> Answer<(Client, Wire)>
where
    tokio_postgres::Connection<S, T>: Future<Output = Answer<()>> + Send + 'static,
{
    connected.map(|(client, wire)| (client, Box::pin(wire) as Wire))
}

/// Of a directory, as clients of libpq name it, the socket in it at the usual port.
fn socket_of(host: &Host) -> Host {
    let mut host = host.clone();
    if host.socket().is_some_and(|path| path.is_dir()) {
        host.name = format!("{}/.s.PGSQL.{}", host.name.trim_end_matches('/'), URL.port);
    }
    host
}

fn canonical(route: Route) -> Route {
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    Route {
        local: canonical(route.local),
        peer: canonical(route.peer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::channel::oneshot;

    /// The other end has closed: it is done at once, and holds what its client waits on until it is dropped.
    struct Closed(#[allow(dead_code)] oneshot::Sender<()>);

    impl Future for Closed {
        type Output = Answer<()>;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_answer_is_told_of_the_end() {
        let (kept, answer) = oneshot::channel();
        let mut driver = Driver {
            wire: Some(Box::pin(Closed(kept))),
        };
        let told = tokio::time::timeout(Duration::from_secs(10), driver.drive(answer)).await;
        assert!(told.expect("it waits on").is_err());
    }
}

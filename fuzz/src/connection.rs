//! A whole HTTP/2 connection over a loopback socket, fed any bytes: it ends or goes on, and
//! neither panics nor hangs. The first byte says which side it is.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use venturi_core::codec::flight::Expect;
use venturi_core::codec::frame::PREFACE;
use venturi_core::http2::{Config, Connection, Event, Role};
use venturi_core::net::wire::Wire;

async fn feed(client: bool, bytes: &[u8]) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let socket = TcpStream::connect(listener.local_addr()?).await?;
    let (mut peer, _) = listener.accept().await?;
    // A closed connection that still has bytes for us would wait in the kernel.
    #[allow(deprecated)]
    socket.set_linger(Some(Duration::ZERO))?;
    if !client {
        peer.write_all(PREFACE).await?;
    }
    peer.write_all(bytes).await?;
    peer.shutdown().await?;
    let role = if client { Role::Client } else { Role::Server };
    let mut connection = Connection::new(Wire::Tcp(socket), Config::new(role));
    if client {
        for expect in [Expect::Flight, Expect::Other] {
            let stream = connection.request(&[(":path".into(), b"/".to_vec())], expect);
            connection.end(stream.expect("nothing has been read yet"));
        }
    }
    while let Ok(event) = poll_fn(|cx| connection.poll_event(cx)).await {
        if let (Event::Headers { stream, .. }, false) = (event, client) {
            connection.send_headers(stream, &[(":status".into(), b"200".to_vec())]);
            connection.end_with(stream, &[("grpc-status".into(), b"0".to_vec())]);
        }
    }
    Ok(())
}

pub fn run(input: &[u8]) {
    let (side, bytes) = super::first(input);
    let client = side & 1 == 1;
    if bytes.len() > 60_000 {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), feed(client, bytes))
            .await
            .expect("it must not hang")
            .expect("a loopback connection");
    });
}

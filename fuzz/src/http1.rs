//! Where it is cut, and what an HTTP/1.1 server answers, over loopback: an error or an answer,
//! in good time; the cuts make no difference.

use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use venturi_core::error::Kind;
use venturi_core::http1::{Client, Web};

/// Bytes of an answer at most, and pieces of it.
const MOST: usize = 1 << 20;
const PIECES: usize = 50;

async fn serve(listener: TcpListener, answer: &[u8], cut: usize) -> std::io::Result<()> {
    let (mut socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") && socket.read_buf(&mut asked).await? > 0 {}
    for piece in answer.chunks(cut) {
        socket.write_all(piece).await?;
    }
    socket.shutdown().await?;
    while socket.read_buf(&mut asked).await? > 0 {}
    Ok(())
}

async fn ask(web: &Web) -> Result<(u16, Vec<u8>), Kind> {
    let mut client = Client::connect(web).await.map_err(|error| error.kind)?;
    // A connection that was closed in order would wait in the kernel.
    let socket = client.socket();
    let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    let (head, body) = client
        .call("GET", "/", &[], b"", MOST)
        .await
        .map_err(|error| error.kind)?;
    Ok((head.status, body))
}

async fn answered(answer: &[u8], cut: usize) -> Result<(u16, Vec<u8>), Kind> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let web = Web {
        host: "127.0.0.1".into(),
        port,
        authority: "it".into(),
        tls: None,
    };
    let both = async { tokio::join!(serve(listener, answer, cut), ask(&web)) };
    let limit = Duration::from_secs(5);
    tokio::time::timeout(limit, both)
        .await
        .expect("it must not hang")
        .1
}

pub fn run(input: &[u8]) {
    let (cut, bytes) = super::first(input);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let cut = (usize::from(cut) + 1).max(bytes.len() / PIECES);
    runtime.block_on(async {
        let whole = answered(bytes, MOST).await;
        assert_eq!(whole, answered(bytes, cut).await);
    });
}

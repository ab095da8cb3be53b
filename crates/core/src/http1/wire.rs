//! The connection underneath: TCP, or TLS over it.

use std::io::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

use super::{unreachable, Tls, Web};
use crate::error::{Error, Kind};

pub enum Wire {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub async fn connect(web: &Web) -> crate::error::Result<Self> {
        let socket = TcpStream::connect((web.host.as_str(), web.port))
            .await
            .map_err(|error| unreachable(&web.authority, &error))?;
        crate::net::socket::prepare((&socket).into(), None);
        match &web.tls {
            None => Ok(Self::Tcp(socket)),
            Some(tls) => Self::secure(web, tls, socket).await,
        }
    }

    async fn secure(web: &Web, tls: &Tls, socket: TcpStream) -> crate::error::Result<Self> {
        let name = tls.server_name.as_ref().unwrap_or(&web.host);
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            Error::usage(format!(
                "{name:?} is not a name that a TLS certificate can have"
            ))
        })?;
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        match connector.connect(name, socket).await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream))),
            Err(error) => {
                let text = error.to_string();
                let advice = (tls.advice)(&text, tls.authority);
                let line = format!("{}: TLS: {text}{advice}", web.authority);
                Err(Error::new(Kind::Tls, line))
            }
        }
    }

    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// 0: the peer has closed its side.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize>> {
        let mut into = ReadBuf::new(into);
        ready!(match self {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, &mut into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, &mut into),
        })?;
        Poll::Ready(Ok(into.filled().len()))
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
}

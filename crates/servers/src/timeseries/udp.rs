//! RESP by datagrams: whole messages in each, never an answer.

use std::rc::Rc;

use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::head::Turn;
use super::reader::{Language, Reader};
use venturi_base::codec::timeseries::parse::resp;

/// A datagram cannot be longer.
const LONGEST: usize = 64 << 10;

/// Until the stop. What is wrong ends its datagram; what came before it stays.
pub async fn serve(
    socket: std::net::UdpSocket,
    reader: Rc<Reader>,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(socket) = UdpSocket::from_std(socket) else {
        return;
    };
    let mut buffer = vec![0; LONGEST];
    let mut last = u32::MAX;
    loop {
        let received = tokio::select! {
            received = socket.recv(&mut buffer) => received,
            _ = stopped.changed() => return,
        };
        let Ok(length) = received else { continue };
        if reader.room().await.is_err() {
            continue;
        }
        let mut head = reader.head().lock();
        let mut turn = Turn {
            head: &mut head,
            language: Language::Resp as usize,
            last,
            points: 0,
        };
        let mut scratch = reader.scratch.borrow_mut();
        let mut messages = resp::Reader::new(reader.shared.room.clone());
        let _ = messages.read(&buffer[..length], &mut turn, &mut scratch);
        last = turn.last;
        let _ = head.commit();
    }
}

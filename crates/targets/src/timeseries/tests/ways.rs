//! Other ways than TCP, and other points than the workload's.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use super::*;
use venturi_base::data::archive;
use venturi_base::error::Kind;
use venturi_testkit::{assert_contains, assert_error, Directory};

#[test]
fn datagrams_hold_whole_messages() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let room = socket2::SockRef::from(&socket);
    room.set_recv_buffer_size(1 << 20).unwrap();
    let port = socket.local_addr().unwrap().port();
    // Twelve datagrams: the kernel has room for them.
    let more = with(points(2500), json!({"data": {"source": "metrics"}}));
    let record = ingest("akumuli+udp", port, closed_port(), more);
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 5_000);
    assert_eq!(record.verification.achieved, "none");
    // What was sent is there, for it did not leave this machine.
    socket.set_nonblocking(true).unwrap();
    let (mut rows, mut room) = (0, vec![0; 65_536]);
    while let Ok(got) = socket.recv(&mut room) {
        assert!(got <= 16_384, "{got}");
        assert!(room.starts_with(b"+cpu.user|") && room[..got].ends_with(b"\r\n"));
        let begun = room[..got].windows(5).filter(|text| text == b"\r\n*10");
        rows += begun.count();
    }
    assert_eq!(rows, 500);
}

#[test]
fn datagrams_that_are_lost_are_found_out() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let stats = r#"{"software": "venturi 1", "points": 5, "checksum": "0"}"#;
    let http = web(|_| ok(stats));
    use Kind::{Usage, Verification};
    for (options, kind, said) in [
        (json!({}), Verification, "200 were sent"),
        (json!({"format": "dictionary"}), Usage, "rows or values"),
        (json!({"user": "me"}), Usage, "no log-in"),
    ] {
        let options = with(json!({"http_port": http}), options);
        let more = with(points(100), json!({"options": options}));
        let error = ingest("akumuli+udp", port, http, more).error.unwrap();
        assert_error!(error, kind, said);
    }
}

#[test]
fn a_batch_is_a_request() {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = posts.clone();
    let port = web(move |request| {
        let known = request == "POST /write?db=d&precision=ns HTTP/1.1";
        match known.then(|| counted.fetch_add(1, Relaxed)) {
            None => response("404 Not Found", ""),
            Some(..30) => "HTTP/1.1 204 No Content\r\n\r\n".into(),
            Some(_) => response(
                "400 Bad",
                r#"{"error": "partial write: points beyond retention"}"#,
            ),
        }
    });
    let ingest = |database: &str, count: u64| {
        let target = format!("influx+http://127.0.0.1:{port}/{database}");
        let more = json!({"target": target, "data": {"source": "metrics"}, "options": {}});
        ingest("", port, port, with(points(count), more))
    };
    let record = ingest("d", 10_000);
    assert_eq!(record.error, None);
    assert_eq!((record.counts.rows, posts.load(Relaxed)), (20_000, 20));
    assert_eq!(record.verification.achieved, "acknowledged");
    assert!(record.stages.client.contains_key("await_reply"));
    let error = ingest("d", 100_000).error.unwrap();
    let says = "400: {\"error\": \"partial write";
    assert_error!(error, Kind::Server, says);
    let error = ingest("other", 100).error.unwrap();
    assert_contains(&error.message, "said 404");
}

#[test]
fn archives_are_sent_as_they_are() {
    let directory = Directory::new();
    let path = directory.file("sent");
    let order = json!({
        "path": path, "data": {"source": "metrics", "hosts": 9}, "archives": 3, "steps": 200,
        "threads": 1, "level": 1,
    });
    let order = order.to_string();
    let manifest = venturi_core::archives::generate(&order, &Control::new()).unwrap();
    let manifest: archive::Manifest = serde_json::from_str(&manifest).unwrap();
    let bytes = Arc::new(AtomicUsize::new(0));
    let counted = bytes.clone();
    let port = server(move |mut socket| {
        let mut room = [0; 4096];
        while let Ok(more @ 1..) = socket.read(&mut room) {
            counted.fetch_add(more, Relaxed);
        }
    });
    let sent = |scheme: &str, more: Value| {
        let data = json!({"data": {"source": "archive", "path": path}});
        ingest(scheme, port, closed_port(), with(data, more))
    };
    let record = sent("akumuli", json!({}));
    assert_eq!(record.error, None);
    assert_eq!((record.counts.rows, manifest.points), (18_000, 18_000));
    assert_eq!(bytes.load(Relaxed) as u64, manifest.bytes);
    assert_eq!(record.counts.wire_bytes, manifest.bytes);
    let record = sent("akumuli", points(1500));
    assert_eq!((record.error, record.counts.rows), (None, 4_000));
    let record = sent("empty", json!({"options": {}}));
    assert_eq!((record.error, record.counts.rows), (None, 18_000));

    let says = |scheme: &str, more: Value| sent(scheme, more).error.unwrap().message;
    assert!(says("influx", json!({})).contains("akumuli://"));
    let format = json!({"options": {"format": "rows"}});
    assert!(says("akumuli", format).contains("text already"));
    let third = &manifest.archives[2].file;
    std::fs::write(format!("{path}/{third}"), b"no gzip").unwrap();
    assert!(says("akumuli", json!({})).contains("host_range_6_8.gz"));
}

//! Other ways than TCP, and other points than the workload's.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use super::*;
use venturi_base::data::archive;
use venturi_base::error::Kind;
use venturi_testkit::assert_contains;

fn spec(scheme: &str, port: u16, more: &str) -> Record {
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "{scheme}://127.0.0.1:{port}", "operation": "ingest",
            "rows_per_batch": 1000, "generate": "inline", "streams": 2, "threads": 2, {more}}}"#
    ));
    run(spec.unwrap(), &Control::new())
}

#[test]
fn datagrams_hold_whole_messages() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let room = socket2::SockRef::from(&socket);
    room.set_recv_buffer_size(1 << 20).unwrap();
    let port = socket.local_addr().unwrap().port();
    // Twelve datagrams: the kernel has room for them.
    let more = format!(
        r#""data": {{"source": "metrics"}}, "rows_per_stream": 2500, "options": {{"http_port": {}}}"#,
        closed_port()
    );
    let record = spec("akumuli+udp", port, &more);
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
    let failed = |options: &str| {
        let more = format!(
            r#""data": {{"source": "metrics"}}, "rows_per_stream": 100,
               "options": {{"http_port": {http}{options}}}"#
        );
        spec("akumuli+udp", port, &more).error.unwrap()
    };
    let error = failed("");
    assert_eq!(error.kind, Kind::Verification);
    assert_contains(&error.message, "200 were sent");
    let error = failed(r#", "format": "dictionary""#);
    assert_contains(&error.message, "rows or values");
    let error = failed(r#", "user": "me""#);
    assert_contains(&error.message, "no log-in");
}

#[test]
fn a_batch_is_a_request() {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = posts.clone();
    let port = server(move |mut socket| loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match socket.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let answer = match head.starts_with("POST /write?db=d&precision=ns HTTP/1.1\r\n") {
            false => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            true if counted.fetch_add(1, Relaxed) >= 30 => {
                let body = r#"{"error": "partial write: points beyond retention"}"#;
                let length = body.len();
                format!("HTTP/1.1 400 Bad\r\nContent-Length: {length}\r\n\r\n{body}")
            }
            true => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        drain(
            &mut socket,
            length.map_or(0, |length| length.parse().unwrap()),
        );
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    });
    let ingest = |database: &str, points: u64| {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "influx+http://127.0.0.1:{port}/{database}",
                "operation": "ingest", "rows_per_batch": 1000, "data": {{"source": "metrics"}},
                "generate": "inline", "streams": 2, "threads": 2, "rows_per_stream": {points}}}"#
        ));
        run(spec.unwrap(), &Control::new())
    };
    let record = ingest("d", 10_000);
    assert_eq!(record.error, None);
    assert_eq!((record.counts.rows, posts.load(Relaxed)), (20_000, 20));
    assert_eq!(record.verification.achieved, "acknowledged");
    assert!(record.stages.client.contains_key("await_reply"));
    let error = ingest("d", 100_000).error.unwrap();
    assert_eq!(error.kind, Kind::Server);
    let says = "400: {\"error\": \"partial write";
    assert!(error.message.contains(says), "{}", error.message);
    let error = ingest("other", 100).error.unwrap();
    assert_contains(&error.message, "said 404");
}

#[test]
fn archives_are_sent_as_they_are() {
    let directory = venturi_testkit::Directory::new();
    let path = directory.file("sent");
    let order = format!(
        r#"{{"path": {path:?}, "data": {{"source": "metrics", "hosts": 9}}, "archives": 3,
            "steps": 200, "threads": 1, "level": 1}}"#
    );
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
    let data = format!(r#""data": {{"source": "archive", "path": {path:?}}}"#);
    let options = format!(r#""options": {{"http_port": {}}}"#, closed_port());
    let record = spec("akumuli", port, &format!("{data}, {options}"));
    assert_eq!(record.error, None);
    assert_eq!((record.counts.rows, manifest.points), (18_000, 18_000));
    assert_eq!(bytes.load(Relaxed) as u64, manifest.bytes);
    assert_eq!(record.counts.wire_bytes, manifest.bytes);
    let more = format!(r#"{data}, {options}, "rows_per_stream": 1500"#);
    let record = spec("akumuli", port, &more);
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 4_000);
    let record = spec("empty", port, &data);
    assert_eq!((record.error, record.counts.rows), (None, 18_000));

    let says = |scheme: &str, more: &str| {
        let record = spec(scheme, port, &format!("{data}, {more}"));
        record.error.unwrap().message
    };
    assert!(says("influx", &options).contains("akumuli://"));
    let format = options.replace("}", r#", "format": "rows"}"#);
    assert!(says("akumuli", &format).contains("text already"));
    let third = &manifest.archives[2].file;
    std::fs::write(format!("{path}/{third}"), b"no gzip").unwrap();
    assert!(says("akumuli", &options).contains("host_range_6_8.gz"));
}

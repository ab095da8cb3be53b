//! Clients that say what they should not, too slowly, or never to the end.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use proptest::prelude::*;

use super::*;
use venturi_testkit::arrow::{numbers, write_stream};
use venturi_testkit::{assert_contains, until};

fn stream(rows: i64) -> Vec<u8> {
    write_stream(&[numbers(0..rows)])
}

fn put(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("PUT {path} HTTP/1.1\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn chunked(path: &str, body: &[u8], cut: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut bytes = head.into_bytes();
    for piece in body.chunks(cut) {
        bytes.extend(format!("{:X};x=y\r\n", piece.len()).bytes());
        bytes.extend_from_slice(piece);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\nT: 1\r\n\r\n");
    bytes
}

#[test]
fn any_framing_of_a_stream_is_taken() {
    let server = serve("");
    let body = stream(1000);
    for cut in [1, 7, 1000, usize::MAX] {
        let answer = told(&server, &chunked("/t", &body, cut));
        assert_eq!(status(&answer), 200, "{answer}");
        assert_contains(&answer, "\"rows\":1000");
    }
    // One request behind the other, on one connection.
    let last = put("/b", "Connection: close\r\n", &body);
    let both = [put("/a", "", &body), last].concat();
    assert_eq!(told(&server, &both).matches("\"rows\":1000").count(), 2);
    let old = told(&server, b"GET /a HTTP/1.0\r\n\r\n");
    assert!(!old.contains("chunked"), "{old}");
    let end = old.find("\r\n\r\n").unwrap();
    assert!(old[..end].contains("Connection: close"), "{old}");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = serve(r#", "max_connections": 1, "patience_ns": 3600000000000"#);
    let first = connect(&server);
    let answer = told(&server, b"GET /t HTTP/1.1\r\n\r\n");
    assert_eq!(status(&answer), 503, "{answer}");
    assert_contains(&answer, "1 connection is open");
    drop(first);
}

#[test]
fn a_put_that_never_begins_makes_room() {
    let server = serve(r#", "max_connections": 1, "patience_ns": 200000000"#);
    let mut half = connect(&server);
    half.write_all(b"PUT /t HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        .unwrap();
    until("there is room", || {
        told(&server, b"GET / HTTP/1.1\r\n\r\n").contains(" 200 OK")
    });
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert_contains(&answer, "1 connection is open");
}

#[test]
fn leave_is_given_before_a_body_is_sent() {
    let server = serve("");
    let body = stream(10);
    let mut socket = connect(&server);
    let bytes = put("/t", "Expect: 100-continue\r\n", &body);
    let (head, body) = bytes.split_at(bytes.len() - body.len());
    socket.write_all(head).unwrap();
    let mut first = [0; 25];
    socket.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(body).unwrap();
    let mut answer = [0; 15];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[test]
fn what_is_wrong_is_refused_and_nothing_of_it_is_kept() {
    let server = serve(r#", "max_message_size": 100000"#);
    let body = stream(100);
    let head = |head: &str| format!("{head}\r\n\r\n").into_bytes();
    let get = |path: &str| head(&format!("GET {path} HTTP/1.1"));
    let put_as = |header: &str| put("/t", &format!("{header}\r\n"), &body);
    let pieces = |bytes: &str| {
        let chunked = "PUT /t HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{chunked}{bytes}\r\n").into_bytes()
    };
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(70_000));
    for (bytes, code, said) in [
        (get("/none"), 404, "no table"),
        (head("BREW /t HTTP/1.1"), 405, "does not take BREW"),
        (get("/.venturi/pot"), 404, "\"pot\""),
        (get("/records?rows=-1"), 400, "rows=\"-1\""),
        (get("/records?row=1"), 400, "no parameter"),
        (get("/records?columns=10001"), 400, "at most 10000"),
        (get("/records?rows_per_batch=2147483647"), 413, "memory"),
        (head("\u{16}\u{3}\u{1}\u{2}\0"), 400, "not"),
        (put_as("Content-Type: text/csv"), 415, "arrow.stream"),
        (put_as("Content-Encoding: br"), 415, "gzip and zstd"),
        (put_as("Content-Encoding: zstd"), 400, "not zstd"),
        (put("/t", "", b"no Arrow stream at all"), 400, "Arrow"),
        (put("/t", "", &body[..body.len() - 9]), 400, "to its end"),
        (put("/t", "", &[]), 400, "come to its end"),
        (put("/t", "", &[&body[..], b"!"].concat()), 400, "follow"),
        (put("/t", "", &stream(20_000)), 413, "bytes"),
        (pieces("fffffffffffffffff"), 400, "size"),
        (pieces("3\r\nabcd"), 400, "Arrow|size|chunk"),
        (long.into_bytes(), 431, "longer than"),
    ] {
        let answer = told(&server, &bytes);
        assert_eq!(status(&answer), code, "{answer}");
        let found = said.split('|').any(|said| answer.contains(said));
        assert!(found, "{said}: {answer}");
    }
    let tables = told(&server, b"GET / HTTP/1.1\r\n\r\n");
    assert_contains(&tables, "\"tables\":[]");
    // After all that it serves.
    assert_eq!(status(&told(&server, &put("/t", "", &body))), 200);
}

#[test]
fn a_body_that_is_not_read_is_no_request() {
    let server = serve("");
    let hidden = "DELETE /t HTTP/1.1\r\n\r\n";
    let length = hidden.len();
    assert_eq!(status(&told(&server, &put("/t", "", &stream(10)))), 200);
    for path in ["/", "/t"] {
        let head = format!("GET {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        let answer = told(&server, format!("{head}{hidden}").as_bytes());
        assert_eq!(status(&answer), 200, "{answer}");
    }
    let tables = told(&server, b"GET / HTTP/1.1\r\n\r\n");
    assert_contains(&tables, "\"rows\":10");
}

#[test]
fn who_is_cut_off_leaves_nothing() {
    let server = serve("");
    let body = stream(1000);
    let whole = put("/t", "", &body);
    for cut in [10, whole.len() - body.len() + 3, whole.len() - 1] {
        let answer = told(&server, &whole[..cut]);
        assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    }
    let tables = told(&server, b"GET / HTTP/1.1\r\n\r\n");
    assert_contains(&tables, "\"tables\":[]");
}

#[test]
fn who_does_not_say_what_he_wants_has_to_go() {
    let server = serve(r#", "patience_ns": 50000000"#);
    let mut socket = connect(&server);
    let mut answer = String::new();
    let slow = socket.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let mut slow = slow;
        // A byte now and then is not the end of a head.
        while slow.write_all(b"G").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let _ = socket.read_to_string(&mut answer);
    assert_eq!(status(&answer), 408);
    let _ = socket.shutdown(Shutdown::Both);
    writing.join().unwrap();
}

#[test]
fn a_token_is_demanded_of_everybody() {
    // A variable that every process has.
    let server = serve(r#", "token_env": "PATH""#);
    let token = std::env::var("PATH").unwrap();
    let basic = STANDARD.encode(format!("me:{token}"));
    let other = format!("{}\u{1}", &token[..token.len() - 1]);
    let all =
        "|Bearer |Bearer open|Bearer OTHER|Basic ???|TOKEN|Bearer TOKEN|Basic ".to_owned() + &basic;
    for (case, said) in all.split('|').enumerate() {
        let said = said.replace("TOKEN", &token).replace("OTHER", &other);
        let header = match case {
            0 => String::new(),
            _ => format!("Authorization: {said}\r\n"),
        };
        let request = format!("GET / HTTP/1.1\r\n{header}\r\n");
        let code = if case < 6 { 401 } else { 200 };
        assert_eq!(status(&told(&server, request.as_bytes())), code, "{header}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_bytes_are_answered_in_http_or_not_at_all(
        head in "(GET|PUT|POST|XX) /[a-z?=&%]{0,8} HTTP/1.[01]",
        fields in prop::collection::vec("[ -~]{0,30}", 0..4),
        body in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0usize..300,
    ) {
        static SERVER: std::sync::OnceLock<Server> = std::sync::OnceLock::new();
        let server = SERVER.get_or_init(|| serve(""));
        let mut bytes = format!("{head}\r\n{}\r\n\r\n", fields.join("\r\n")).into_bytes();
        bytes.extend(body);
        bytes.truncate(bytes.len().max(cut) - cut);
        let answer = told(server, &bytes);
        prop_assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{answer}");
    }
}

use std::fs;
use std::io::Read;
use std::net::UdpSocket;

use serde_json::{json, Value};

use super::super::segment::read_series;
use super::super::Server;
use super::*;
use venturi_testkit::{assert_contains, until};

/// What has to be the same after a restart.
fn holdings(server: &Server) -> Vec<Value> {
    let told = statistics(server);
    let names = "points series checksum first_unix_ns last_unix_ns min max".split(' ');
    names.map(|name| told[name].clone()).collect()
}

/// What is answered to these bytes is this.
fn answers(server: &Server, protocol: &str, text: &[u8], answer: &str) {
    assert_eq!(ask(server, protocol, text), answer);
}

/// The fields of `told` have these values.
fn has(told: &Value, expected: Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&told[name], value, "{name}: {told}");
    }
}

/// These rows are stored: so many points.
fn stores(server: &Server, rows: &str, points: usize) {
    let text = format!("{rows}+FLUSH\r\n");
    answers(
        server,
        "resp",
        text.as_bytes(),
        &format!("+OK {points}\r\n"),
    );
}

fn wait_for(server: &Server, name: &str, wanted: u64) {
    until(name, || statistics(server)[name] == wanted);
}

#[test]
fn what_was_flushed_survives_a_crash_in_every_mode_that_says_so() {
    for durable in ["os", "fsync"] {
        let folder = Folder::new();
        let server = start(&folder, json!({"durable": durable, "segment_points": 300}));
        let mut socket = connect(&server, "resp");
        flushed(&mut socket, &rows(10, 0..100), 2000);
        let held = holdings(&server);
        assert_eq!((&held[0], &held[1]), (&json!(2000), &json!(20)));
        // The copy is taken while memtables are being sealed.
        let crashed = folder.copy();
        let again = start(&crashed, json!({"durable": durable}));
        assert_eq!(holdings(&again), held, "{durable}");
        server.stop();
        assert_eq!(holdings(&server), held, "{durable}");
        drop(server);
        let again = start(&folder, json!({"durable": durable}));
        let told = statistics(&again);
        assert_eq!(holdings(&again), held, "{durable}");
        let seen = (&told["recovered"]["logs"], &told["log_bytes"]);
        assert_eq!(seen, (&json!(0), &json!(0)));
        assert!(told["stored_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn without_a_log_only_segments_are_kept() {
    let folder = Folder::new();
    let server = start(&folder, json!({"durable": "none"}));
    stores(&server, &rows(2, 0..5), 20);
    assert_eq!(statistics(&start(&folder.copy(), json!({})))["points"], 0);
    server.stop();
    assert_eq!(statistics(&start(&folder.copy(), json!({})))["points"], 20);
}

#[test]
fn every_protocol_brings_the_same_points() {
    let folder = Folder::new();
    let server = start(&folder, json!({}));
    let text = b"+VENTURI\r\n+a.b t=1\r\n:5\r\n+1.5\r\n+FLUSH\r\n";
    let hello = ask(&server, "resp", text);
    assert!(hello.starts_with("+VENTURI 1 pid="), "{hello}");
    assert!(hello.ends_with("\r\n+OK 1\r\n"), "{hello}");
    let text = b"put a.b 6000000000 1.5 t=1\nflush\n";
    answers(&server, "opentsdb", text, "ok 1\n");
    let text = b"a,t=1 b=1.5,c=2i 7000000000\n#flush\n";
    answers(&server, "influx", text, "ok 2\n");
    let (status, _) = post(&server, "/write?db=x&precision=s", "", b"a,t=1 b=1.5 8");
    assert_eq!(status, 204);
    let packed = packed(b"a,t=1 b=2.5 9000000000\n");
    let gzip = "\r\nContent-Encoding: gzip";
    let (status, _) = post(&server, "/api/v2/write?bucket=x", gzip, &packed);
    assert_eq!(status, 204);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = b"+a.b t=1\r\n:9000000001\r\n+9\r\n+a.b t=1\r\n:no\r\n";
    let address = server.address_of("udp").unwrap();
    udp.send_to(text, address).unwrap();
    wait_for(&server, "points", 7);
    let numbers = json!({
        "series": 2, "points": 7, "min": 1.5, "max": 9.0, "sum": 19.5,
        "first_unix_ns": 5, "last_unix_ns": 9_000_000_001i64,
    });
    has(&statistics(&server), numbers);
    for (request, status) in [
        ("GET /api/nothing HTTP/1.1", 404),
        ("PUT /api/stats HTTP/1.1", 405),
        ("GET /ping HTTP/1.1", 204),
    ] {
        assert_eq!(get(&server, request).0, status, "{request}");
    }
    let (status, body) = post(&server, "/write", "", b"a,t=1 b=3 99\na,t=1 b=x\n");
    assert_eq!(status, 400);
    assert_contains(&body, "late write");
}

#[test]
fn errors_close_and_what_came_before_stays() {
    let folder = Folder::new();
    let server = start(&folder, json!({"max_series": 3}));
    let text =
        b"+a t=1\r\n:5\r\n+1\r\n+a t=1\r\n:5\r\n+2\r\n+a t=1\r\n:4\r\n+3\r\n+a t=1\r\n:9\r\n+4\r\n";
    assert_eq!(ask(&server, "resp", text), "-DB late write - a t=1\r\n");
    let told = statistics(&server);
    assert_eq!((&told["points"], &told["late"]), (&json!(2), &json!(1)));
    let late = "database: late write - a t=1\n";
    let stamp = "-PARSER no stamp: YYYYMMDDTHHMMSS[.fraction] or nanoseconds - :x\r\n";
    let four = "+a|b|c|d t=1\r\n:6\r\n*4\r\n+1\r\n+1\r\n+1\r\n+1\r\n";
    let field = "error: a field is not name=number - a v=true\n";
    for (protocol, text, answer) in [
        ("resp", "+a t=1\r\n:x\r\n", stamp),
        ("opentsdb", "put a 0 2 t=1\n", late),
        ("influx", "a v=true\n", field),
        ("resp", four, "-DB too many series: max_series is 3\r\n"),
    ] {
        answers(&server, protocol, text.as_bytes(), answer);
    }
    assert!(ask(&server, "resp", "x".repeat(100_000).as_bytes()).starts_with("-PARSER "));
    wait_for(&server, "connections", 0);
}

#[test]
fn late_points_are_kept_when_asked_for() {
    let folder = Folder::new();
    let server = start(&folder, json!({"accept_late": true}));
    stores(&server, "+a t=1\r\n:5\r\n+1\r\n+a t=1\r\n:3\r\n+2\r\n", 2);
    let expected = json!({"points": 2, "late": 1, "first_unix_ns": 3});
    has(&statistics(&server), expected);
}

/// Points and their sum, of a series in all segments.
fn sealed(folder: &Folder, name: &str) -> (u64, f64) {
    let files = damage::files(folder, "series");
    let lines = files.iter().flat_map(|file| read_series(file).unwrap());
    let own = lines.filter(|(series, _)| series.starts_with(name.as_bytes()));
    own.fold((0, 0.0), |(points, sum), (_, it)| {
        (points + it.points, sum + it.sum)
    })
}

/// A refused row is the first one of its series in a memtable, then others come.
#[test]
fn a_refused_late_row_leaves_nothing_behind() {
    let folder = Folder::new();
    let server = start_one(&folder);
    let late = "-DB late write - a t=1\r\n";
    let tell = |row: &str| ask(&server, "resp", format!("{row}+FLUSH\r\n").as_bytes());
    assert_eq!(tell("+a t=1\r\n:50\r\n+1\r\n"), "+OK 1\r\n");
    assert_eq!(post(&server, "/api/seal", "", b"").0, 200);
    // In one memtable: refused, then the same series again, then another one.
    assert_eq!(tell("+a t=1\r\n:40\r\n+9\r\n"), late);
    assert_eq!(tell("+a t=1\r\n:60\r\n+2\r\n"), "+OK 1\r\n");
    assert_eq!(tell("+b t=1\r\n:60\r\n+4\r\n"), "+OK 1\r\n");
    assert_eq!(statistics(&server)["points"], 3);
    let crashed = folder.copy();
    assert_eq!(post(&server, "/api/seal", "", b"").0, 200);
    // The memtable is sealed between the two.
    assert_eq!(tell("+a t=1\r\n:41\r\n+9\r\n"), late);
    assert_eq!(post(&server, "/api/seal", "", b"").0, 200);
    assert_eq!(tell("+b t=1\r\n:70\r\n+8\r\n"), "+OK 1\r\n");
    assert_eq!(tell("+a t=1\r\n:70\r\n+16\r\n"), "+OK 1\r\n");
    let later = folder.copy();
    for (folder, a, b) in [(crashed, (2, 3.0), (1, 4.0)), (later, (3, 19.0), (2, 12.0))] {
        let again = start(&folder, json!({}));
        assert_eq!(statistics(&again)["points"], a.0 + b.0);
        assert_eq!(statistics(&again)["recovered"]["damaged"], json!([]));
        for (metric, (points, sum)) in [("a", a), ("b", b)] {
            assert_eq!(sealed(&folder, metric), (points, sum), "{metric}");
        }
    }
}

#[test]
fn more_connections_than_allowed_are_told() {
    let folder = Folder::new();
    let spec = json!({"max_connections": 1, "patience_ns": 10_000_000});
    let server = start(&folder, spec);
    // One that has said half a line makes room, one that has brought a point does not.
    let mut half = connect(&server, "resp");
    write!(half, "+a t=1").unwrap();
    let (mut answer, mut held) = ([0; 7], None);
    until("there is room", || {
        let mut client = connect(&server, "resp");
        let _ = write!(client, "+a t=1\r\n:5\r\n+1\r\n+FLUSH\r\n");
        let read = client.read_exact(&mut answer);
        held = Some(client);
        read.is_ok() && &answer == b"+OK 1\r\n"
    });
    for mut refused in [half, connect(&server, "resp")] {
        let mut answer = String::new();
        let _ = refused.read_to_string(&mut answer); // a reset may follow: its bytes are unread
        assert_contains(&answer, "-DB 1 connection is open");
    }
}

#[test]
fn a_log_that_cannot_be_written_is_told_and_counts_are_still_served() {
    let folder = Folder::new();
    let server = start_one(&folder);
    stores(&server, "+a t=1\r\n:5\r\n+1\r\n", 1);
    server.stop();
    drop(server);
    let server = start_one(&folder);
    fs::remove_dir(folder.0.join("log")).unwrap();
    for text in ["+a t=1\r\n:6\r\n+1\r\n+FLUSH\r\n", "+a t=1\r\n:7\r\n+1\r\n"] {
        let answer = ask(&server, "resp", text.as_bytes());
        assert!(answer.starts_with("-DB cannot make "), "{answer}");
    }
    let (status, body) = get(&server, "GET /api/stats HTTP/1.1");
    let told = parse_json(&body);
    assert_eq!((status, &told["points"]), (200, &json!(1)));
    assert!(told["failure"].as_str().unwrap().starts_with("cannot make"));
}

/// Names that never get a point must not fill the memory.
#[test]
fn a_memtable_full_of_names_makes_room() {
    let folder = Folder::new();
    let server = start(&folder, json!({"threads": 1, "memory": 16 << 20}));
    for round in 0..3 {
        let pairs = 20_000;
        let mut text = format!("*{}\r\n", 2 * pairs);
        for pair in 0..pairs {
            text += &format!("+a{round} t={pair}\r\n:{pair}\r\n");
        }
        stores(&server, &(text + ":7\r\n:1\r\n+1\r\n"), 1);
    }
    assert_eq!(statistics(&server)["points"], 3);
}

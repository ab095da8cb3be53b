//! Connections of several protocols share a reader's memtable, and read each its own way.
//!
//! The group of the second text's first line is followed by none yet, so the one that comes to mind is the
//! memtable's first: the other protocol's, whose key the line behind it is like.

use serde_json::json;

use super::{ask, start, start_one, statistics, Folder};

/// A text, then one of another protocol: what it is told, and the points that are stored of both.
fn after(first: (&str, &str, &str), second: (&str, &str), told: &str, points: u64) {
    let folder = Folder::new();
    let server = start_one(&folder);
    let (protocol, text, answer) = first;
    assert_eq!(ask(&server, protocol, text.as_bytes()), answer);
    let (protocol, text) = second;
    let found = ask(&server, protocol, text.as_bytes());
    assert!(found.contains(told), "{found}");
    assert_eq!(statistics(&server)["points"], points, "{found}");
    // Rows that do not fit their series cannot be sealed.
    server.stop();
    drop(server);
    assert_eq!(statistics(&start(&folder, json!({})))["points"], points);
}

#[test]
fn a_line_without_fields_has_no_value_left_over() {
    let first = ("opentsdb", "put cpu 1 5 a=b\nflush\n", "ok 1\n");
    let text = "mem,a=b value=1 1000\ncpu 2000000000\n";
    after(first, ("influx", text), "not name=number", 2);
}

#[test]
fn one_value_is_no_row_of_three() {
    let first = ("influx", "mem,a=b x=1,y=2,z=3 1000\n#flush\n", "ok 3\n");
    let text = "put cpu 1 5 a=b\nput mem,a=b 1483228801 5x=y=z=\n";
    after(first, ("opentsdb", text), "not a value", 4);
}

#[test]
fn the_end_of_a_tag_is_no_stamp() {
    let first = ("opentsdb", "put +cpu 1 5 a=b\nflush\n", "ok 1\n");
    let text = "+d a=b\r\n:1\r\n+1\r\n+cpu  a=b:5\r\n:1\r\n:2\r\n+FLUSH\r\n";
    after(first, ("resp", text), "+OK 2", 3);
}

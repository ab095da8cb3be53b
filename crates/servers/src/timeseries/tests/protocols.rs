//! Connections of several protocols share a reader's head, and read each its own way.

use serde_json::json;

use super::{ask, start, statistics, Folder};

/// The group of the second text's own line is followed by none yet, so the one that comes to mind
/// is the head's first: the other protocol's, whose key the line behind it is like.
#[test]
fn no_protocol_reads_by_another_ones_key() {
    let cases = [
        // Without a field there is no value; the last one that was read is not it.
        (
            ("opentsdb", "put cpu 1 5 a=b\nflush\n", "ok 1\n"),
            ("influx", "mem,a=b value=1 1000\ncpu 2000\n"),
            "not name=number",
            2,
        ),
        // One value is not a row of three.
        (
            ("influx", "mem,a=b x=1,y=2,z=3 1000\n#flush\n", "ok 3\n"),
            (
                "opentsdb",
                "put cpu 1 5 a=b\nput mem,a=b 1483228801 5x=y=z=\n",
            ),
            "not a value",
            4,
        ),
        // A tag's end is not a stamp.
        (
            ("opentsdb", "put +cpu 1 5 a=b\nflush\n", "ok 1\n"),
            (
                "resp",
                "+d a=b\r\n:1\r\n+1\r\n+cpu  a=b:5\r\n:1\r\n:2\r\n+FLUSH\r\n",
            ),
            "+OK 2",
            3,
        ),
    ];
    for ((first, text, answer), (second, other), told, points) in cases {
        let folder = Folder::new();
        let server = start(&folder, json!({"threads": 1}));
        assert_eq!(ask(&server, first, text.as_bytes()), answer);
        let found = ask(&server, second, other.as_bytes());
        assert!(found.contains(told), "{second} after {first}: {found}");
        assert_eq!(statistics(&server)["points"], points, "{second}: {found}");
        // Rows that do not fit their series cannot be sealed.
        server.stop();
        drop(server);
        assert_eq!(statistics(&start(&folder, json!({})))["points"], points);
    }
}

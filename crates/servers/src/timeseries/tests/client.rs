//! What our own client writes is what is stored, in every form and with either digits.

use serde_json::json;

use super::{ask, post, start, statistics, Folder};
use venturi_base::codec::timeseries::{Digits, Form, Influx, Names, OpenTsdb, Resp, Text, Writer};
use venturi_base::data::points::{Block, Layout, Metric};

fn layout() -> Layout {
    let metric = |name: &str, integer| Metric {
        name: name.into(),
        integer,
    };
    let mut layout = Layout::new(vec![
        metric("cpu.user", false),
        metric("cpu.sys", false),
        metric("idle", false),
        metric("iops", true),
    ]);
    for host in 0..5 {
        layout.add(format!("arch=x64 host=host_{host} region=eu").as_bytes());
    }
    layout
}

fn block(digits: Digits) -> Block {
    let mut block = Block::default();
    let mut walk = 10.0f64;
    for step in 0..300 {
        for key in 0..5 {
            block.keys.push(key);
            block
                .times
                .push(1_483_228_800_000_000_000 + step * 250_000_000);
            for column in 0..3 {
                // Steps that no short decimal has.
                walk += ((step * 31 + i64::from(key) * 7 + column) as f64).sin() / 97.0;
                block.values.push(walk);
            }
            block.values.push(f64::from(key) - 2.0);
        }
    }
    if digits == Digits::Shortest {
        // All sizes: these do not fit 17 digits behind a point.
        for (at, value) in block.values.iter_mut().enumerate() {
            if at % 4 < 3 {
                *value *= 10f64.powi(at as i32 % 60 - 30);
            }
        }
    }
    block
}

#[test]
fn every_form() {
    let layout = layout();
    for digits in [Digits::Seventeen, Digits::Shortest] {
        let block = block(digits);
        let resp = |form| Writer::Resp(Resp::new(form, digits, &layout));
        let forms = [
            ("resp", resp(Form::Rows)),
            ("resp", resp(Form::Values)),
            ("resp", resp(Form::Dictionary)),
            ("opentsdb", Writer::OpenTsdb(OpenTsdb::new(digits, &layout))),
            (
                "influx",
                Writer::Influx(Influx::new(digits, Names::AsTheyAre, &layout)),
            ),
        ];
        for (protocol, mut writer) in forms {
            let folder = Folder::new();
            let server = start(&folder, json!({"segment_points": 1000}));
            let mut out = Text::default();
            writer.write(&block, &layout, &mut out);
            let flush = match protocol {
                "resp" => "+FLUSH\r\n",
                "opentsdb" => "flush\n",
                _ => "#flush\n",
            };
            let text = [&writer.preamble(&layout), out.bytes(), flush.as_bytes()].concat();
            let answer = ask(&server, protocol, &text);
            assert!(
                answer.ends_with(&format!(" {}\n", block.points()))
                    || answer.ends_with(&format!(" {}\r\n", block.points())),
                "{protocol}: {answer}"
            );
            let told = statistics(&server);
            let expected = format!("{:016x}", block.digest(&layout));
            assert_eq!(told["checksum"], expected, "{protocol} {digits:?}");
            assert_eq!(told["series"], 20);
            let (status, body) = post(&server, "/api/seal", "", b"");
            let told: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, &told["checksum"]), (200, &json!(expected)));
            assert_eq!(told["log_bytes"], 0);
            assert!(told["stored_bytes"].as_u64().unwrap() > 10_000);
        }
    }
}

//! What our own client writes is what is stored, in every form and with either digits.

use serde_json::json;

use super::{ask, post, start, statistics, Folder};
use venturi_base::codec::timeseries::{Digits, Form, Influx, Names, OpenTsdb, Resp, Text, Writer};
use venturi_base::data::points::{Block, Layout, Metric};

fn layout() -> Layout {
    let metric = |name: &str| Metric {
        name: name.into(),
        integer: name == "iops",
    };
    let names = ["cpu.user", "cpu.sys", "idle", "iops"];
    let mut layout = Layout::new(names.map(metric).into());
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
            let time = 1_483_228_800_000_000_000 + step * 250_000_000;
            block.keys.push(key);
            block.times.push(time);
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
        let opentsdb = Writer::OpenTsdb(OpenTsdb::new(digits, &layout));
        let influx = Writer::Influx(Influx::new(digits, Names::AsTheyAre, &layout));
        for (protocol, flush, mut writer) in [
            ("resp", "+FLUSH\r\n", resp(Form::Rows)),
            ("resp", "+FLUSH\r\n", resp(Form::Values)),
            ("resp", "+FLUSH\r\n", resp(Form::Dictionary)),
            ("opentsdb", "flush\n", opentsdb),
            ("influx", "#flush\n", influx),
        ] {
            let folder = Folder::new();
            let server = start(&folder, json!({"segment_points": 1000}));
            let mut out = Text::default();
            writer.write(&block, &layout, &mut out);
            let text = [&writer.preamble(&layout), out.bytes(), flush.as_bytes()].concat();
            let answer = ask(&server, protocol, &text);
            let points = format!(" {}", block.points());
            assert!(answer.trim_end().ends_with(&points), "{answer}");
            let told = statistics(&server);
            let expected = format!("{:016x}", block.digest(&layout));
            assert_eq!(told["checksum"], expected, "{protocol} {digits:?}");
            assert_eq!(told["series"], 20);
            let (status, body) = post(&server, "/api/seal", "", b"");
            let told = super::parse_json(&body);
            assert_eq!((status, &told["checksum"]), (200, &json!(expected)));
            assert_eq!(told["log_bytes"], 0);
            assert!(told["stored_bytes"].as_u64().unwrap() > 10_000);
        }
    }
}

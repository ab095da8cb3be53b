//! The formats as they stand on the wire, and that the points in them are those of the block.

use super::*;
use crate::data::points::Metric;

const TIME: i64 = 1_483_228_801_000_000_000;

fn layout() -> Layout {
    let metric = |name: &str, integer| Metric {
        name: name.into(),
        integer,
    };
    let mut layout = Layout::new(vec![
        metric("cpu.user", false),
        metric("cpu.sys", false),
        metric("iops", true),
    ]);
    layout.add(b"arch=x64 host=a");
    layout.add(b"arch=x86 host=b");
    layout
}

fn block() -> Block {
    Block {
        keys: vec![0, 1],
        times: vec![TIME, TIME + 1_500_000_000],
        values: vec![1.5, -0.1, 9.0, 10.0, 2.0, -3.0],
        absent: Vec::new(),
    }
}

fn written(mut writer: Writer, block: &Block) -> (String, Text) {
    let mut out = Text::default();
    writer.write(block, &layout(), &mut out);
    (String::from_utf8(out.bytes().to_vec()).unwrap(), out)
}

fn resp(form: Form) -> Writer {
    Writer::Resp(Resp::new(form, Digits::Seventeen, &layout()))
}

#[test]
fn resp_rows() {
    let (text, out) = written(resp(Form::Rows), &block());
    assert_eq!(
        text,
        "+cpu.user|cpu.sys|iops arch=x64 host=a\r\n+20170101T000001\r\n*3\r\n+1.5\r\n+-0.10000000000000001\r\n:9\r\n\
         +cpu.user|cpu.sys|iops arch=x86 host=b\r\n+20170101T000002.500000000\r\n*3\r\n+10\r\n+2\r\n+-3\r\n"
    );
    assert_eq!(out.points(), 6);
    assert_eq!(out.points_within(text.len()), 6);
    assert_eq!(out.points_within(text.len() - 1), 3);
    assert_eq!(out.points_within(5), 0);
}

#[test]
fn resp_values_and_dictionary() {
    let (text, out) = written(resp(Form::Values), &block());
    assert!(text.starts_with(
        "+cpu.user arch=x64 host=a\r\n+20170101T000001\r\n+1.5\r\n+cpu.sys arch=x64 host=a\r\n"
    ));
    assert_eq!(out.ends().len(), 6);
    let writer = resp(Form::Dictionary);
    assert_eq!(
        String::from_utf8(writer.preamble(&layout())).unwrap(),
        "*4\r\n+cpu.user|cpu.sys|iops arch=x64 host=a\r\n:0\r\n+cpu.user|cpu.sys|iops arch=x86 host=b\r\n:1\r\n"
    );
    let (text, _) = written(writer, &block());
    assert!(text.starts_with(":0\r\n+20170101T000001\r\n*3\r\n+1.5\r\n"));
    assert!(text.contains("\r\n:1\r\n+20170101T000002.5"));
}

#[test]
fn lines() {
    let opentsdb = OpenTsdb::new(Digits::Seventeen, &layout());
    let (text, out) = written(Writer::OpenTsdb(opentsdb), &block());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "put cpu.user 1483228801 1.5 arch=x64 host=a");
    assert_eq!(lines[5], "put iops 1483228802500000000 -3 arch=x86 host=b");
    assert_eq!((lines.len(), out.points()), (6, 6));
    let influx = Influx::new(Digits::Shortest, Names::AsTheyAre, &layout());
    let (text, out) = written(Writer::Influx(influx), &block());
    assert_eq!(
        text,
        "cpu,arch=x64,host=a user=1.5,sys=-0.1 1483228801000000000\n\
         iops,arch=x64,host=a value=9i 1483228801000000000\n\
         cpu,arch=x86,host=b user=10,sys=2 1483228802500000000\n\
         iops,arch=x86,host=b value=-3i 1483228802500000000\n"
    );
    assert_eq!(out.ends().len(), 4);
    assert_eq!(out.points(), 6);
}

#[test]
fn names_that_are_columns() {
    let mut layout = Layout::new(vec![Metric {
        name: "net.in-use%".into(),
        integer: true,
    }]);
    layout.add(b"instance-type=m3-x.large rack=7");
    let rows = Block {
        keys: vec![0],
        times: vec![TIME],
        values: vec![4.0],
        absent: Vec::new(),
    };
    let as_it_is = "net,instance-type=m3-x.large,rack=7 in-use%=4i";
    let columns = "net,instance_type=m3-x.large,rack=7 in_use_=4i";
    for (names, says) in [(Names::AsTheyAre, as_it_is), (Names::Columns, columns)] {
        let mut out = Text::default();
        Influx::new(Digits::Shortest, names, &layout).write(&rows, &layout, &mut out);
        let text = String::from_utf8_lossy(out.bytes()).into_owned();
        assert_eq!(text, format!("{says} {TIME}\n"));
    }
}

#[test]
fn what_is_absent_is_not_written() {
    let absent = Block {
        absent: vec![false, true, false, true, true, true],
        ..block()
    };
    let (text, out) = written(resp(Form::Rows), &absent);
    assert_eq!(
        text,
        "+cpu.user arch=x64 host=a\r\n+20170101T000001\r\n+1.5\r\n+iops arch=x64 host=a\r\n+20170101T000001\r\n:9\r\n"
    );
    assert_eq!(out.points(), absent.points());
    let influx = Influx::new(Digits::Shortest, Names::AsTheyAre, &layout());
    let (text, _) = written(Writer::Influx(influx), &absent);
    assert_eq!(
        text,
        "cpu,arch=x64,host=a user=1.5 1483228801000000000\niops,arch=x64,host=a value=9i 1483228801000000000\n"
    );
}

#[test]
fn names() {
    assert!(check_names(["cpu.user", "host-1", "Größe"]).is_ok());
    for wrong in ["", "a b", "a=b", "a,b", ":1", "+x", "a|b", "a\n"] {
        assert!(check_names([wrong]).is_err(), "{wrong:?}");
    }
}

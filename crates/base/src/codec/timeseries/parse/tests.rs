use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use venturi_testkit::assert_contains;

/// Keeps every point; guesses that groups go round.
#[derive(Default)]
struct Kept {
    groups: Vec<(Vec<u8>, Vec<u32>, Vec<String>)>,
    keys: HashMap<Vec<u8>, Group>,
    last: usize,
    blind: bool,
    points: Vec<(String, i64, u64)>,
}

impl Sink for Kept {
    fn guess(&self) -> Option<Group> {
        let next = (self.last + 1) % self.groups.len().max(1);
        (!self.blind && next < self.groups.len()).then_some(next as Group)
    }

    fn key(&self, group: Group) -> (&[u8], &[u32]) {
        let (key, cuts, _) = &self.groups[group as usize];
        (key, cuts)
    }

    fn find(&self, key: &[u8]) -> Option<Group> {
        self.keys.get(key).copied()
    }

    fn define(&mut self, key: &[u8], cuts: &[u32], series: &[Vec<u8>]) -> Result<Group> {
        let group = self.groups.len() as Group;
        let name = |name: &Vec<u8>| String::from_utf8(name.clone()).unwrap();
        let names = series.iter().map(name).collect();
        self.groups.push((key.to_vec(), cuts.to_vec(), names));
        self.keys.insert(key.to_vec(), group);
        Ok(group)
    }

    fn width(&self, group: Group) -> usize {
        self.groups[group as usize].2.len()
    }

    fn push(&mut self, group: Group, time: i64, values: &[f64]) -> Result<()> {
        self.last = group as usize;
        let names = &self.groups[group as usize].2;
        for (name, value) in names.iter().zip(values) {
            self.points.push((name.clone(), time, value.to_bits()));
        }
        Ok(())
    }

    fn now(&self) -> i64 {
        77
    }
}

#[derive(Clone, Copy, Debug)]
enum Language {
    Resp,
    Opentsdb,
    Influx,
}

type Outcome = (Vec<(String, i64, u64)>, Vec<Step>, Option<Wrong>);

/// What becomes of an input that arrives in pieces cut at these places.
fn read(language: Language, input: &[u8], cuts: &[usize], blind: bool) -> Outcome {
    let mut kept = Kept {
        blind,
        ..Kept::default()
    };
    let mut scratch = Scratch::default();
    let mut reader = resp::Reader::new(Arc::new(AtomicUsize::new(100)));
    let mut steps = Vec::new();
    let mut start = 0;
    for &end in cuts.iter().chain([&input.len()]) {
        loop {
            let seen = &input[start..end.max(start)];
            let progress = match language {
                Language::Resp => reader.read(seen, &mut kept, &mut scratch),
                Language::Opentsdb => opentsdb::read(seen, &mut kept, &mut scratch),
                Language::Influx => influx::read(seen, 1, &mut kept, &mut scratch),
            };
            match progress {
                Err(wrong) => return (kept.points, steps, Some(wrong)),
                Ok(Progress { consumed, step }) => {
                    start += consumed;
                    if step == Step::Read {
                        break;
                    }
                    steps.push(step);
                }
            }
        }
    }
    (kept.points, steps, None)
}

fn point(name: &str, time: i64, value: f64) -> (String, i64, u64) {
    (name.into(), time, value.to_bits())
}

const SECOND: i64 = 1_000_000_000;

const RESP: &str = "*4\r\n+d.m b=2 a=1\r\n:1\r\n+d.n a=1\r\n:2\r\n\
    +VENTURI\r\n\
    +cpu.user|cpu.sys  host=b  dc=x\r\n+20170101T000001\r\n*2\r\n+1.5\r\n+-2e3\r\n\
    +cpu.user|cpu.sys  host=b  dc=x\r\n+20170101T000002.5\r\n*2\r\n+10.012345678901234\r\n:7\r\n\
    +a.b x=y\n:5\n+0x10\n\
    :2\r\n:6\r\n*1\r\n+nan\r\n:1\r\n+7\r\n+1\r\n\
    +FLUSH\r\n:2\r\n+8\r\n+0.1\r\n";

#[test]
fn resp_as_akumuli_takes_it() {
    let half = 1_483_228_802 * SECOND + SECOND / 2;
    let expected = vec![
        point("cpu.user dc=x host=b", 1_483_228_801 * SECOND, 1.5),
        point("cpu.sys dc=x host=b", 1_483_228_801 * SECOND, -2000.0),
        point("cpu.user dc=x host=b", half, 10.012345678901234),
        point("cpu.sys dc=x host=b", half, 7.0),
        point("a.b x=y", 5, 16.0),
        point("d.n a=1", 6, f64::NAN),
        point("d.m a=1 b=2", 7, 1.0),
        point("d.n a=1", 8, 0.1),
    ];
    let (points, steps, wrong) = read(Language::Resp, RESP.as_bytes(), &[], false);
    assert_eq!((points, wrong), (expected, None));
    assert_eq!(steps, [Step::Hello, Step::Flush]);
}

#[test]
fn opentsdb_lines() {
    let text = b"put cpu.user 1483228801 1.5 host=a dc=x\nput  cpu.user 1483228802 2 host=a dc=x\r\n\
        put cpu.user 1483228803 2.25 host=a dc=x\n\nput cpu.user 1483228803000000001 3 host=a dc=x\nflush\n";
    let (points, steps, wrong) = read(Language::Opentsdb, text, &[], false);
    let name = "cpu.user dc=x host=a";
    let expected = vec![
        point(name, 1_483_228_801 * SECOND, 1.5),
        point(name, 1_483_228_802 * SECOND, 2.0),
        point(name, 1_483_228_803 * SECOND, 2.25),
        point(name, 1_483_228_803 * SECOND + 1, 3.0),
    ];
    assert_eq!((points, wrong), (expected, None));
    assert_eq!(steps, [Step::Flush]);
}

#[test]
fn influx_lines() {
    let text = b"cpu,host=a,dc=x user=1.5,sys=2i 10\ncpu,host=a,dc=x user=1.5,sys=-2i 11\n\
        # a comment\r\nm\\ 1,t=a\\,b value=3u\n#flush\n  plain v=1e3 12 \n";
    let (points, steps, wrong) = read(Language::Influx, text, &[], false);
    let expected = vec![
        point("cpu.user dc=x host=a", 10, 1.5),
        point("cpu.sys dc=x host=a", 10, 2.0),
        point("cpu.user dc=x host=a", 11, 1.5),
        point("cpu.sys dc=x host=a", 11, -2.0),
        point("m\\ 1 t=a\\,b", 77, 3.0),
        point("plain.v", 12, 1000.0),
    ];
    assert_eq!((points, wrong), (expected, None));
    assert_eq!(steps, [Step::Flush]);
}

const RESP_MISTAKES: [(&str, &str); 15] = [
    ("hello\r\n", "a series begins with"),
    ("*999999999\r\n", "pairs of name"),
    ("*999999998\r\n+a b=c\r\n+x\r\n", "begins with :"),
    (":7\r\n+1\r\n+1\r\n", "no such number"),
    ("+a\r\n", "no tag"),
    ("+ a=b\r\n", "no tag"),
    ("+a b=c b=d\r\n", "twice"),
    ("+a b\r\n", "not name=value"),
    ("+a| b=c\r\n", "no name"),
    ("+a\u{1} b=c\r\n", "printable"),
    ("+a b=c\r\n+yesterday\r\n", "no stamp"),
    ("+a b=c\r\n+1\r\n+one\r\n", "not a value"),
    ("+a b=c\r\n+1\r\n:-1\r\n", "not a value"),
    ("+a b=c\r\n+1\r\n*999999999\r\n", "a row of 1"),
    ("+a|b b=c\r\n+1\r\n+2\r\n", "a row of 2"),
];

const OPENTSDB_MISTAKES: [(&str, &str); 3] = [
    ("get x\n", "only command"),
    ("put a 1 2\n", "no tag"),
    ("put a x 2 b=c\n", "no stamp"),
];

/// Also behind a line of the same series, which is read the short way.
const INFLUX_MISTAKES: [(&str, &str); 5] = [
    ("a,b=c d=\"text\" 1\n", "not name=number"),
    ("a,b=c d=true 1\n", "not name=number"),
    ("a,b d=1 1\n", "not name=value"),
    ("a,b=c d=1 1\na,b=c d=1.5i 2\n", "not name=number"),
    ("a,b=c d=1 1\na,b=c d=inf 2\n", "not name=number"),
];

#[test]
fn what_is_wrong_is_told() {
    let long = "x".repeat(70_000);
    let compound = format!("+{}a t=1\r\n", "m|".repeat(256));
    let message = format!(
        "+{}a t=1\r\n+1\r\n*256\r\n{}",
        "m|".repeat(255),
        format!("+0{}1\r\n", "0".repeat(990)).repeat(80)
    );
    use Language::{Influx, Opentsdb, Resp};
    let large = [
        (&*long, "longer than 1024"),
        (&compound, "more than 256"),
        (&message, "longer than 65536"),
    ];
    for (language, cases) in [
        (Resp, &RESP_MISTAKES[..]),
        (Opentsdb, &OPENTSDB_MISTAKES),
        (Influx, &INFLUX_MISTAKES),
        (Resp, &large),
        (Opentsdb, &large[..1]),
        (Influx, &[(&*long, "longer than 65536")]),
    ] {
        for (text, expected) in cases {
            match read(language, text.as_bytes(), &[], false).2 {
                Some(Wrong::Parser { why, .. }) => assert_contains(&why, expected),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
    let pairs: String = (0..150).map(|i| format!("+a b={i}\r\n:{i}\r\n")).collect();
    let dictionary = format!("*300\r\n{pairs}");
    let full = read(Resp, dictionary.as_bytes(), &[], false).2;
    assert!(matches!(full, Some(Wrong::Store(_))), "{full:?}");
}

/// All parsers of a thread share their room; each remembers its own stamps.
#[test]
fn a_stamp_of_another_protocol_is_none() {
    let (mut kept, mut scratch) = (Kept::default(), Scratch::default());
    let line = b"put a 1483228801 1 b=c\n";
    opentsdb::read(&[*line; 2].concat(), &mut kept, &mut scratch).unwrap();
    let mut reader = resp::Reader::new(Arc::new(AtomicUsize::new(0)));
    let text = b"+a b=c\r\n1483228801+1\r\n";
    reader.read(text, &mut kept, &mut scratch).unwrap_err();
    // The same digits count other things.
    let mut kept = Kept::default();
    let line = b"a,b=c value=1 1483228801\n";
    for unit in [1, 1000, 1] {
        influx::read(&[*line; 2].concat(), unit, &mut kept, &mut scratch).unwrap();
    }
    let times: Vec<i64> = kept.points.iter().map(|point| point.1).collect();
    let [one, thousand] = [1_483_228_801, 1_483_228_801_000];
    assert_eq!(times, [one, one, thousand, thousand, one, one]);
}

#[test]
fn room_for_dictionaries_comes_back() {
    let room = Arc::new(AtomicUsize::new(3));
    let mut reader = resp::Reader::new(room.clone());
    let text = b"*4\r\n+a b=1\r\n:1\r\n+a b=2\r\n:1\r\n";
    let (mut kept, mut scratch) = (Kept::default(), Scratch::default());
    reader.read(text, &mut kept, &mut scratch).unwrap();
    assert_eq!(room.load(std::sync::atomic::Ordering::Relaxed), 2);
    drop(reader);
    assert_eq!(room.load(std::sync::atomic::Ordering::Relaxed), 3);
}

fn any_language() -> impl Strategy<Value = Language> {
    use Language::{Influx, Opentsdb, Resp};
    prop::sample::select(vec![Resp, Opentsdb, Influx])
}

/// Text that is nearly right: pieces of the languages in any order.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    // Apart by a tab, which none of them has.
    let pieces = b"+a b=c\r\n\t+a|d b=c\r\n\t+1\r\n\t:2\r\n\t*2\r\n\t*4\r\n\t+1.5\r\n\t+20170101T000000\r\n\t\
        \r\n\t+\tput a 1 2 b=c\n\tput a 1 \tb=c\n\tm,t=1 f=2,g=3 4\n\tm,t=1 \tf=1i\t,g=2 7\n\t+FLUSH\r\n\t\
        flush\n\t#flush\n\t\\\t\xff\t10.012345678901234\t \t\n";
    let pieces: Vec<&[u8]> = pieces.split(|byte| *byte == b'\t').collect();
    let pieces = prop::sample::select(pieces);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn cuts_and_guesses_make_no_difference(
        language in any_language(),
        text in prop_oneof![nearly(), Just(RESP.as_bytes().to_vec())],
        mut cuts in prop::collection::vec(0usize..400, 0..12),
    ) {
        cuts.retain(|&cut| cut <= text.len());
        cuts.sort_unstable();
        let whole = read(language, &text, &[], true);
        prop_assert_eq!(&read(language, &text, &cuts, true), &whole);
        prop_assert_eq!(&read(language, &text, &cuts, false), &whole);
    }

    #[test]
    fn garbage_is_no_panic(language in any_language(), text: Vec<u8>) {
        read(language, &text, &[], false);
    }
}

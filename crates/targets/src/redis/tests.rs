use std::time::Duration;

use arrow_array::{Int64Array, StringArray};

use super::link::{pattern, prefix, Access};
use super::{scanned, Rows, URL};
use crate::upsert::{Builder, Login, Place};
use venturi_base::codec::redis::{Command, Reply};
use venturi_base::data::upsert::Table;
use venturi_base::error::Kind;
use venturi_testkit::arrow::{array, batch};
use venturi_testkit::{assert_contains, assert_error, roles};

#[test]
fn refusals_say_what_to_do() {
    let place = Place::parse("redis://h/2", &URL).unwrap();
    let login = Login::default();
    let access = Access::new(&place, &login, &[], "venturi_usage", Duration::MAX).unwrap();
    use Kind::{Auth, Server};
    for (line, kind, part) in [
        ("-NOAUTH Authentication required.", Auth, "password_env"),
        ("-WRONGPASS invalid username", Auth, "password_env"),
        ("-NOPERM this user has no permissions", Auth, "ACL SETUSER"),
        ("-WRONGTYPE Operation against", Server, "venturi_usage:"),
        ("-READONLY You can't write", Server, "primary"),
        ("-MOVED 3999 127.0.0.1:6381", Server, "Redis Cluster"),
        ("-OOM command not allowed", Server, "maxmemory"),
        ("-ERR DB index is out of range", Server, "no database 2"),
        ("-ERR max number of clients reached", Server, "--streams"),
        ("-ERR hash value is not an integer", Server, "--table"),
        ("-ERR unknown command", Server, "unknown command"),
    ] {
        let reply = Reply::parse(format!("{line}\r\n").as_bytes()).unwrap();
        let error = access.done(reply).unwrap_err();
        assert_error!(error, kind, part);
        let code = line[1..].split(' ').next();
        assert_eq!(error.code.as_deref(), code);
    }
    let wrong = Place::parse("redis://h/shop", &URL).unwrap();
    let access = Access::new(&wrong, &login, &[], "t", Duration::MAX);
    assert_contains(&access.err().unwrap().message, "redis://h:6379/0");
}

#[test]
fn pages_of_keys() {
    let page = |bytes: &[u8]| scanned(Reply::parse(bytes).unwrap());
    let keys = vec![b"t:1".to_vec(), b"t:\xff".to_vec()];
    let whole = b"*2\r\n$2\r\n17\r\n*2\r\n$3\r\nt:1\r\n$3\r\nt:\xff\r\n";
    assert_eq!(page(whole), Some((17, keys)));
    let others = "+OK|*0|*1 $1 0|*2 $1 x *0|*2 $2 -1 *0|*2 *0 *0|*2 $1 0 *1 $-1";
    for other in others.split('|') {
        let bytes = other.replace(' ', "\r\n") + "\r\n";
        assert_eq!(page(bytes.as_bytes()), None, "{other}");
    }
}

#[test]
fn keys_of_tables_are_apart() {
    let key = |text: &str| String::from_utf8(prefix(text)).unwrap();
    assert_eq!(key("venturi_usage"), "venturi_usage:");
    assert_eq!(key("a:b%"), "a%3Ab%25:");
    assert_eq!(pattern("v[1]*"), b"v\\[1\\]\\*:*");
}

#[test]
fn a_batch_is_a_pipeline() {
    let rows = batch([
        ("id", array(StringArray::from(vec!["a:\r\n", "b"]))),
        ("hits", array(Int64Array::from(vec![Some(-3), None]))),
        ("at", array(StringArray::from(vec![Some("x"), None]))),
    ]);
    let built = |add: &[&str]| {
        let table = Table::new("t", rows.schema(), &roles(&["id"], add)).unwrap();
        Rows::new("t").build(&table, &rows).unwrap()
    };
    let packed = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.packed()
    };
    let made = built(&["hits"]);
    let wanted = [
        &["HINCRBY", "t:a%3A\r\n", "hits", "-3"][..],
        &["HSET", "t:a%3A\r\n", "at", "x"],
        &["HINCRBY", "t:b", "hits", "0"],
        &["HDEL", "t:b", "at"],
    ];
    assert_eq!(made.commands, wanted.len());
    assert_eq!(made.bytes, wanted.map(packed).concat());
    // Without a counter the hash has its key's columns too, for one without a field would not be there.
    let made = built(&[]);
    let first = ["HSET", "t:a%3A\r\n", "id", "a:\r\n", "hits", "-3"];
    let first = [&first[..], &["at", "x"]].concat();
    let wanted = [
        &first[..],
        &["HSET", "t:b", "id", "b"],
        &["HDEL", "t:b", "hits", "at"],
    ];
    assert_eq!(made.bytes, wanted.map(packed).concat());
}

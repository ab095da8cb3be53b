use proptest::prelude::*;

use super::*;

fn greeting() -> Vec<u8> {
    let mut message = b"\x0a5.5.5-10.11.19-MariaDB\0".to_vec();
    message.extend([7, 0, 0, 0]);
    message.extend(b"abcdefgh\0");
    message.extend([0xfe, 0xf7, 45, 2, 0, 0xff, 0x81, 21]);
    message.extend([0; 10]);
    message.extend(b"ijklmnopqrst\0mysql_native_password\0");
    message
}

#[test]
fn a_recorded_greeting() {
    let parsed = Greeting::parse(&greeting()).unwrap();
    assert_eq!(parsed.version, "10.11.19-MariaDB");
    assert_eq!(parsed.nonce, b"abcdefghijklmnopqrst");
    assert_eq!(parsed.plugin, "mysql_native_password");
    assert_eq!(parsed.capabilities, 0x81ff_f7fe);
    for end in 0..60 {
        assert!(Greeting::parse(&greeting()[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_login_asks_for_what_the_server_has() {
    let server = Greeting::parse(&greeting()).unwrap();
    let mut login = Login {
        user: "me",
        database: Some("d"),
        plugin: "mysql_native_password",
        response: b"xyz",
        tls: false,
    };
    let capabilities = login.capabilities(&server).unwrap();
    assert_eq!(capabilities & capability::SSL, 0);
    let message = login.message(capabilities);
    assert_eq!(&message[32..], b"me\0\x03xyzd\0mysql_native_password\0");
    login.tls = true;
    assert_eq!(login.capabilities(&server), None); // 0xf7fe lacks 0x800
}

#[test]
fn answers() {
    assert_eq!(Answer::parse(&[0, 1, 0, 2, 0, 0, 0]).unwrap(), Answer::Ok);
    assert_eq!(Answer::parse(&[0xfe, 0, 0, 2, 0]).unwrap(), Answer::End);
    let refused = Answer::parse(b"\xff\xbd\x04#40001Deadlock found").unwrap();
    let expected = Refusal {
        code: 1213,
        state: "40001".into(),
        message: "Deadlock found".into(),
    };
    assert_eq!(refused, Answer::Refused(expected));
    // Before the handshake there is no state.
    let Answer::Refused(early) = Answer::parse(b"\xff\x10\x04Too many connections").unwrap() else {
        panic!("no error");
    };
    assert_eq!(early.code, 1040);
    assert_eq!(early.message.as_str(), "Too many connections");
    assert!(Answer::parse(b"").is_err() && Answer::parse(b"\xff\x01").is_err());
    let seen = row(b"\x03abc\xfb\x00", 3).unwrap();
    assert_eq!(seen, [Some("abc".into()), None, Some(String::new())]);
    assert!(row(b"\x03ab", 1).is_err());
    let seen = prepared(b"\0\x05\0\0\0\x01\0\x08\0\0\0\0").unwrap();
    assert_eq!(seen, (5, 8, 1));
}

#[test]
fn a_full_packet_is_followed_by_another() {
    for length in [0, 1, MOST - 2, MOST - 1, MOST, 2 * MOST - 1] {
        let built = command(command::QUERY, |out| {
            out.resize(out.len() + length, b'x');
            Ok(())
        })
        .unwrap();
        let mut expected = Vec::new();
        let mut message = vec![command::QUERY];
        message.resize(1 + length, b'x');
        frame(&message, 0, &mut expected);
        assert!(built == expected, "{length}");
        assert_eq!(message_length(&built), 1 + length);
    }
}

proptest! {
    #[test]
    fn lengths(length in any::<u32>()) {
        let mut out = Vec::new();
        put_length(length as usize, &mut out);
        let mut reader = Reader(&out);
        prop_assert_eq!(reader.integer(), Some(length.into()));
        prop_assert!(reader.0.is_empty());
    }

    #[test]
    fn where_messages_are_cut_makes_no_difference(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9000), 0..5),
        cut in 1usize..5000,
    ) {
        let mut bytes = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            frame(message, number as u8, &mut bytes);
        }
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let room = assembler.room();
            let count = rest.len().min(cut).min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            assembler.filled(count);
            rest = &rest[count..];
            while let Some((sequence, message)) = assembler.next().unwrap() {
                prop_assert_eq!(usize::from(sequence), found.len());
                found.push(message.to_vec());
            }
        }
        prop_assert_eq!(found, messages);
        prop_assert!(assembler.is_empty());
    }

    #[test]
    fn garbage_is_refused_not_followed(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Greeting::parse(&bytes);
        let _ = Answer::parse(&bytes);
        let _ = row(&bytes, 5);
        let _ = prepared(&bytes);
    }
}

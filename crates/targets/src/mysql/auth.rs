//! How a password is shown to be known.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};

use mysql_common::crypto;
use mysql_common::scramble::{scramble_native, scramble_sha256};

use venturi_base::error::{Error, Kind, Result};

/// What a server asks with after `caching_sha2_password` was tried.
const KNOWN: u8 = 3;
const FULL: u8 = 4;
/// What a client asks with for the server's key.
const ASK_KEY: u8 = 2;

/// A password that nothing prints.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    pub fn new(password: String) -> Self {
        Self(password)
    }

    fn with_end(&self) -> Vec<u8> {
        let mut bytes = self.0.clone().into_bytes();
        bytes.push(0);
        bytes
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The first answer by a plugin's rules. A plugin that is not known is answered by nothing: the
/// server then says which one the account has.
pub fn respond(plugin: &str, secret: &Secret, nonce: &[u8], private: bool) -> Result<Vec<u8>> {
    let password = secret.0.as_bytes();
    match plugin {
        "mysql_native_password" => {
            Ok(scramble_native(nonce, password).map_or(vec![], |made| made.to_vec()))
        }
        "caching_sha2_password" => {
            Ok(scramble_sha256(nonce, password).map_or(vec![], |made| made.to_vec()))
        }
        "mysql_clear_password" | "sha256_password" if private => Ok(secret.with_end()),
        "mysql_clear_password" => Err(Error::new(
            Kind::Auth,
            "the account's password would be sent in the clear: use mysql+tls:// or mysql+unix://",
        )),
        other => Err(Error::new(
            Kind::Auth,
            format!(
                "the account uses the authentication plugin {other:?}, which Venturi does not know; \
                 it knows mysql_native_password, caching_sha2_password, and over TLS or a Unix socket \
                 mysql_clear_password"
            ),
        )),
    }
}

/// What follows on a message of `caching_sha2_password`.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The server's verdict.
    Wait,
    Send(Vec<u8>),
}

/// `private`: nobody else hears it.
pub fn go_on(message: &[u8], secret: &Secret, nonce: &[u8], private: bool) -> Result<Next> {
    match message {
        [1, KNOWN] => Ok(Next::Wait),
        [1, FULL] if private => Ok(Next::Send(secret.with_end())),
        [1, FULL] => Ok(Next::Send(vec![ASK_KEY])),
        [1, key @ ..] if !private && key.starts_with(b"-----BEGIN") => {
            let mut hidden = secret.with_end();
            for (byte, mask) in hidden.iter_mut().zip(nonce.iter().cycle()) {
                *byte ^= mask;
            }
            // It panics at a key that is none.
            catch_unwind(AssertUnwindSafe(|| crypto::encrypt(&hidden, key)))
                .map(Next::Send)
                .map_err(|_| Error::protocol("the server's public key cannot be used"))
        }
        _ => Err(Error::protocol(
            "the server's log-in takes a turn that is not known; does it speak MySQL's protocol?",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &[u8] = b"abcdefghijklmnopqrst";

    #[test]
    fn answers_by_plugin() {
        let secret = Secret::new("geheim".into());
        let native = respond("mysql_native_password", &secret, NONCE, false).unwrap();
        assert_eq!(native.len(), 20);
        let sha = respond("caching_sha2_password", &secret, NONCE, false).unwrap();
        assert_eq!(sha.len(), 32);
        let nothing = Secret::default();
        assert!(respond("mysql_native_password", &nothing, NONCE, false)
            .unwrap()
            .is_empty());
        assert_eq!(
            respond("mysql_clear_password", &secret, NONCE, true).unwrap(),
            b"geheim\0"
        );
        let clear = respond("mysql_clear_password", &secret, NONCE, false).unwrap_err();
        assert!(clear.message.contains("mysql+tls://"));
        let other = respond("client_ed25519", &secret, NONCE, false).unwrap_err();
        assert!(other.message.contains("client_ed25519"));
        assert_eq!(format!("{secret:?}"), "(secret)");
    }

    #[test]
    fn caching_goes_on() {
        let secret = Secret::new("geheim".into());
        let step = |message: &[u8], private| go_on(message, &secret, NONCE, private);
        assert_eq!(step(&[1, 3], false).unwrap(), Next::Wait);
        assert_eq!(step(&[1, 4], true).unwrap(), Next::Send(b"geheim\0".into()));
        assert_eq!(step(&[1, 4], false).unwrap(), Next::Send(vec![2]));
        let broken = step(b"\x01-----BEGIN PUBLIC KEY-----\nnonsense", false);
        assert!(broken.unwrap_err().message.contains("public key"));
        assert!(step(&[1, 9], false).is_err() && step(b"", true).is_err());
    }
}

//! How a password is shown to be known.

use std::fmt;

use aws_lc_rs::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey, OAEP_SHA1_MGF1SHA1};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::SubjectPublicKeyInfoDer;

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
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Ok(vec![]),
        "mysql_native_password" => Ok(native(password, nonce)),
        "caching_sha2_password" => Ok(caching_sha2(password, nonce)),
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

/// `SHA1(password) ^ SHA1(nonce, SHA1(SHA1(password)))`
fn native(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let once = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[password]);
    let twice = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[&once]);
    masked(once, &hash(&SHA1_FOR_LEGACY_USE_ONLY, &[nonce, &twice]))
}

/// `SHA256(password) ^ SHA256(SHA256(SHA256(password)), nonce)`
fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let once = hash(&SHA256, &[password]);
    let twice = hash(&SHA256, &[&once]);
    masked(once, &hash(&SHA256, &[&twice, nonce]))
}

fn hash(algorithm: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(algorithm);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().to_vec()
}

/// `bytes ^ mask`, which repeats.
fn masked(mut bytes: Vec<u8>, mask: &[u8]) -> Vec<u8> {
    for (byte, mask) in bytes.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    bytes
}

/// `text` for the holder of the private key only (RSA-OAEP with SHA-1); `None`: the key cannot be used.
fn encrypted(text: &[u8], pem: &[u8]) -> Option<Vec<u8>> {
    let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
    let key = PublicEncryptingKey::from_der(&key).ok()?;
    let key = OaepPublicEncryptingKey::new(key).ok()?;
    let mut out = vec![0; key.ciphertext_size()];
    let made = key
        .encrypt(&OAEP_SHA1_MGF1SHA1, text, &mut out, None)
        .ok()?;
    Some(made.to_vec())
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
            let hidden = encrypted(&masked(secret.with_end(), nonce), key).map(Next::Send);
            hidden.ok_or_else(|| Error::protocol("the server's public key cannot be used"))
        }
        _ => Err(Error::protocol(
            "the server's log-in takes a turn that is not known; does it speak MySQL's protocol?",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rsa::{KeySize, OaepPrivateDecryptingKey, PrivateDecryptingKey};
    use base64::engine::general_purpose::STANDARD;
    use base64::Engine;

    const NONCE: &[u8] = b"abcdefghijklmnopqrst";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn answers_by_plugin() {
        let secret = Secret::new("geheim".into());
        // By Python's hashlib.
        for (plugin, expected) in [
            (
                "mysql_native_password",
                "bbcdd98c2cc26e66e1163072def02efa6672b012",
            ),
            (
                "caching_sha2_password",
                "9d5463db7402d7b2a6024117cc0517debae53b09d2425fb4d80386ef286c8beb",
            ),
        ] {
            let answer = respond(plugin, &secret, NONCE, false).unwrap();
            assert_eq!(hex(&answer), expected);
            let nothing = respond(plugin, &Secret::default(), NONCE, false).unwrap();
            assert_eq!(nothing, b"");
        }
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
        assert!(step(&[1, 9], false).is_err() && step(b"", true).is_err());
    }

    fn pem(key: &[u8]) -> String {
        let text = STANDARD.encode(key);
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
    }

    /// Whether another library reads it is what `tests/unit/test_mysql_login.py` asks.
    #[test]
    fn only_the_server_reads_the_password() {
        let secret = Secret::new("geheim".into());
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let public: PublicKeyX509Der = private.public_key().as_der().unwrap();
        let message = format!("\x01{}", pem(public.as_ref()));
        let next = go_on(message.as_bytes(), &secret, NONCE, false).unwrap();
        let Next::Send(sent) = next else {
            panic!("nothing is sent");
        };
        let private = OaepPrivateDecryptingKey::new(private).unwrap();
        let mut room = vec![0; private.min_output_size()];
        let read = private.decrypt(&OAEP_SHA1_MGF1SHA1, &sent, &mut room, None);
        assert_eq!(masked(read.unwrap().to_vec(), NONCE), b"geheim\0");
    }

    #[test]
    fn keys_that_cannot_be_used() {
        let long = Secret::new("x".repeat(300));
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let public: PublicKeyX509Der = private.public_key().as_der().unwrap();
        let whole = pem(public.as_ref());
        let secret = Secret::new("geheim".into());
        for (secret, key) in [
            (&secret, "-----BEGIN PUBLIC KEY-----\nnonsense"),
            (&secret, &whole[..whole.len() / 2]),
            (&secret, &pem(b"\x30\x82\xff\xff")),
            (&secret, &whole.replace("PUBLIC", "PRIVATE")),
            (&long, &whole),
        ] {
            let message = format!("\x01{key}");
            let error = go_on(message.as_bytes(), secret, NONCE, false).unwrap_err();
            assert!(error.message.contains("public key cannot be used"), "{key}");
        }
    }
}

//! Logging in by Srp and Srp256 (RFC 5054 as Firebird has it), and Arc4, which encrypts what follows.

use aws_lc_rs::digest::{digest, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use num_bigint::BigUint;

use venturi_base::error::{Error, Kind, Result};

use super::connect::Reader;

/// The group that all servers share; its generator is 2.
const PRIME: &[u8] = b"E67D2E994B2F900C3F41F08F5BB2627ED0D49EE1FE767A52EFCD565CD6E768812C3E1E9CE8F0A8BEA6CB13CD29DDEBF7A96D4A93B55D488DF099A15C89DCB0640738EB2CBDD9A8F7BAB561AB1B0DC1C6CDABF303264A08D1BCA932D1F1EE428B619D970F342ABA9A65793B8B2F041AE5364350C16F735F56ECBCA87BD57B29E7";

/// In the order in which they are offered.
pub const PLUGINS: &str = "Srp256,Srp";

/// The client's half of a log-in.
pub struct Login {
    user: String,
    password: String,
    secret: BigUint,
    public: BigUint,
}

/// What the server must hear, and the key of what is encrypted afterwards.
pub struct Proof {
    pub text: String,
    pub key: Vec<u8>,
}

impl Login {
    /// Firebird knows a name in capital letters, unless it stands in quotes.
    pub fn new(user: &str, password: &str) -> Result<Self> {
        let user = match user
            .strip_prefix('"')
            .and_then(|name| name.strip_suffix('"'))
        {
            Some(name) => name.to_owned(),
            None => user.to_uppercase(),
        };
        let mut secret = [0; 32];
        let random = aws_lc_rs::rand::fill(&mut secret);
        random.map_err(|_| Error::new(Kind::Internal, "no random numbers"))?;
        let secret = BigUint::from_bytes_be(&secret);
        let public = BigUint::from(2u8).modpow(&secret, &prime());
        Ok(Self {
            user,
            password: password.to_owned(),
            secret,
            public,
        })
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// As it is sent.
    pub fn public(&self) -> String {
        self.public.to_str_radix(16)
    }

    /// By what the server sent: its salt and its public number.
    pub fn proof(&self, plugin: &str, data: &[u8]) -> Result<Proof> {
        let wrong = || Error::protocol("a log-in by Srp whose numbers are none");
        let mut from = Reader::new(data);
        let salt = from.short_bytes().ok_or_else(wrong)?;
        let theirs = from.short_bytes().ok_or_else(wrong)?;
        let theirs = BigUint::parse_bytes(theirs, 16).ok_or_else(wrong)?;
        let prime = prime();
        if &theirs % &prime == BigUint::ZERO {
            return Err(wrong());
        }
        let (two, ours) = (BigUint::from(2u8), &self.public);
        let length = prime.to_bytes_be().len();
        let mut padded = vec![0; length - 1];
        padded.push(2);
        let multiplier = sha1(&[&prime.to_bytes_be(), &padded]);
        let multiplier = BigUint::from_bytes_be(&multiplier);
        let names = format!("{}:{}", self.user, self.password);
        let private = sha1(&[salt, &sha1(&[names.as_bytes()])]);
        let private = BigUint::from_bytes_be(&private);
        let scramble = sha1(&[&ours.to_bytes_be(), &theirs.to_bytes_be()]);
        let scramble = BigUint::from_bytes_be(&scramble);
        let masked = multiplier * two.modpow(&private, &prime) % &prime;
        let base = (&theirs % &prime + &prime - masked) % &prime;
        let exponent = (&self.secret + scramble * private) % &prime;
        let key = sha1(&[&base.modpow(&exponent, &prime).to_bytes_be()]);
        let group = BigUint::from_bytes_be(&sha1(&[&prime.to_bytes_be()]));
        let group = group.modpow(&BigUint::from_bytes_be(&sha1(&[&[2]])), &prime);
        let parts = [
            &*group.to_bytes_be(),
            &sha1(&[self.user.as_bytes()]),
            salt,
            &ours.to_bytes_be(),
            &theirs.to_bytes_be(),
            &key,
        ];
        let proof = match plugin {
            "Srp256" => hash(&SHA256, &parts),
            _ => sha1(&parts),
        };
        Ok(Proof {
            text: proof.iter().map(|byte| format!("{byte:02x}")).collect(),
            key,
        })
    }
}

fn prime() -> BigUint {
    BigUint::parse_bytes(PRIME, 16).unwrap_or_default()
}

fn sha1(parts: &[&[u8]]) -> Vec<u8> {
    hash(&SHA1_FOR_LEGACY_USE_ONLY, parts)
}

fn hash(by: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    digest(by, &parts.concat()).as_ref().to_vec()
}

/// One direction of an encrypted connection.
pub struct Arc4 {
    state: [u8; 256],
    at: u8,
    other: u8,
}

impl Arc4 {
    pub fn new(key: &[u8]) -> Self {
        let mut state: [u8; 256] = std::array::from_fn(|at| at as u8);
        let mut other = 0u8;
        for at in 0..256 {
            other = other
                .wrapping_add(state[at])
                .wrapping_add(key[at % key.len()]);
            state.swap(at, usize::from(other));
        }
        Self {
            state,
            at: 0,
            other: 0,
        }
    }

    pub fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.at = self.at.wrapping_add(1);
            let value = self.state[usize::from(self.at)];
            self.other = self.other.wrapping_add(value);
            let (at, other) = (usize::from(self.at), usize::from(self.other));
            self.state.swap(at, other);
            let place = value.wrapping_add(self.state[at]);
            *byte ^= self.state[usize::from(place)];
        }
    }
}

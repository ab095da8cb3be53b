//! What HTTP calls a content coding: a whole body packed by gzip or zstd, in pieces as it comes.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use crate::error::{Error, Kind, Result};

/// Zstd's own usual level, and gzip's.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;
/// Bits of zstd's window at most: no sender may use more (RFC 9659), and a receiver has memory for all
/// of it as soon as a frame's head names it.
const ZSTD_WINDOW: u32 = 23;
/// Bits of zlib's window, as gzip has it.
const GZIP_WINDOW: u8 = 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coding {
    #[default]
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// As it stands in a header or an option; nothing at all is none.
    pub fn of_name(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "none" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// As HTTP calls it; `None`: the body is as it is.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// The first one of an Accept-Encoding that is known here, unless it says `q=0`.
    pub fn accepted(header: &str) -> Self {
        let offers = header.split(',').filter_map(|offer| {
            let (name, quality) = offer.split_once(';').unwrap_or((offer, ""));
            let quality = quality.trim().strip_prefix("q=").unwrap_or("1");
            let wanted = quality.parse::<f32>().is_ok_and(|quality| quality > 0.0);
            Self::of_name(name).filter(|_| wanted)
        });
        let mut known = offers.filter(|coding| *coding != Self::Identity);
        known.next().unwrap_or_default()
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Internal, format!("{what}: {error}"))
}

/// Packs what is written into memory.
pub enum Packer {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Packer {
    /// `None`: nothing is to be packed.
    pub fn new(coding: Coding) -> Result<Option<Self>> {
        Ok(match coding {
            Coding::Identity => None,
            Coding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Some(Self::Gzip(GzEncoder::new(Vec::new(), level)))
            }
            Coding::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL);
                Some(Self::Zstd(encoder.map_err(|error| failed("zstd", error))?))
            }
        })
    }

    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    /// Packs a piece more.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let added = self.inner().write_all(bytes);
        added.map_err(|error| failed("packing", error))
    }

    /// All that was given so far can be unpacked from what `take` gives.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.inner().flush();
        flushed.map_err(|error| failed("packing", error))
    }

    /// What is packed so far, once.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// Nothing follows.
    pub fn finish(&mut self) -> Result<()> {
        let finished = match self {
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Zstd(encoder) => encoder.do_finish(),
        };
        finished.map_err(|error| failed("packing", error))
    }
}

enum Decoder {
    Gzip(Decompress),
    Zstd(ZstdDecoder<'static>),
}

/// Packed bytes that come in pieces: give it bytes by `room` and `filled`, and unpack by `run`.
pub struct Unpacker {
    decoder: Decoder,
    packed: Vec<u8>,
    from: usize,
    to: usize,
    /// The decoder may hold more than it could give.
    full: bool,
    /// In the middle of a frame.
    within: bool,
}

/// Of packed bytes taken at once.
const READ: usize = 256 << 10;

impl Unpacker {
    /// `None`: nothing is packed.
    pub fn new(coding: Coding) -> Result<Option<Self>> {
        let decoder = match coding {
            Coding::Identity => return Ok(None),
            Coding::Gzip => Decoder::Gzip(Decompress::new_gzip(GZIP_WINDOW)),
            Coding::Zstd => {
                let unusable = |error| failed("zstd", error);
                let mut zstd = ZstdDecoder::new().map_err(unusable)?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW);
                zstd.set_parameter(window).map_err(unusable)?;
                Decoder::Zstd(zstd)
            }
        };
        Ok(Some(Self {
            decoder,
            packed: vec![0; READ],
            from: 0,
            to: 0,
            full: false,
            within: false,
        }))
    }

    /// Where the next packed bytes belong; `None`: what is there comes first.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.from < self.to || self.full {
            return None;
        }
        Some(&mut self.packed)
    }

    pub fn filled(&mut self, bytes: usize) {
        (self.from, self.to) = (0, bytes);
    }

    /// Unpacks into `out`: so many bytes, which may be none where more has to come first.
    pub fn run(&mut self, out: &mut [u8]) -> Result<usize> {
        let input = &self.packed[self.from..self.to];
        let (used, filled, within) = match &mut self.decoder {
            Decoder::Zstd(zstd) => {
                let (mut input, mut output) = (InBuffer::around(input), OutBuffer::around(out));
                let left = zstd
                    .run(&mut input, &mut output)
                    .map_err(|error| Error::protocol(format!("the body is not zstd: {error}")))?;
                (input.pos(), output.pos(), left > 0)
            }
            Decoder::Gzip(gzip) => {
                if !self.within && !input.is_empty() && gzip.total_in() > 0 {
                    *gzip = Decompress::new_gzip(GZIP_WINDOW); // one more member
                }
                let (read, written) = (gzip.total_in(), gzip.total_out());
                let status = gzip.decompress(input, out, FlushDecompress::None);
                let status = status
                    .map_err(|error| Error::protocol(format!("the body is not gzip: {error}")))?;
                let used = (gzip.total_in() - read) as usize;
                let filled = (gzip.total_out() - written) as usize;
                if used == 0 && filled == 0 && !input.is_empty() && !out.is_empty() {
                    return Err(Error::protocol("the body is not gzip: it does not go on"));
                }
                let begun = self.within || used > 0;
                (used, filled, begun && status != Status::StreamEnd)
            }
        };
        self.from += used;
        self.within = within;
        self.full = filled == out.len() && within;
        Ok(filled)
    }

    /// Whether the packed bytes ended where they may.
    pub fn end(&self) -> Result<()> {
        match self.within {
            true => Err(Error::protocol("the compressed body ended too soon")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(coding: Coding, pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut packer = Packer::new(coding).unwrap().unwrap();
        let mut out = Vec::new();
        for piece in pieces {
            packer.add(piece).unwrap();
            packer.flush().unwrap();
            out.extend(packer.take());
        }
        packer.finish().unwrap();
        out.extend(packer.take());
        out
    }

    fn unpacked(coding: Coding, mut packed: &[u8], cut: usize, room: usize) -> Result<Vec<u8>> {
        let mut unpacker = Unpacker::new(coding)?.unwrap();
        let (mut all, mut out) = (Vec::new(), vec![0; room]);
        loop {
            if let Some(place) = unpacker.room() {
                let count = place.len().min(cut).min(packed.len());
                place[..count].copy_from_slice(&packed[..count]);
                packed = &packed[count..];
                if count == 0 {
                    unpacker.end()?;
                    return Ok(all);
                }
                unpacker.filled(count);
            }
            let got = unpacker.run(&mut out)?;
            all.extend(&out[..got]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pieces_come_back_whole_however_they_are_cut(
            pieces in prop::collection::vec(prop::collection::vec(0u8..4, 0..3000), 0..5),
            cut in 1usize..500,
            room in 1usize..5000,
            gzip in any::<bool>(),
        ) {
            let coding = if gzip { Coding::Gzip } else { Coding::Zstd };
            let bytes = packed(coding, &pieces);
            prop_assert_eq!(unpacked(coding, &bytes, cut, room).unwrap(), pieces.concat());
            let twice = [&bytes[..], &bytes[..]].concat();
            let found = unpacked(coding, &twice, cut, room).unwrap();
            prop_assert_eq!(found, [pieces.concat(), pieces.concat()].concat());
            let short = &bytes[..bytes.len() - 1];
            prop_assert!(unpacked(coding, short, cut, room).is_err());
        }

        #[test]
        fn any_bytes_end_in_time(bytes in prop::collection::vec(any::<u8>(), 0..300), gzip in any::<bool>()) {
            let coding = if gzip { Coding::Gzip } else { Coding::Zstd };
            let _ = unpacked(coding, &bytes, 7, 100);
        }
    }

    #[test]
    fn a_window_of_zstd_is_as_large_as_http_allows_and_no_larger() {
        // Magic number, no flags, a window of 2^(10 + n) bytes; then a last block of one raw byte.
        let frame = |bits: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, (bits - 10) << 3, 9, 0, 0, b'x'];
        assert_eq!(unpacked(Coding::Zstd, &frame(23), 99, 99).unwrap(), b"x");
        let error = unpacked(Coding::Zstd, &frame(24), 99, 99).unwrap_err();
        assert!(error.message.contains("memory"), "{error}");
    }

    #[test]
    fn what_a_client_takes() {
        for (header, coding) in [
            ("", Coding::Identity),
            ("br", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("br, zstd;q=0.5, gzip", Coding::Zstd),
            ("zstd;q=0, gzip;q=1", Coding::Gzip),
            ("identity", Coding::Identity),
        ] {
            assert_eq!(Coding::accepted(header), coding, "{header}");
        }
    }
}

//! The body of a compressed Arrow IPC message, unpacked as a whole: one piece of memory for all of its
//! buffers, one context of zstd for all messages, and lz4's blocks put right where they belong, where its own
//! reader of frames copies each of them twice.
//!
//! Whatever is odd here or wrong is left to arrow-ipc, which reads it or says what is wrong.

use std::io::Cursor;

use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use xxhash_rust::xxh32::xxh32;
use zstd::bulk::Decompressor;

/// Buffers begin at multiples of this, as in a body that was never compressed.
const ALIGNMENT: usize = 64;
/// So many times smaller lz4 makes anything at most. Its room is written to before it is filled, so that a few
/// bytes must not ask for much of it.
const MOST_BY_LZ4: usize = 256;
/// The length of a buffer that did not get smaller, and is as it was.
const STORED: i64 = -1;

#[derive(Default)]
pub(super) struct BodyUnpacker {
    zstd: Option<Decompressor<'static>>,
}

pub(super) struct Unpacked {
    pub body: Buffer,
    /// Where each lies in it.
    pub buffers: Vec<arrow_ipc::Buffer>,
}

/// One compressed buffer.
struct Piece<'a> {
    bytes: &'a [u8],
    /// Where they lie in the body that came.
    from: usize,
    /// Unpacked; none: they are as they were.
    length: Option<usize>,
}

impl Piece<'_> {
    fn unpacked(&self) -> usize {
        self.length.unwrap_or(self.bytes.len())
    }
}

impl BodyUnpacker {
    /// The body's buffers, which become no more than `limit` bytes together; else None, as for all that is odd.
    pub fn unpack<'b>(
        &mut self,
        codec: CompressionType,
        buffers: impl Iterator<Item = &'b arrow_ipc::Buffer>,
        body: &Buffer,
        limit: u64,
    ) -> Option<Unpacked> {
        let pieces: Vec<Piece> = buffers
            .map(|buffer| piece(buffer, body))
            .collect::<Option<_>>()?;
        let place = |offset: usize, length: usize| {
            arrow_ipc::Buffer::new(offset as i64, length as i64) // both within a body
        };
        let whole = room(&pieces, codec, limit)?;
        if pieces.iter().all(|piece| piece.length.is_none()) {
            // Nothing to unpack, and nothing to copy.
            let places = pieces.iter().map(|it| place(it.from, it.bytes.len()));
            return Some(Unpacked {
                body: body.clone(),
                buffers: places.collect(),
            });
        }
        let mut out = Vec::with_capacity(whole);
        let mut places = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let (start, length) = (out.len(), piece.unpacked());
            match (piece.length, codec) {
                (None, _) => out.extend_from_slice(piece.bytes),
                (_, CompressionType::ZSTD) => self.zstd(piece.bytes, &mut out)?,
                _ => {
                    out.resize(start + length, 0);
                    lz4(piece.bytes, &mut out[start..])?;
                }
            }
            if out.len() != start + length {
                return None;
            }
            places.push(place(start, length));
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        }
        Some(Unpacked {
            body: Buffer::from_vec(out),
            buffers: places,
        })
    }

    /// Puts what was packed behind what is there.
    fn zstd(&mut self, packed: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let context = match &mut self.zstd {
            Some(context) => context,
            none => none.insert(Decompressor::new().ok()?),
        };
        let start = out.len() as u64;
        let mut behind = Cursor::new(out);
        behind.set_position(start);
        context.decompress_to_buffer(packed, &mut behind).ok()?;
        Some(())
    }
}

/// Bytes of all buffers together, each at its place. Those that are stored as they are count too: a header may
/// name one of them again and again, and here they are copied.
fn room(pieces: &[Piece<'_>], codec: CompressionType, limit: u64) -> Option<usize> {
    let most = match codec {
        CompressionType::LZ4_FRAME => MOST_BY_LZ4,
        CompressionType::ZSTD => usize::MAX,
        _ => return None,
    };
    let lies = |piece: &Piece| piece.unpacked() / most > piece.bytes.len();
    if pieces.iter().any(lies) {
        return None;
    }
    let add = |sum: usize, piece: &Piece| {
        sum.checked_add(piece.unpacked().checked_next_multiple_of(ALIGNMENT)?)
    };
    let whole = pieces.iter().try_fold(0usize, add)?;
    (whole as u64 <= limit).then_some(whole)
}

/// The length comes first (Message.fbs, BodyCompression); nothing at all is nothing.
fn piece<'a>(buffer: &arrow_ipc::Buffer, body: &'a Buffer) -> Option<Piece<'a>> {
    let from = usize::try_from(buffer.offset()).ok()?;
    let length = usize::try_from(buffer.length()).ok()?;
    let bytes = body.get(from..from.checked_add(length)?)?;
    if bytes.is_empty() {
        let length = None;
        return Some(Piece {
            bytes,
            from,
            length,
        });
    }
    let (length, bytes) = bytes.split_first_chunk::<8>()?;
    Some(Piece {
        bytes,
        from: from + 8,
        length: match i64::from_le_bytes(*length) {
            STORED => None,
            length => Some(usize::try_from(length).ok()?),
        },
    })
}

const MAGIC: u32 = 0x184D_2204;
const VERSION: u8 = 0b01 << 6;
const VERSION_BITS: u8 = 0b11 << 6;
const INDEPENDENT: u8 = 1 << 5;
const SIZED: u8 = 1 << 3;
/// Of a block: it did not get smaller.
const PLAIN: u32 = 1 << 31;
/// How far back a block may refer.
const WINDOW: usize = 64 << 10;

/// One frame, which fills `out`. None for what is wrong, and for what writers of Arrow leave out: checksums of
/// blocks and contents, dictionaries.
///
/// <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>
fn lz4(frame: &[u8], out: &mut [u8]) -> Option<()> {
    let (magic, frame) = frame.split_first_chunk::<4>()?;
    let (flags, largest) = (*frame.first()?, *frame.get(1)?);
    let sized = flags & SIZED != 0;
    if u32::from_le_bytes(*magic) != MAGIC
        || flags & !(VERSION_BITS | INDEPENDENT | SIZED) != 0
        || flags & VERSION_BITS != VERSION
    {
        return None;
    }
    // 64 KiB, 256 KiB, 1 MiB, 4 MiB; all other bits are reserved.
    let largest: usize = match largest {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return None,
    };
    let (descriptor, frame) = frame.split_at_checked(if sized { 10 } else { 2 })?;
    let (checksum, mut blocks) = frame.split_first()?;
    if (xxh32(descriptor, 0) >> 8) as u8 != *checksum {
        return None;
    }
    if sized && u64::from_le_bytes(*descriptor.last_chunk::<8>()?) != out.len() as u64 {
        return None;
    }
    let mut done = 0;
    loop {
        let (size, rest) = blocks.split_first_chunk::<4>()?;
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            return (done == out.len() && rest.is_empty()).then_some(());
        }
        let (block, rest) = rest.split_at_checked((size & !PLAIN) as usize)?;
        blocks = rest;
        let (before, room) = out.split_at_mut(done);
        let most = largest.min(room.len());
        let room = &mut room[..most];
        done += if size & PLAIN != 0 {
            room.get_mut(..block.len())?.copy_from_slice(block);
            block.len()
        } else if flags & INDEPENDENT != 0 || before.is_empty() {
            lz4_flex::block::decompress_into(block, room).ok()?
        } else {
            let window = &before[before.len().saturating_sub(WINDOW)..];
            lz4_flex::block::decompress_into_with_dict(block, room, window).ok()?
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
    use proptest::prelude::*;

    use super::*;

    fn frame(bytes: &[u8], mode: BlockMode, sized: bool, checksums: bool) -> Vec<u8> {
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_size(BlockSize::Max64KB)
            .block_checksums(checksums)
            .content_size(sized.then_some(bytes.len() as u64));
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(frame: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; length];
        lz4(frame, &mut out).map(|()| out)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Frames of several blocks, as writers of Arrow make them, linked or not; and bent ones are read only
        /// as lz4's own reader reads them.
        #[test]
        fn a_frame_is_read_as_lz4_reads_it(
            words in prop::collection::vec(any::<u16>(), 1..200), times in 1usize..400,
            linked in any::<bool>(), sized in any::<bool>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let bytes: Vec<u8> = (0..times).flat_map(|n| words.iter().map(move |w| (w ^ n as u16 & 3) as u8)).collect();
            let mode = if linked { BlockMode::Linked } else { BlockMode::Independent };
            let mut packed = frame(&bytes, mode, sized, false);
            let found = read(&packed, bytes.len());
            prop_assert_eq!(found.as_ref(), Some(&bytes));
            prop_assert_eq!(read(&packed, bytes.len() + 1), None);
            for (index, byte) in &flips {
                let at = index.index(packed.len());
                packed[at] ^= byte;
            }
            if let Some(found) = read(&packed, bytes.len()) {
                let mut expected = Vec::new();
                let outcome = FrameDecoder::new(&packed[..]).read_to_end(&mut expected);
                prop_assert_eq!((outcome.ok(), expected), (Some(found.len()), found));
            }
        }
    }

    #[test]
    fn what_has_checksums_is_left_to_who_checks_them() {
        let bytes = vec![7; 1000];
        assert_eq!(
            read(&frame(&bytes, BlockMode::Linked, false, true), 1000),
            None
        );
    }

    fn pieces(lengths: &[Option<usize>]) -> Vec<Piece<'static>> {
        let piece = |length: &Option<usize>| Piece {
            bytes: &[7; 100],
            from: 0,
            length: *length,
        };
        lengths.iter().map(piece).collect()
    }

    #[test]
    fn memory_is_bounded_before_it_is_taken() {
        const LZ4: CompressionType = CompressionType::LZ4_FRAME;
        const ZSTD: CompressionType = CompressionType::ZSTD;
        let room = |lengths: &[Option<usize>], codec| room(&pieces(lengths), codec, 1 << 20);
        assert_eq!(room(&[Some((1 << 20) - 128), None], ZSTD), Some(1 << 20));
        assert_eq!(room(&[Some(2 << 20)], ZSTD), None);
        assert_eq!(room(&[Some(usize::MAX), Some(usize::MAX)], ZSTD), None);
        // So much smaller lz4 makes nothing.
        assert_eq!(room(&[Some(20_000)], LZ4), Some(20_032));
        assert_eq!(room(&[Some(30_000)], LZ4), None);
        // One that is stored, named by each of many buffers: 100,000 times 100 bytes of a body of 100.
        let mut many = vec![None; 100_000];
        many.push(Some(100));
        assert_eq!(room(&many, ZSTD), None);
        assert_eq!(room(&[None], CompressionType(7)), None);
    }
}

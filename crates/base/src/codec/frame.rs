//! HTTP/2 frames (RFC 9113, section 4.1 and 6): the 9-byte header and the small payloads.

pub const HEADER: usize = 9;
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;

    pub fn name(code: u32) -> &'static str {
        match code {
            NO_ERROR => "NO_ERROR",
            PROTOCOL_ERROR => "PROTOCOL_ERROR",
            INTERNAL_ERROR => "INTERNAL_ERROR",
            FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            STREAM_CLOSED => "STREAM_CLOSED",
            FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            REFUSED_STREAM => "REFUSED_STREAM",
            CANCEL => "CANCEL",
            COMPRESSION_ERROR => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            _ => "unknown error code",
        }
    }
}

/// The largest window and the default one (6.9.1, 6.9.2).
pub const MAX_WINDOW: u32 = i32::MAX as u32;
pub const DEFAULT_WINDOW: u32 = 65_535;
/// The smallest and the largest MAX_FRAME_SIZE (6.5.2).
pub const MIN_MAX_FRAME: u32 = 16_384;
pub const MAX_MAX_FRAME: u32 = (1 << 24) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Frame {
    pub fn parse(bytes: &[u8; HEADER]) -> Self {
        Self {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize,
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & MAX_WINDOW,
        }
    }

    pub fn header(self) -> [u8; HEADER] {
        let length = (self.length as u32).to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [
            length[1], length[2], length[3], self.kind, self.flags, stream[0], stream[1],
            stream[2], stream[3],
        ]
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a whole small frame.
pub fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let frame = Frame {
        length: payload.len(),
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&frame.header());
    out.extend_from_slice(payload);
}

pub fn write_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(settings.len() * 6);
    for (id, value) in settings {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    write(kind::SETTINGS, 0, 0, &payload, out);
}

pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write(
        kind::WINDOW_UPDATE,
        0,
        stream,
        &increment.to_be_bytes(),
        out,
    );
}

/// A header block as HEADERS and as many CONTINUATION frames as it takes.
pub fn write_headers(
    stream: u32,
    end_stream: bool,
    block: &[u8],
    max_frame: usize,
    out: &mut Vec<u8>,
) {
    let mut pieces = block.chunks(max_frame).peekable();
    let mut kind = kind::HEADERS;
    let mut flags = if end_stream { flag::END_STREAM } else { 0 };
    loop {
        let piece = pieces.next().unwrap_or(&[]);
        let last = pieces.peek().is_none();
        if last {
            flags |= flag::END_HEADERS;
        }
        write(kind, flags, stream, piece, out);
        if last {
            return;
        }
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn header_round_trip(length in 0usize..1 << 24, kind: u8, flags: u8, stream in 0u32..=MAX_WINDOW) {
            let frame = Frame { length, kind, flags, stream };
            prop_assert_eq!(Frame::parse(&frame.header()), frame);
        }
    }

    #[test]
    fn a_long_header_block_continues() {
        let mut out = Vec::new();
        write_headers(1, true, &[7; 40_000], 16_384, &mut out);
        let first = Frame::parse(out[..9].try_into().unwrap());
        assert_eq!(
            (first.kind, first.flags, first.length),
            (kind::HEADERS, flag::END_STREAM, 16_384)
        );
        let at = 2 * (9 + 16_384);
        let last = Frame::parse(out[at..at + 9].try_into().unwrap());
        assert_eq!(
            (last.kind, last.flags, last.length),
            (kind::CONTINUATION, flag::END_HEADERS, 7_232)
        );
    }
}

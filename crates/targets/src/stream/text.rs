//! Rows as text, which are counted and not read: lines, or the records of a CSV file.

use venturi_base::os::pipe::HOLDS;

/// Counts rows in pieces of text. A batch of it is what has come by the time that it has as many rows as
/// asked for.
#[derive(Debug)]
pub struct Text {
    buffer: Vec<u8>,
    rows_per_batch: u64,
    /// The first record names the columns.
    csv: bool,
    at: Position,
    named: bool,
    rows: u64,
    bytes: u64,
}

/// Where the next byte of a text is. In CSV (RFC 4180, and beyond it as pyarrow reads) lines end with LF, CR
/// or both, an empty one is not a record, and a quote opens a value only where the value begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Position {
    LineStart,
    ValueStart,
    Value,
    Quoted,
    /// After a quote in a quoted value, which ends the value unless another one follows.
    Quote,
}

impl Position {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Quoted, b'"') => Self::Quote,
            (Self::Quoted, _) => Self::Quoted,
            (Self::LineStart | Self::ValueStart | Self::Quote, b'"') => Self::Quoted,
            (_, b'\n' | b'\r') => Self::LineStart,
            (_, b',') => Self::ValueStart,
            _ => Self::Value,
        }
    }
}

/// Counted in bytes as long as one holds the number: so the compiler takes 16 of them at a time.
fn line_ends(text: &[u8]) -> u64 {
    let pieces = text.chunks(u8::MAX as usize);
    let ends = |piece: &[u8]| {
        piece
            .iter()
            .map(|byte| u8::from(*byte == b'\n'))
            .sum::<u8>()
    };
    pieces.map(|piece| u64::from(ends(piece))).sum()
}

/// Ends of records in CSV without quotes, but for the first byte, whose predecessor is not here.
fn record_ends(text: &[u8]) -> u64 {
    let is_end = |byte: u8| (byte == b'\n') | (byte == b'\r');
    let size = u8::MAX as usize;
    let pieces = text[1..].chunks(size).zip(text.chunks(size));
    let ends = |(these, before): (&[u8], &[u8])| {
        these
            .iter()
            .zip(before)
            .map(|(this, before)| u8::from(is_end(*this) & !is_end(*before)))
            .sum::<u8>()
    };
    pieces.map(|piece| u64::from(ends(piece))).sum()
}

/// Rows and bytes of text.
pub type Counted = (u64, u64);

impl Text {
    pub fn new(csv: bool, rows_per_batch: usize) -> Self {
        Self {
            buffer: vec![0; HOLDS],
            rows_per_batch: rows_per_batch as u64,
            csv,
            at: Position::LineStart,
            named: !csv,
            rows: 0,
            bytes: 0,
        }
    }

    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The ends of records up to and with this byte of CSV: one or none.
    fn step(&mut self, byte: u8) -> u64 {
        let next = self.at.after(byte);
        let before = std::mem::replace(&mut self.at, next);
        u64::from(next == Position::LineStart && before != Position::LineStart)
    }

    pub fn filled(&mut self, bytes: usize) {
        let buffer = std::mem::take(&mut self.buffer);
        let piece = &buffer[..bytes];
        if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
            let plain = self.at != Position::Quoted && !piece.contains(&b'"');
            let mut ends = match (self.csv, plain) {
                (false, _) => line_ends(piece),
                (true, true) => self.step(*first) + record_ends(piece),
                (true, false) => piece.iter().map(|byte| self.step(*byte)).sum(),
            };
            if !self.csv {
                self.at = if *last == b'\n' {
                    Position::LineStart
                } else {
                    Position::Value
                };
            } else if plain {
                self.at = self.at.after(*last);
            }
            if !self.named && ends > 0 {
                self.named = true;
                ends -= 1;
            }
            self.rows += ends;
            self.bytes += bytes as u64;
        }
        self.buffer = buffer;
    }

    /// A batch that is whole.
    pub fn take_ready(&mut self) -> Option<Counted> {
        (self.rows >= self.rows_per_batch).then(|| self.take())
    }

    fn take(&mut self) -> Counted {
        let counted = (self.rows, self.bytes);
        (self.rows, self.bytes) = (0, 0);
        counted
    }

    /// The text has ended: what is left. The last line needs no end. `Err`: it ends between quotes.
    pub fn close(&mut self) -> Result<Option<Counted>, ()> {
        if self.at == Position::Quoted {
            return Err(());
        }
        if std::mem::replace(&mut self.at, Position::LineStart) != Position::LineStart {
            self.rows += u64::from(self.named);
            self.named = true;
        }
        Ok((self.rows + self.bytes > 0).then(|| self.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(csv: bool, text: &str, cut: usize) -> Result<Counted, ()> {
        let mut reader = Text::new(csv, 2);
        let (mut rows, mut bytes) = (0, 0);
        let mut add = |(more, length): Counted| (rows, bytes) = (rows + more, bytes + length);
        for piece in text.as_bytes().chunks(cut) {
            reader.room()[..piece.len()].copy_from_slice(piece);
            reader.filled(piece.len());
            reader.take_ready().into_iter().for_each(&mut add);
        }
        reader.close()?.into_iter().for_each(&mut add);
        Ok((rows, bytes))
    }

    #[test]
    fn rows_are_counted_however_the_text_is_cut() {
        for (csv, text, rows) in [
            (false, "", 0),
            (false, "a\nb\n\nc", 4),
            (false, "a \"b\nc\n", 2),
            (true, "", 0),
            (true, "x,y", 0),
            (true, "x,y\n", 0),
            (true, "x,y\r\n1,2\r\n3,4\r\n", 2),
            (true, "x,y\n1,2\n3,4", 2),
            (true, "x,y\n1,\"a\nb\"\n2,\"say \"\"no\n\"\"\"\n", 2),
            (true, "\"x\ny\",z\n1,2\n", 1),
            (true, "id,v\n1,5\" disk\n2,6\" disk\n3,c\n", 3),
            (true, "id,v\n1,a\n\n2,b\n\n", 2),
            (true, "\n\r\nid,v\n\n1,a\n\n", 1),
            (true, "id,v\r1,a\r2,b\r", 2),
            (true, "x,y\r\n1,\"a\r\nb\"\r\n2,\"\"\r\n", 2),
            (true, "x,y\n1,\"a\"b\"\n2,c\n", 2),
            (true, "x\n\"\"\n\n", 1),
        ] {
            for cut in [1, 2, 3, 1000] {
                let found = count(csv, text, cut);
                assert_eq!(found, Ok((rows, text.len() as u64)), "{text:?} by {cut}");
            }
        }
        assert_eq!(count(true, "x\n\"1\n2\n", 3), Err(()));
    }
}

//! Rows as text, which are counted and not read: lines, or the records of a CSV file.

use venturi_base::os::pipe::HOLDS;

/// Counts rows in pieces of text. A batch of it is what has come by the time that it has as many rows as
/// asked for.
#[derive(Debug)]
pub struct Text {
    buffer: Vec<u8>,
    rows_per_batch: u64,
    /// Line ends between quotes are part of a value (RFC 4180), and the first record names the columns.
    csv: bool,
    quoted: bool,
    /// Something stands behind the last line end.
    open: bool,
    named: bool,
    rows: u64,
    bytes: u64,
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

/// Rows and bytes of text.
pub type Counted = (u64, u64);

impl Text {
    pub fn new(csv: bool, rows_per_batch: usize) -> Self {
        Self {
            buffer: vec![0; HOLDS],
            rows_per_batch: rows_per_batch as u64,
            csv,
            quoted: false,
            open: false,
            named: !csv,
            rows: 0,
            bytes: 0,
        }
    }

    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    pub fn filled(&mut self, bytes: usize) {
        let piece = &self.buffer[..bytes];
        let Some(last) = piece.last() else { return };
        let quotes = self.csv && (self.quoted || piece.contains(&b'"'));
        let mut ends = match quotes {
            false => line_ends(piece),
            true => {
                let mut ends = 0;
                for byte in piece {
                    self.quoted ^= *byte == b'"';
                    ends += u64::from(*byte == b'\n' && !self.quoted);
                }
                ends
            }
        };
        self.open = *last != b'\n' || self.quoted;
        if !self.named && ends > 0 {
            self.named = true;
            ends -= 1;
        }
        self.rows += ends;
        self.bytes += bytes as u64;
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
        if self.quoted {
            return Err(());
        }
        if std::mem::take(&mut self.open) {
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
        ] {
            for cut in [1, 2, 3, 1000] {
                let found = count(csv, text, cut);
                assert_eq!(found, Ok((rows, text.len() as u64)), "{text:?} by {cut}");
            }
        }
        assert_eq!(count(true, "x\n\"1\n2\n", 3), Err(()));
    }
}

//! Lines of a text, counted at the speed of memory.

/// Line ends in a text.
pub fn lines(text: &[u8]) -> usize {
    // Sums of bytes are unrolled over whole registers, and do not overflow within 255.
    let count = |block: &[u8]| -> usize {
        let ends = block.iter().map(|byte| u8::from(*byte == b'\n'));
        usize::from(ends.fold(0u8, u8::wrapping_add))
    };
    text.chunks(128).map(count).sum()
}

/// Where so many lines end; `Err`: there are only so many.
pub fn end_of_lines(text: &[u8], wanted: usize) -> Result<usize, usize> {
    if wanted == 0 {
        return Ok(0);
    }
    let mut left = wanted;
    for (number, block) in text.chunks(4096).enumerate() {
        let here = lines(block);
        if here < left {
            left -= here;
            continue;
        }
        for (at, _) in block.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            left -= 1;
            if left == 0 {
                return Ok(number * 4096 + at + 1);
            }
        }
    }
    Err(wanted - left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found() {
        let text = b"a\n".repeat(5000);
        assert_eq!(lines(&text), 5000);
        assert_eq!(end_of_lines(&text, 0), Ok(0));
        assert_eq!(end_of_lines(&text, 1), Ok(2));
        assert_eq!(end_of_lines(&text, 4999), Ok(9998));
        assert_eq!(end_of_lines(&text, 5000), Ok(10_000));
        assert_eq!(end_of_lines(&text, 5001), Err(5000));
        assert_eq!(lines(&[b'\n'; 1000]), 1000);
    }
}

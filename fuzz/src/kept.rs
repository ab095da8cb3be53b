//! A target's corpus as one small file: inputs one after the other, each behind its length,
//! compressed by zstd.

/// No input is larger (`-max_len`).
const LONGEST: usize = 64 << 10;

pub fn pack(inputs: &[Vec<u8>]) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    for input in inputs.iter().filter(|input| input.len() <= LONGEST) {
        plain.extend_from_slice(&(input.len() as u32).to_be_bytes());
        plain.extend_from_slice(input);
    }
    zstd::encode_all(&plain[..], 19)
}

pub fn unpack(packed: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let plain = zstd::decode_all(packed)?;
    let mut rest = &plain[..];
    let mut inputs = Vec::new();
    while let Some((length, more)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((input, more)) = more.split_at_checked(length) else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        inputs.push(input.to_vec());
        rest = more;
    }
    Ok(inputs)
}

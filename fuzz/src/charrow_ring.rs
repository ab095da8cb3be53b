//! Where it is cut, what lies in a ring, and what a charrow server says of it: the cuts make no difference, blocks
//! are an error or a batch whose values can be read, and no more is told free than was copied out.

use venturi_core::codec::charrow::receive::Receiver;
use venturi_core::codec::charrow::ring::{Reader, Writer, SMALLEST};

use super::charrow_client::{hear, LARGEST};

pub fn run(input: &[u8]) {
    let (cut, rest) = super::first(input);
    let (lies, said) = super::two(rest);
    let hear = |cut| {
        let mut writer = Writer::make(SMALLEST as usize).unwrap();
        // All of it is filled: a message may claim whatever there is.
        while !lies.is_empty() && writer.room() > 0 {
            writer.write(lies);
        }
        let mut receiver = Receiver::new(LARGEST);
        receiver.attach(Reader::of(&writer.for_reader().unwrap(), SMALLEST).unwrap());
        hear(receiver, said, cut)
    };
    assert_eq!(hear(usize::MAX), hear(usize::from(cut) + 1));
}

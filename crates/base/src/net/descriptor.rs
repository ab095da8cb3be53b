//! A file descriptor that goes along with bytes over a Unix socket (SCM_RIGHTS, unix(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Room for the control message of one descriptor, aligned as its header wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

const ONE: libc::c_uint = size_of::<RawFd>() as libc::c_uint;

#[cfg(target_os = "linux")]
const ON_SENDING: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const ON_SENDING: libc::c_int = 0;
/// No program that is started gets it.
#[cfg(target_os = "linux")]
const ON_RECEIVING: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const ON_RECEIVING: libc::c_int = 0;

fn message(piece: &mut libc::iovec, control: &mut Control, length: usize) -> libc::msghdr {
    // SAFETY: numbers and pointers, of which zero is one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = length as _;
    message
}

/// Sends as many of the bytes as the socket takes, at least one, and the descriptor with the first of them.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; 64]);
    // SAFETY: the room is larger than what a header and a number take; the header stands at its begin.
    let sent = unsafe {
        let length = libc::CMSG_SPACE(ONE) as usize;
        let message = message(&mut piece, &mut control, length);
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(ONE) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), file.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &message, ON_SENDING)
    };
    match sent {
        -1 => Err(io::Error::last_os_error()),
        sent => Ok(sent as usize),
    }
}

/// Reads bytes, and a descriptor where one comes with them: more than one the kernel throws away.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut piece = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let mut control = Control([0; 64]);
    // SAFETY: the kernel writes no more than the lengths say. A descriptor that it gives is a new one, and
    // nobody else's; where the message has none, there is no header.
    unsafe {
        let length = libc::CMSG_LEN(ONE) as usize;
        let mut message = message(&mut piece, &mut control, length);
        let read = libc::recvmsg(socket.as_raw_fd(), &mut message, ON_RECEIVING);
        if read == -1 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&message).as_ref();
        let found = header.filter(|header| {
            (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
                && header.cmsg_len >= libc::CMSG_LEN(ONE) as _
        });
        let file = found.map(|header| {
            OwnedFd::from_raw_fd(ptr::read_unaligned(libc::CMSG_DATA(header).cast::<RawFd>()))
        });
        Ok((read as usize, file))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_goes_along_with_the_first_byte() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let path = std::env::temp_dir().join(format!("venturi-passed-{}", std::process::id()));
        let mut kept = std::fs::File::create_new(&path).unwrap();
        let sent = std::fs::File::options().read(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(send(one.as_fd(), b"with", sent.as_fd()).unwrap(), 4);
        drop(sent);
        one.write_all(b"without").unwrap();
        kept.write_all(b"there").unwrap();
        kept.rewind().unwrap();

        let mut bytes = [0; 2];
        let (read, file) = receive(other.as_fd(), &mut bytes).unwrap();
        assert_eq!((read, &bytes), (2, b"wi"));
        let mut said = String::new();
        std::fs::File::from(file.unwrap())
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(said, "there");
        let mut rest = [0; 9];
        other.read_exact(&mut rest[..2]).unwrap();
        let (read, file) = receive(other.as_fd(), &mut rest).unwrap();
        assert_eq!((&rest[..read], file.is_none()), (&b"without"[..], true));
        drop(one);
        assert_eq!(receive(other.as_fd(), &mut rest).unwrap().0, 0);
    }
}

//! Frames of an interface: those that arrive there are read, and those that are written leave by it.
//!
//! A packet socket (packet(7)) with the header of virtio's network devices before each frame. By it the kernel
//! hands over up to 64 KiB that TCP sends at once, before they are cut into packets, and takes them back as
//! such: a sixteenth of the calls, and checksums stay as they are.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{from_mut, from_ref, null};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Bytes of virtio's header, of which all zero says: one plain frame, whose checksum is whole.
pub const HEADER: usize = 10;
/// The longest frame with its headers: 64 KiB of an IP packet, and Ethernet's header with a VLAN's.
const LONGEST: usize = HEADER + 18 + 65_536;
/// Frames a call.
const BATCH: usize = 32;
/// So much lies in the socket before the kernel drops what arrives: a reader may be stopped for some ms.
const RECEIVE_BUFFER: usize = 64 << 20;
/// A small frame takes so many times its bytes of the kernel's memory.
const OVERHEAD: usize = 4;
/// Of what is sent, beside the queue of the interface.
const SLACK: usize = 4 << 20;

/// An interface of this network namespace.
pub struct Port {
    socket: Socket,
    /// Bytes that the kernel keeps for us until they leave.
    sends: usize,
}

impl Port {
    /// `queue`: bytes that may wait at the interface until they leave. Needs the capability NET_RAW.
    pub fn open(interface: &str, queue: usize) -> io::Result<Self> {
        let every = libc::ETH_P_ALL as u16;
        // Without a protocol at first: nothing arrives before it is bound.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        let one: libc::c_int = 1;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &one,
        )?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &one)?;
        widen(&socket, TAKE_IN, RECEIVE_BUFFER)?;
        widen(&socket, GIVE_OUT, OVERHEAD * queue + SLACK)?;
        let sends = socket.send_buffer_size()? / 2 / OVERHEAD;
        socket.set_nonblocking(true)?;
        let name = CString::new(interface).map_err(io::Error::other)?;
        // SAFETY: a text that ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zero is a valid one.
        let mut place: libc::sockaddr_ll = unsafe { zeroed() };
        place.sll_family = libc::AF_PACKET as u16;
        place.sll_protocol = every.to_be();
        place.sll_ifindex = index as libc::c_int;
        // SAFETY: the address of a structure of that size, which the call only reads.
        let bound = unsafe {
            let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(socket.as_raw_fd(), from_ref(&place).cast(), size)
        };
        answered(bound as isize)?;
        Ok(Self { socket, sends })
    }

    /// Bytes of small frames that the kernel keeps until they leave.
    pub fn sends(&self) -> usize {
        self.sends
    }

    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Frames that had no room here since this was asked last.
    pub fn missed(&self) -> io::Result<u64> {
        // SAFETY: all zero is a valid one, and the call fills in at most its size.
        unsafe {
            let mut found: libc::tpacket_stats = zeroed();
            let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
            let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            let into = from_mut(&mut found).cast();
            let got = libc::getsockopt(self.descriptor(), level, name, into, &mut size);
            answered(got as isize)?;
            Ok(u64::from(found.tp_drops))
        }
    }

    /// Gives `take` the frames that have arrived, a batch at most, each with when it did (ns since 1970).
    /// How many these were.
    pub fn receive(&self, room: &mut Room, mut take: impl FnMut(&[u8], u64)) -> io::Result<usize> {
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|n| libc::iovec {
            iov_base: room.bytes[n * LONGEST..].as_mut_ptr().cast(),
            iov_len: LONGEST,
        });
        let mut controls = [Control::default(); BATCH];
        // SAFETY: all zero is a valid one.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for ((header, vector), control) in headers.iter_mut().zip(&mut vectors).zip(&mut controls) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every header has a place of its own for LONGEST bytes, and one for what comes along.
        let got = unsafe {
            let nothing = std::ptr::null_mut();
            libc::recvmmsg(
                self.descriptor(),
                headers.as_mut_ptr(),
                BATCH as u32,
                flags as _,
                nothing,
            )
        };
        let got = answered(got as isize)?;
        for (n, header) in headers[..got].iter().enumerate() {
            let length = header.msg_len as usize;
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0 {
                take(
                    &room.bytes[n * LONGEST..][..length],
                    arrived(&header.msg_hdr),
                );
            }
        }
        Ok(got)
    }

    /// Sends the first of these frames, a batch at most; how many are gone: the interface took them, or dropped
    /// the first for its queue is full. A later one that it drops is offered once more: the kernel does not tell of
    /// it (sendmmsg(2)).
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        // SAFETY: all zero is a valid one of each.
        let mut vectors: [libc::iovec; BATCH] = unsafe { zeroed() };
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let mut wanted = 0;
        for ((header, vector), frame) in headers.iter_mut().zip(&mut vectors).zip(frames) {
            *vector = libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            wanted += 1;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the first `wanted` headers have frames, which outlive the call and are only read.
        let sent =
            unsafe { libc::sendmmsg(self.descriptor(), headers.as_mut_ptr(), wanted, flags as _) };
        match answered(sent as isize) {
            // The first one was dropped.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(1),
            other => other,
        }
    }

    /// Waits until a frame arrives, or until one can be sent, for so long at most.
    pub fn wait(&self, events: libc::c_short, patience: Duration) -> io::Result<()> {
        let mut asked = libc::pollfd {
            fd: self.descriptor(),
            events,
            revents: 0,
        };
        let patience = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: patience.subsec_nanos().into(),
        };
        // SAFETY: one descriptor, and a time that the call only reads.
        match answered(unsafe { libc::ppoll(&mut asked, 1, &patience, null()) } as isize) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Where frames are read to.
pub struct Room {
    bytes: Box<[u8]>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes: vec![0; BATCH * LONGEST].into_boxed_slice(),
        }
    }
}

/// What comes along with a frame: a time, and room for its header.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; 64]);

impl Default for Control {
    fn default() -> Self {
        Self([0; 64])
    }
}

/// When a frame arrived; 0 where the kernel did not say.
pub(super) fn arrived(header: &libc::msghdr) -> u64 {
    // SAFETY: the kernel has filled in the header, and messages of this kind carry a timespec.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time: libc::timespec = libc::CMSG_DATA(message)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    0
}

/// A socket's buffer by force, and as far as everybody may go (net.core.rmem_max, wmem_max).
pub(super) const TAKE_IN: [libc::c_int; 2] = [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF];
pub(super) const GIVE_OUT: [libc::c_int; 2] = [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF];

/// Makes a buffer so large, or as large as this user may: only root of the machine may force it.
pub(super) fn widen(
    socket: &impl AsRawFd,
    [force, ask]: [libc::c_int; 2],
    bytes: usize,
) -> io::Result<()> {
    // The kernel doubles it.
    const MOST: libc::c_int = libc::c_int::MAX / 2;
    let bytes = libc::c_int::try_from(bytes).map_or(MOST, |bytes| bytes.min(MOST));
    let forced = set(socket, libc::SOL_SOCKET, force, &bytes);
    forced.or_else(|_| set(socket, libc::SOL_SOCKET, ask, &bytes))
}

pub(super) fn set(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &libc::c_int,
) -> io::Result<()> {
    // SAFETY: an int, which the call only reads.
    let done = unsafe {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            from_ref(value).cast(),
            size,
        )
    };
    answered(done as isize).map(drop)
}

/// The number that a call of the system's answers, or its error.
pub(super) fn answered(number: isize) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| io::Error::last_os_error())
}

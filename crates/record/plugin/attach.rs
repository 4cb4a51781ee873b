//! Requests to the recorder through its socket: for the shared memory when an emulator starts, and
//! after a fork for the process's ID in the recorder's namespace.
//!
//! A socket and a file in a folder are reachable even for processes that have dropped the rights to
//! open the recorder's descriptors. The kernel tells the recorder the ID of the requesting process, in
//! whatever namespace. A message is a number of 8 bytes. To the recorder, it is its [`token`], or 0
//! from an emulator that starts. The reply is the ID of the process, with a descriptor of the memory if
//! the request was 0.
//!
//! [`token`]: crate::layout::Header::token

use std::ffi::c_int;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::qemu::{self, IoVector};

/// Paths that the recorder passed to the plugin.
pub struct Paths {
    /// Path of the recorder's socket.
    pub socket: PathBuf,
    /// Path of this plugin's file.
    pub library: PathBuf,
}

static PATHS: OnceLock<Paths> = OnceLock::new();

/// Stores the paths for [`ask`].
pub fn install(paths: Paths) {
    PATHS.get_or_init(|| paths);
}

/// True if an emulator started by this process could load the plugin and reach the recorder.
pub fn is_possible() -> bool {
    PATHS.get().is_some_and(|paths| {
        File::open(&paths.library).is_ok() && UnixStream::connect(&paths.socket).is_ok()
    })
}

/// Recorder's reply to a number that a plugin sent over the socket.
pub struct Reply {
    /// ID of this process in the recorder's PID namespace.
    pub process: u64,
    /// Descriptor of the shared memory, if it was requested.
    pub memory: Option<OwnedFd>,
}

/// Sends a number to the recorder: 0 to request the shared memory, or its token. `None` if the recorder
/// cannot be reached or does not reply.
pub fn ask(number: u64) -> Option<Reply> {
    let mut stream = UnixStream::connect(&PATHS.get()?.socket).ok()?;
    stream.write_all(&number.to_le_bytes()).ok()?;
    receive(&stream)
}

/// Control data of a socket message (`struct cmsghdr`) that contains one file descriptor.
#[repr(C, align(8))]
struct Control {
    length: usize,
    level: c_int,
    kind: c_int,
    descriptor: c_int,
}

fn receive(stream: &UnixStream) -> Option<Reply> {
    let mut bytes = [0; 8];
    let mut part = IoVector { start: bytes.as_mut_ptr().cast(), length: bytes.len() };
    let mut control = Control { length: 0, level: 0, kind: 0, descriptor: -1 };
    let mut message = qemu::Message {
        name: std::ptr::null_mut(),
        name_length: 0,
        parts: &mut part,
        part_count: 1,
        control: (&raw mut control).cast(),
        control_length: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: the message describes `bytes` and `control`, which outlive the call.
    let received =
        unsafe { qemu::recvmsg(stream.as_raw_fd(), &mut message, qemu::RECEIVE_CLOSED_ON_EXEC) };
    let has_descriptor = control.level == qemu::SOCKET_LEVEL
        && control.kind == qemu::SOCKET_RIGHTS
        && control.descriptor >= 0;
    // SAFETY: the kernel made a new descriptor, which has no other owner.
    let memory = has_descriptor.then(|| unsafe { OwnedFd::from_raw_fd(control.descriptor) });
    let process = u64::from_le_bytes(bytes);
    (received == bytes.len() as isize).then_some(Reply { process, memory })
}

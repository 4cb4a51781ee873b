//! Names that system calls give to memory, as `/proc/PID/maps` shows them.

use std::os::unix::ffi::OsStringExt;

use super::ring::Cpu;
use super::{follow, segment_status};
use crate::record::{Control, MAX_NAME_BYTES, SYSCALL_WORDS};
use crate::system_calls::number;

/// Flag MAP_ANONYMOUS of mmap: memory without a file.
const MAP_ANONYMOUS: u64 = 0x20;
/// Option of prctl that changes an attribute of memory.
const SET_MEMORY: u64 = 0x5356_4d41;
/// Attribute of [`SET_MEMORY`]: the name of anonymous memory.
const ANONYMOUS_NAME: u64 = 0;

/// Name that a system call would give to memory; `None` if it gives none. An empty name takes away the
/// previous one.
pub fn given_by(number: u64, arguments: [u64; 5]) -> Option<Vec<u8>> {
    match (number, arguments) {
        (number::MMAP, [_, _, _, flags, descriptor]) if flags & MAP_ANONYMOUS == 0 => {
            // The program has the emulator's descriptors. The main thread may have ended: not /proc/self.
            let link = format!("/proc/thread-self/fd/{}", descriptor as i32);
            let path = std::fs::read_link(link).ok()?;
            Some(path.into_os_string().into_vec())
        }
        (number::SHMAT, [segment, ..]) => {
            let key = segment_status(segment)?.permissions[0] as u32;
            Some(format!("/SYSV{key:08x} (deleted)").into_bytes())
        }
        (number::PRCTL, [SET_MEMORY, ANONYMOUS_NAME, _, _, 0]) => Some(Vec::new()),
        (number::PRCTL, [SET_MEMORY, ANONYMOUS_NAME, _, _, name]) => follow::text(name),
        _ => None,
    }
}

/// Writes a name to the ring, ahead of its system call.
pub fn push(cpu: &mut Cpu, name: &[u8]) {
    for piece in name[..name.len().min(MAX_NAME_BYTES)].chunks(8 * SYSCALL_WORDS) {
        let mut words = [0; SYSCALL_WORDS];
        for (word, bytes) in words.iter_mut().zip(piece.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        cpu.push_control(Control::Name, piece.len() as u64, &words);
    }
}

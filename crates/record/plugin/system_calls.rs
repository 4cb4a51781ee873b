//! System calls that the plugin records and the recorder replays. Shared by the recorder and the plugin.

/// Numbers of system calls (Linux on x86-64).
pub mod number {
    #![allow(missing_docs)]
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const BRK: u64 = 12;
    pub const MREMAP: u64 = 25;
    pub const MADVISE: u64 = 28;
    pub const SHMAT: u64 = 30;
    pub const CLONE: u64 = 56;
    pub const FORK: u64 = 57;
    pub const VFORK: u64 = 58;
    pub const EXECVE: u64 = 59;
    pub const SHMDT: u64 = 67;
    pub const PRCTL: u64 = 157;
    pub const EXIT_GROUP: u64 = 231;
    pub const EXECVEAT: u64 = 322;
}

use number::*;

/// System calls that the plugin always records: those that change the address space or the set of processes.
/// Others are recorded only if they name memory.
#[rustfmt::skip] // A line is easier to compare with the numbers above.
pub const TRACKED: [u64; 13] = [
    MMAP, MPROTECT, MUNMAP, BRK, MREMAP, MADVISE, SHMAT, CLONE, FORK, VFORK, EXECVE, SHMDT, EXECVEAT,
];

#[cfg(test)]
mod tests {
    use super::{TRACKED, number};

    #[test]
    fn system_calls_with_a_number_are_tracked() {
        // prctl is recorded when it names memory; exit_group has a record of its own.
        let untracked = [number::PRCTL, number::EXIT_GROUP];
        let constants = include_str!("system_calls.rs").lines().filter_map(|line| {
            line.trim().strip_prefix("pub const ")?.strip_suffix(';')?.split_once(": u64 = ")
        });
        let mut count = 0;
        for (name, number) in constants {
            let number = number.parse().unwrap();
            assert_ne!(TRACKED.contains(&number), untracked.contains(&number), "{name}");
            count += 1;
        }
        assert_eq!(count, TRACKED.len() + untracked.len());
    }
}

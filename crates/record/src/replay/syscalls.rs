//! Conversion of system calls that change the address space to program events.

use perforate_types::{Advice, Backing, Permissions, ProgramEvent, VirtualAddress};

use super::address_space::AddressSpace;
use crate::large_mappings::{LARGE_PAGE_BYTES, is_on_large_pages};
use crate::process_memory::PAGE_BYTES;
use crate::system_calls::number;

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_POPULATE: u64 = 0x8000;
const MAP_STACK: u64 = 0x2_0000;
const MREMAP_DONTUNMAP: u64 = 4;
/// Length of the longest name of anonymous memory, with its terminator (ANON_VMA_NAME_MAX_LEN).
const ANONYMOUS_NAME_BYTES: usize = 80;
const SHM_RDONLY: u64 = 0o10000;

/// A system call of the recorded program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// Number of the system call, one of [`number`].
    pub number: u64,
    /// Arguments of the system call.
    pub arguments: [u64; 6],
    /// Name that the system call gives to memory; empty if it gives none.
    pub name: Vec<u8>,
}

impl Syscall {
    /// Returns the events that take effect when the system call begins: those of munmap, because another
    /// thread may map the free range before munmap returns, and must come later in the trace; and those of
    /// prctl, because QEMU 7.2 rejects names of memory, which Linux accepts. `space` has the mappings before.
    pub fn begin(&self, space: &AddressSpace) -> Vec<ProgramEvent> {
        match (self.number, self.arguments) {
            (number::MUNMAP, [start, length, ..]) if start % PAGE_BYTES == 0 && length != 0 => {
                vec![ProgramEvent::Unmap { start: address(start), length: round_up(length) }]
            }
            // prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, start, length, name), the only one that is recorded.
            (number::PRCTL, [_, _, start, length, ..])
                if start % PAGE_BYTES == 0 && is_name_of_anonymous_memory(&self.name) =>
            {
                let range = start..start.saturating_add(round_up(length));
                space.naming_events(range, &String::from_utf8_lossy(&self.name))
            }
            _ => Vec::new(),
        }
    }

    /// Returns the events that have taken effect when the system call returns `result`. `space` has the
    /// mappings before.
    pub fn end(&self, result: i64, space: &AddressSpace) -> Vec<ProgramEvent> {
        if is_failure(result) {
            return Vec::new();
        }
        let [from, length, _, flags, ..] = self.arguments;
        let mut events: Vec<_> = self.ended(result, space).into_iter().collect();
        if self.number == number::MREMAP && flags & MREMAP_DONTUNMAP != 0 {
            // The pages move, and their mapping stays behind without pages.
            events.extend(space.mappings(from..from.saturating_add(round_up(length))));
        }
        let Some(&ProgramEvent::Map { start, length, .. }) = events.first() else { return events };
        // Linux makes stacks of threads without large pages (since 6.7, calc_vm_flag_bits).
        if self.number == number::MMAP && flags & MAP_STACK != 0 {
            events.push(ProgramEvent::Advise { start, length, advice: Advice::NoHugePage });
        }
        if !self.name.is_empty() {
            let name = String::from_utf8_lossy(&self.name).replace('\n', "\\012");
            events.push(ProgramEvent::Name { start, length, name });
        }
        events
    }

    fn ended(&self, result: i64, space: &AddressSpace) -> Option<ProgramEvent> {
        let [first, second, third, fourth, _, sixth] = self.arguments;
        let length = round_up(second);
        match self.number {
            number::MMAP => Some(ProgramEvent::Map {
                start: address(result as u64),
                length,
                permissions: permissions(third),
                accessible: is_accessible(third),
                backing: if fourth & MAP_ANONYMOUS != 0 {
                    Backing::Anonymous
                } else {
                    Backing::File
                },
                shared: fourth & MAP_TYPE != MAP_PRIVATE,
                populate: fourth & MAP_POPULATE != 0,
            }),
            number::MPROTECT if length != 0 => Some(ProgramEvent::Protect {
                start: address(first),
                length,
                permissions: permissions(third),
                accessible: is_accessible(third),
            }),
            number::MADVISE if length != 0 => {
                let advice = advice(third as i32);
                Some(ProgramEvent::Advise { start: address(first), length, advice })
            }
            number::MREMAP => Some(ProgramEvent::Remap {
                from: address(first),
                from_length: length,
                to: address(result as u64),
                to_length: round_up(third),
            }),
            // The plugin puts the size of the segment after the arguments.
            number::SHMAT if sixth != 0 => Some(ProgramEvent::Map {
                start: address(result as u64),
                length: round_up(sixth),
                permissions: match third & SHM_RDONLY {
                    0 => Permissions::READ_WRITE,
                    _ => Permissions::READ,
                },
                accessible: true,
                backing: Backing::Anonymous,
                shared: true,
                populate: false,
            }),
            number::SHMDT => space.area(first).map(|area| ProgramEvent::Unmap {
                start: address(area.start),
                length: area.end - area.start,
            }),
            number::BRK => brk(result as u64, space),
            _ => None,
        }
    }

    /// True if the call has mapped memory at an address that Linux would not have chosen: a private anonymous
    /// mapping of whole large pages that begins inside of one (see `plugin/large_mappings.rs`).
    pub fn is_misplaced(&self, result: i64) -> bool {
        let [address, length, protection, flags, ..] = self.arguments;
        self.number == number::MMAP
            && !is_failure(result)
            && is_on_large_pages([address, length, protection, flags])
            && !(result as u64).is_multiple_of(LARGE_PAGE_BYTES)
    }

    /// True for system calls that replace the program if they succeed.
    pub fn is_exec(&self) -> bool {
        matches!(self.number, number::EXECVE | number::EXECVEAT)
    }
}

/// True if the result of a system call is an error code.
pub fn is_failure(result: i64) -> bool {
    (-4095..0).contains(&result)
}

/// True if Linux accepts the name for anonymous memory (is_valid_name_char in kernel/sys.c).
fn is_name_of_anonymous_memory(name: &[u8]) -> bool {
    let is_valid = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\\`$[]".contains(byte);
    name.len() < ANONYMOUS_NAME_BYTES && name.iter().all(is_valid)
}

/// Returns the event of a call of brk with the new end of the heap. The heap spans whole pages; the first
/// call only queries its start.
fn brk(end: u64, space: &AddressSpace) -> Option<ProgramEvent> {
    let end = round_up(end);
    let start = space.heap_start().unwrap_or(end);
    Some(ProgramEvent::Brk { start: address(start), end: address(end.max(start)) })
}

fn address(value: u64) -> VirtualAddress {
    VirtualAddress::new(value)
}

fn round_up(length: u64) -> u64 {
    length.checked_next_multiple_of(PAGE_BYTES).unwrap_or(length)
}

/// Converts the protection flags of mmap and mprotect to permissions.
fn permissions(protection: u64) -> Permissions {
    Permissions {
        write: protection & PROT_WRITE != 0,
        execute: protection & PROT_EXEC != 0,
        user: true,
    }
}

fn is_accessible(protection: u64) -> bool {
    protection & (PROT_READ | PROT_WRITE | PROT_EXEC) != 0
}

fn advice(number: i32) -> Advice {
    match number {
        4 => Advice::DontNeed,
        8 => Advice::Free,
        14 => Advice::HugePage,
        15 => Advice::NoHugePage,
        other => Advice::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64, arguments: [u64; 6]) -> Syscall {
        Syscall { number, arguments, name: Vec::new() }
    }

    fn end(number: u64, arguments: [u64; 6], result: i64) -> Option<ProgramEvent> {
        call(number, arguments).end(result, &AddressSpace::default()).pop()
    }

    #[test]
    fn mmap_as_malloc_calls_it() {
        // mmap(NULL, 135169, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)
        let event = end(number::MMAP, [0, 135_169, 3, 0x22, u64::MAX, 0], 0x40_0300_0000);
        let expected = ProgramEvent::Map {
            start: VirtualAddress::new(0x40_0300_0000),
            length: 0x22000,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        assert_eq!(event, Some(expected));
        assert_eq!(end(number::MMAP, [0, 4096, 3, 0x22, 0, 0], -12), None, "ENOMEM");
    }

    /// Linux accepts a length of 0, and changes nothing.
    #[test]
    fn calls_without_a_length_change_nothing() {
        for (number, argument) in [(number::MPROTECT, 1), (number::MADVISE, 14)] {
            let of = |length| end(number, [0x40_0300_0000, length, argument, 0, 0, 0], 0);
            assert!(of(0).is_none() && of(1).is_some(), "{number}");
        }
    }

    #[test]
    fn stacks_of_threads_have_no_large_pages() {
        let stack = call(number::MMAP, [0, 8 << 20, 0, 0x2_0022, u64::MAX, 0]);
        let events = stack.end(0x40_0300_0000, &AddressSpace::default());
        let (start, advice) = (VirtualAddress::new(0x40_0300_0000), Advice::NoHugePage);
        let expected = ProgramEvent::Advise { start, length: 8 << 20, advice };
        assert_eq!(events[1..], [expected]);
    }

    #[test]
    fn misplaced_mappings_by_hand() {
        let is_misplaced = |first, length, flags, result| {
            call(number::MMAP, [first, length, 3, flags, 0, 0]).is_misplaced(result)
        };
        assert!(is_misplaced(0, 4 << 20, 0x22, 0x40_0300_4000));
        assert!(!is_misplaced(0, 4 << 20, 0x22, 0x40_0320_0000), "where Linux places it");
        assert!(!is_misplaced(0, (4 << 20) + 4096, 0x22, 0x40_0300_4000), "no whole large pages");
        assert!(!is_misplaced(0, 4 << 20, 0x21, 0x40_0300_4000), "shared");
        assert!(!is_misplaced(0, 4 << 20, 0x2, 0x40_0300_4000), "a file");
        assert!(!is_misplaced(0x40_0300_4000, 4 << 20, 0x22, 0x40_0300_4000), "as wished");
        assert!(!is_misplaced(0, 4 << 20, 0x22, -12), "ENOMEM");
    }

    #[test]
    fn shared_files_and_reservations() {
        let Some(ProgramEvent::Map { backing, shared, .. }) =
            end(number::MMAP, [0, 4096, 1, 0x1, 3, 0], 0x40_0300_0000)
        else {
            panic!("a map event")
        };
        assert_eq!((backing, shared), (Backing::File, true));
        let Some(ProgramEvent::Map { accessible, .. }) =
            end(number::MMAP, [0, 4096, 0, 0x4022, 0, 0], 0x40_0300_0000)
        else {
            panic!("a map event")
        };
        assert!(!accessible);
    }

    #[test]
    fn the_heap_starts_where_the_first_call_says() {
        let mut space = AddressSpace::default();
        for (result, start, heap_end) in [
            (0x40_0000_c123, 0x40_0000_d000, 0x40_0000_d000),
            (0x40_0002_e123, 0x40_0000_d000, 0x40_0002_f000),
        ] {
            let call = call(number::BRK, [0; 6]);
            let event = call.end(result, &space).pop().unwrap();
            let (start, end) = (VirtualAddress::new(start), VirtualAddress::new(heap_end));
            assert_eq!(event, ProgramEvent::Brk { start, end });
            space.apply(&event);
        }
    }

    /// mremap(0x10000, 0x2000, 0x2000, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) returns 0x80000.
    #[test]
    fn memory_that_moves_may_leave_its_mapping() {
        let mut space = AddressSpace::default();
        let map = |start, length| ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        space.apply(&map(0xf000, 0x4000));
        let call = |flags| call(number::MREMAP, [0x10000, 0x2000, 0x2000, flags, 0, 0]);
        let moved = call(5).end(0x80000, &space);
        assert!(matches!(moved[0], ProgramEvent::Remap { .. }), "{moved:?}");
        assert_eq!(moved[1..], [map(0x10000, 0x2000)]);
        moved.iter().for_each(|event| space.apply(event));
        let expected = [map(0xf000, 0x1000), map(0x10000, 0x2000), map(0x12000, 0x1000)];
        assert_eq!(space.events(|_| Vec::new())[..3], expected);
        assert_eq!(call(1).end(0x90000, &space).len(), 1, "an ordinary move");
    }

    #[test]
    fn attached_segments_are_mapped_until_they_are_detached() {
        let mut space = AddressSpace::default();
        let attach = call(number::SHMAT, [1, 0, SHM_RDONLY, 0, 0, 5000]);
        let events = attach.end(0x40_0300_0000, &space);
        let start = VirtualAddress::new(0x40_0300_0000);
        let is_mapped = matches!(events[..], [ProgramEvent::Map { start: at, length: 8192,
            permissions: Permissions::READ, shared: true, .. }] if at == start);
        assert!(is_mapped, "{events:?}");
        space.apply(&events[0]);
        let detach = |start| call(number::SHMDT, [start, 0, 0, 0, 0, 0]);
        assert_eq!(
            detach(0x40_0300_0000).end(0, &space),
            [ProgramEvent::Unmap { start, length: 8192 }]
        );
        assert_eq!(detach(0x40_0300_1000).end(0, &space), [], "not where one begins");
    }

    #[test]
    fn mapped_files_and_anonymous_memory_get_names() {
        let start = VirtualAddress::new(0x40_0300_0000);
        let named = |start, length, name: &str| ProgramEvent::Name {
            start: VirtualAddress::new(start),
            length,
            name: name.into(),
        };
        let of_file =
            Syscall { name: b"/a\nfile \xff".into(), ..call(number::MMAP, [0, 5000, 1, 2, 3, 0]) };
        let events = of_file.end(start.value() as i64, &AddressSpace::default());
        assert_eq!(events[1..], [named(0x40_0300_0000, 8192, "/a\\012file \u{fffd}")]);
        assert_eq!(of_file.end(-13, &AddressSpace::default()), [], "EACCES");

        let mut space = AddressSpace::default();
        events.iter().for_each(|event| space.apply(event));
        for (arguments, result) in
            [([0, 8192, 3, 0x22, 0, 0], 0x40_0300_2000), ([0, 8192, 3, 0x21, 0, 0], 0x40_0300_4000)]
        {
            let events = call(number::MMAP, arguments).end(result, &space);
            events.iter().for_each(|event| space.apply(event));
        }
        let name = |start, length, name: &[u8]| {
            let arguments = [0x5356_4d41, 0, start, length, 1, 0];
            let naming = Syscall { name: name.into(), ..call(number::PRCTL, arguments) };
            naming.begin(&space)
        };
        // Parts of a file, of private and of shared memory.
        let expected = [
            named(0x40_0300_2000, 0x2000, "[anon:a b]"),
            named(0x40_0300_4000, 0x1000, "[anon_shmem:a b]"),
        ];
        assert_eq!(name(0x40_0300_1000, 0x3fff, b"a b"), expected);
        assert_eq!(name(0x40_0300_3000, 1, b""), [named(0x40_0300_3000, 0x1000, "")]);
        for (start, wrong) in [
            (0x40_0300_2001, &b"a"[..]),
            (0x40_0300_2000, b"a]"),
            (0x40_0300_2000, b"\t"),
            (0x40_0300_2000, &[b'a'; 80]),
        ] {
            assert_eq!(name(start, 4096, wrong), [], "{start:x} {wrong:?}");
        }
    }

    #[test]
    fn unmap_takes_effect_at_once() {
        let begin = |arguments| call(number::MUNMAP, arguments).begin(&AddressSpace::default());
        let expected =
            ProgramEvent::Unmap { start: VirtualAddress::new(0x40_0000_1000), length: 4096 };
        assert_eq!(begin([0x40_0000_1000, 1, 0, 0, 0, 0]), [expected]);
        assert_eq!(begin([1, 4096, 0, 0, 0, 0]), [], "EINVAL");
        assert_eq!(begin([0x40_0000_1000, 0, 0, 0, 0, 0]), [], "EINVAL");
    }

    #[test]
    fn results_and_flags_of_calls() {
        assert_eq!([-4096, -4095, -1, 0, 1].map(is_failure), [false, true, true, false, false]);
        let mapped =
            |protection, flags| match end(number::MMAP, [0, 1, protection, flags, 0, 0], 0x10000) {
                Some(ProgramEvent::Map {
                    length,
                    permissions,
                    accessible,
                    backing,
                    shared,
                    populate,
                    ..
                }) => (
                    length,
                    permissions.write,
                    permissions.execute,
                    accessible,
                    backing,
                    shared,
                    populate,
                ),
                other => panic!("{other:?}"),
            };
        use Backing::{Anonymous, File};
        assert_eq!(mapped(0, 0x22), (4096, false, false, false, Anonymous, false, false));
        assert_eq!(mapped(2, 0x8022), (4096, true, false, true, Anonymous, false, true));
        assert_eq!(mapped(4, 0x21), (4096, false, true, true, Anonymous, true, false));
        assert_eq!(
            mapped(1, 0x3),
            (4096, false, false, true, File, true, false),
            "MAP_SHARED_VALIDATE"
        );
        for (number, expected) in [
            (4, Advice::DontNeed),
            (8, Advice::Free),
            (14, Advice::HugePage),
            (15, Advice::NoHugePage),
            (23, Advice::Other(23)),
            (-1, Advice::Other(-1)),
        ] {
            assert_eq!(advice(number), expected);
        }
        assert_eq!([0, 1, 4096, 4097, u64::MAX].map(round_up), [0, 4096, 4096, 8192, u64::MAX]);
        let is_exec = [number::EXECVE, number::EXECVEAT, number::MMAP]
            .map(|call_number| call(call_number, [0; 6]).is_exec());
        assert_eq!(is_exec, [true, true, false]);
        // munmap takes effect at once, if it is one.
        let begins = |start, length| {
            call(number::MUNMAP, [start, length, 0, 0, 0, 0]).begin(&AddressSpace::default())
        };
        let unmap = ProgramEvent::Unmap { start: VirtualAddress::new(0x1000), length: 4096 };
        assert_eq!(begins(0x1000, 1), [unmap]);
        assert_eq!((begins(0x1001, 4096), begins(0x1000, 0)), (vec![], vec![]));
        assert_eq!(end(number::MUNMAP, [0x1000, 4096, 0, 0, 0, 0], 0), None);
        assert_eq!(end(number::SHMAT, [0; 6], 0x10000), None, "of unknown size");
        let names = [79, 80].map(|length| is_name_of_anonymous_memory(&vec![b'a'; length]));
        assert_eq!(names, [true, false]);
        for (name, is_valid) in [
            (" ", true),
            ("~", true),
            ("\x1f", false),
            ("\x7f", false),
            ("a[", false),
            ("a]", false),
            ("`", false),
            ("$", false),
            ("\\", false),
            ("", true),
        ] {
            assert_eq!(is_name_of_anonymous_memory(name.as_bytes()), is_valid, "{name:?}");
        }
    }

    #[test]
    fn the_heap_never_ends_before_it_starts() {
        let mut space = AddressSpace::default();
        for (result, end) in [(0x10000, 0x10000), (0x13001, 0x14000), (0x8000, 0x10000)] {
            let event = call(number::BRK, [0; 6]).end(result, &space).pop().unwrap();
            let (start, end) = (VirtualAddress::new(0x10000), VirtualAddress::new(end));
            assert_eq!(event, ProgramEvent::Brk { start, end });
            space.apply(&event);
        }
    }
}

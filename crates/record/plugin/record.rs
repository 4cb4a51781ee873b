//! Records: 64-bit words in a ring. The tag is in bits 63:62.
//!
//! | tag | meaning | fields |
//! |---|---|---|
//! | 0 | memory access | instruction index in its block 61:52, write 51, log2 size 50:48, address 47:0 |
//! | 1 | block executed | number in the dictionary 31:0, instructions 47:32 |
//! | 2 | control | code 61:56, payload 47:0; some are followed by plain words |
//!
//! Accesses follow the record of their block.

const TAG_SHIFT: u32 = 62;
const TAG_BLOCK: u64 = 1 << TAG_SHIFT;
const TAG_CONTROL: u64 = 2 << TAG_SHIFT;
const INDEX_SHIFT: u32 = 52;
const WRITE: u64 = 1 << 51;
const SIZE_SHIFT: u32 = 48;
const COUNT_SHIFT: u32 = 32;
const CODE_SHIFT: u32 = 56;
/// Mask of the bits of a record that are its address or payload.
pub const PAYLOAD_MASK: u64 = (1 << 48) - 1;
/// Maximum number of instructions in a block; the emulator's own limit is 512.
pub const MAX_BLOCK_INSTRUCTIONS: usize = 1 << 10;

/// Kinds of control records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Control {
    /// Start of a segment (records of one thread between two points of synchronization); payload: its ticket,
    /// by which segments of all threads are ordered.
    Segment = 1,
    /// End of a segment; payload: dictionary number of the thread's next block + 1, or 0 if unknown.
    End = 2,
    /// Start of a system call; payload: its number. [`SYSCALL_WORDS`] arguments follow.
    Syscall = 3,
    /// End of a system call; payload: its number. The result follows.
    Return = 4,
    /// A new thread uses this ring; payload: number of its process image. The process ID follows. Occurs
    /// outside segments.
    ThreadStart = 5,
    /// A program is loaded and has not run yet; payload: number of its process image. The plugin waits for
    /// the recorder's answer.
    Image = 6,
    /// Recording starts in this process image; payload: number of instructions skipped so far by all threads.
    /// The number of the phase follows. The plugin waits for the recorder's answer.
    Start = 7,
    /// The process is about to fork; payload: number of the child's process image. A word follows: 1 if the
    /// child shares all memory until it executes another program (vfork), otherwise 0.
    Fork = 8,
    /// The thread has exited. Written by the recorder when it has read all records of a ring; outside
    /// segments, or inside an unfinished one.
    ThreadEnd = 9,
    /// A process is about to end; payload: number of its process image.
    Exit = 10,
    /// Bytes of the name that the thread's next system call gives to memory; payload: their number. Words
    /// with the bytes follow, [`SYSCALL_WORDS`] of them. Longer names have several such records.
    Name = 11,
}

/// Maximum length of a mapping's name in bytes: the longest path, and ` (deleted)`.
pub const MAX_NAME_BYTES: usize = 4096 + 10;

/// Number of arguments after [`Control::Syscall`].
pub const SYSCALL_WORDS: usize = 6;

impl Control {
    const ALL: [Self; 11] = [
        Self::Segment,
        Self::End,
        Self::Syscall,
        Self::Return,
        Self::ThreadStart,
        Self::Image,
        Self::Start,
        Self::Fork,
        Self::ThreadEnd,
        Self::Exit,
        Self::Name,
    ];

    /// Number of data words (such as a system call's arguments) that follow the record.
    pub const fn words(self) -> usize {
        match self {
            Self::Syscall | Self::Name => SYSCALL_WORDS,
            Self::Return | Self::ThreadStart | Self::Start | Self::Fork => 1,
            _ => 0,
        }
    }
}

/// A decoded record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A memory access by an instruction of the running block.
    Access {
        /// Index, in its block, of the instruction that makes the access.
        index: u16,
        /// True if the access is a write.
        write: bool,
        /// Size of the access in bytes, a power of two.
        size: u16,
        /// Address of the first accessed byte.
        address: u64,
    },
    /// Start of the block with this dictionary number.
    Block(u32),
    /// A control record, with its payload.
    Control(Control, u64),
    /// An invalid word: the shared memory is damaged.
    Invalid,
}

/// Encodes the fields of an access record that are known at translation, as a template for [`access`].
pub const fn access_template(index: usize) -> u64 {
    (index as u64) << INDEX_SHIFT
}

/// Encodes an access record from the `template` made at translation and the fields known at the access.
pub const fn access(template: u64, write: bool, size_shift: u32, address: u64) -> u64 {
    let write = if write { WRITE } else { 0 };
    template | write | ((size_shift as u64 & 7) << SIZE_SHIFT) | (address & PAYLOAD_MASK)
}

/// Encodes the record of a block's execution.
pub const fn block(number: u32, instructions: usize) -> u64 {
    TAG_BLOCK | (instructions as u64) << COUNT_SHIFT | number as u64
}

/// Encodes a control record.
pub const fn control(code: Control, payload: u64) -> u64 {
    TAG_CONTROL | ((code as u64) << CODE_SHIFT) | (payload & PAYLOAD_MASK)
}

/// Dictionary number in a block record.
pub const fn block_number(record: u64) -> u32 {
    record as u32
}

/// Number of instructions in a block record.
pub const fn block_instructions(record: u64) -> u64 {
    record >> COUNT_SHIFT & 0xffff
}

/// Decodes a record of any kind.
pub fn decode(record: u64) -> Record {
    match record >> TAG_SHIFT {
        0 => Record::Access {
            index: (record >> INDEX_SHIFT) as u16 & (MAX_BLOCK_INSTRUCTIONS as u16 - 1),
            write: record & WRITE != 0,
            size: 1 << (record >> SIZE_SHIFT & 7),
            address: record & PAYLOAD_MASK,
        },
        1 => Record::Block(block_number(record)),
        2 => {
            let code = (record >> CODE_SHIFT) as u8 & 0x3f;
            match Control::ALL.into_iter().find(|control| *control as u8 == code) {
                Some(control) => Record::Control(control, record & PAYLOAD_MASK),
                None => Record::Invalid,
            }
        }
        _ => Record::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_keep_all_their_fields() {
        for index in [0, 1, 511, MAX_BLOCK_INSTRUCTIONS - 1] {
            for (write, size_shift) in [(false, 0), (true, 3), (true, 6)] {
                let address = 0x7fff_ffff_fff8;
                let record = access(access_template(index), write, size_shift, address);
                let (index, size) = (index as u16, 1 << size_shift);
                assert_eq!(decode(record), Record::Access { index, write, size, address });
            }
        }
    }

    #[test]
    fn known_values() {
        // Index 2 in bits 61:52, write bit 51, log2(8) = 3 in bits 50:48.
        assert_eq!(access(access_template(2), true, 3, 0x1000), 0x002b_0000_0000_1000);
        assert_eq!(block(5, 3), 0x4000_0003_0000_0005);
        assert_eq!(block_instructions(block(u32::MAX, 511)), 511);
        assert_eq!(control(Control::Segment, 7), 0x8100_0000_0000_0007);
    }

    #[test]
    fn control_records_and_damage() {
        for code in Control::ALL {
            assert_eq!(decode(control(code, 42)), Record::Control(code, 42));
        }
        assert_eq!(decode(block(u32::MAX, 1023)), Record::Block(u32::MAX));
        assert_eq!(decode(u64::MAX), Record::Invalid);
        assert_eq!(decode(2 << 62), Record::Invalid, "control code 0");
    }
}

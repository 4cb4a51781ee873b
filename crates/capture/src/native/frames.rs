//! What is in each 2MB block of physical memory: `/proc/kpageflags` (root only; Linux:
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io::{self, Read};

use perforate_types::HoleSet;

/// Frames of a 2MB block.
const BLOCK_FRAMES: usize = HoleSet::SUBPAGES;

// Bits of an entry of `/proc/kpageflags`.
const LRU: u64 = 1 << 5;
const BUDDY: u64 = 1 << 10;
const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;
const HUGETLB: u64 = 1 << 17;
const NO_PAGE: u64 = 1 << 20;

/// What a frame is used for, as far as moving it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUse {
    /// In a free list.
    Free,
    /// Of a program or the page cache, on the kernel's lists for reclaim: it can be moved.
    Movable,
    /// The kernel's, or unknown: it stays where it is.
    Fixed,
    /// There is no memory.
    Absent,
}

/// Reads one entry of `/proc/kpageflags`. Frames that lie in the free lists of single processors
/// have no flag at all and count as fixed.
pub fn frame_use(flags: u64) -> FrameUse {
    if flags & NO_PAGE != 0 {
        FrameUse::Absent
    } else if flags & BUDDY != 0 {
        FrameUse::Free
    } else if flags & LRU != 0 && flags & HUGETLB == 0 {
        FrameUse::Movable
    } else {
        FrameUse::Fixed
    }
}

/// One 2MB block of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFrames {
    /// Frames in the free lists.
    pub free: HoleSet,
    /// Frames of the program that asks.
    pub ours: HoleSet,
    /// Frames of others that stay where they are.
    pub fixed: HoleSet,
    /// Whether the block is one page.
    pub is_large: bool,
}

impl BlockFrames {
    /// Frames of others: all that are neither free nor ours.
    pub fn others(&self) -> HoleSet {
        let (free, ours) = (self.free.words(), self.ours.words());
        HoleSet::from_words(std::array::from_fn(|word| !(free[word] | ours[word])))
    }

    /// Frames of others that can be moved.
    pub fn movable_frames(&self) -> u64 {
        (self.others().count() - self.fixed.count()) as u64
    }

    fn new(flags: &[u64], first_frame: u64, ours: &[u64]) -> Self {
        let mut block = Self::default();
        for (index, entry) in flags.iter().enumerate() {
            match frame_use(*entry) {
                FrameUse::Free => block.free.insert(index),
                FrameUse::Fixed | FrameUse::Absent => block.fixed.insert(index),
                FrameUse::Movable => false,
            };
        }
        for frame in ours {
            let index = (frame - first_frame) as usize;
            // What has just been freed, or was moved since we asked, is not ours any more.
            if !block.free.contains(index) {
                block.ours.insert(index);
                block.fixed.remove(index);
            }
        }
        let tails = flags.iter().skip(1).all(|entry| entry & COMPOUND_TAIL != 0);
        block.is_large = flags[0] & COMPOUND_HEAD != 0 && tails;
        block
    }
}

/// All blocks of a memory that is there in whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFrames {
    /// Blocks, lowest first. Blocks without any memory are left out.
    pub blocks: Vec<BlockFrames>,
    /// Free frames.
    pub free_frames: u64,
}

impl MemoryFrames {
    /// The memory of this machine; `ours` are the frames of the program that asks.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without root.
    pub fn now(ours: Vec<u64>) -> io::Result<Self> {
        read_blocks(&mut File::open("/proc/kpageflags")?, ours)
    }
}

/// Reads the entries of `/proc/kpageflags`, 8 bytes a frame. A block that the end of the file
/// cuts off is left out.
///
/// # Errors
/// What reading says.
pub fn read_blocks(flags: &mut dyn Read, mut ours: Vec<u64>) -> io::Result<MemoryFrames> {
    ours.sort_unstable();
    ours.dedup();
    let mut memory = MemoryFrames::default();
    let mut left = ours.as_slice();
    // The kernel takes whole entries only; this is also what it answers in.
    let mut buffer = vec![0; BLOCK_FRAMES * 8];
    let mut first_frame = 0;
    while fill(flags, &mut buffer)? {
        let entries = buffer.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let entries: Vec<u64> = entries.collect();
        let end = first_frame + BLOCK_FRAMES as u64;
        let (here, rest) = left.split_at(left.partition_point(|frame| *frame < end));
        left = rest;
        if entries.iter().any(|entry| frame_use(*entry) != FrameUse::Absent) {
            let block = BlockFrames::new(&entries, first_frame, here);
            memory.free_frames += block.free.count() as u64;
            memory.blocks.push(block);
        }
        first_frame = end;
    }
    Ok(memory)
}

/// Fills the buffer; false at the end of the file.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANONYMOUS: u64 = LRU | 1 << 11 | 1 << 12;

    fn file(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn uses_of_frames() {
        assert_eq!(frame_use(BUDDY), FrameUse::Free);
        assert_eq!(frame_use(ANONYMOUS), FrameUse::Movable);
        assert_eq!(frame_use(0), FrameUse::Fixed);
        assert_eq!(frame_use(1 << 7), FrameUse::Fixed, "slab");
        assert_eq!(frame_use(LRU | HUGETLB), FrameUse::Fixed);
        assert_eq!(frame_use(NO_PAGE), FrameUse::Absent);
    }

    /// Three blocks: free but for a slab frame, one of ours and one of another program; one 2MB
    /// page; none at all. A fourth is cut off.
    #[test]
    fn blocks_of_a_made_up_memory() {
        let mut entries = vec![BUDDY; 512];
        entries[3] = 1 << 7;
        entries[100] = ANONYMOUS;
        entries[200] = ANONYMOUS;
        entries.push(LRU | COMPOUND_HEAD);
        entries.extend([LRU | COMPOUND_TAIL; 511]);
        entries.extend([NO_PAGE; 512]);
        entries.extend([BUDDY; 511]);
        // Frame 7 is ours no more: it is free by now. The last lies behind the end.
        let ours = vec![100, 7, 100, 1 << 40];
        let memory = read_blocks(&mut file(&entries).as_slice(), ours).unwrap();
        assert_eq!((memory.blocks.len(), memory.free_frames), (2, 509));
        let first = &memory.blocks[0];
        let set = |frames: &[usize]| frames.iter().copied().collect::<HoleSet>();
        assert_eq!((first.ours, first.fixed), (set(&[100]), set(&[3])));
        assert_eq!(first.others(), set(&[3, 200]));
        assert_eq!((first.movable_frames(), first.is_large), (1, false));
        let second = &memory.blocks[1];
        assert!(second.is_large && second.others() == HoleSet::FULL);
        assert_eq!(second.movable_frames(), 512);
    }

    #[test]
    fn any_bytes_are_some_memory() {
        let bytes: Vec<u8> =
            (0..9000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let memory = read_blocks(&mut bytes.as_slice(), vec![0, u64::MAX, 5]).unwrap();
        assert!(memory.blocks.len() <= 2);
        for block in &memory.blocks {
            assert!(block.movable_frames() <= 512);
        }
    }
}

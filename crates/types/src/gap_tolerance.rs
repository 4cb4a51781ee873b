//! Gap-tolerant superpages (G §3): the modes of page directories, and the register that selects a
//! mode.
//!
//! A superpage is divided into 32 virtual blocks. They are mapped in order onto 32 selected
//! B-blocks of a memory slice, which has 64 B-blocks and twice the superpage's size. One 16-byte
//! entry of the page directory (GT-PDE) holds the slice and the selection bitmap. A paired entry
//! (P-GT-PDE) maps two superpages with one bitmap.

use serde::{Deserialize, Serialize};

use crate::PageSize;

/// Size in bytes of a page-directory entry for one gap-tolerant superpage (GT-PDE) or for two (P-GT-PDE).
pub const GT_PDE_BYTES: u64 = 16;
/// Number of blocks of physical memory (B-blocks) in a slice; an entry's selection bitmap has one bit for
/// each.
pub const SLICE_BLOCKS: u32 = 64;
/// Number of equal parts of a superpage, each mapped to one selected B-block of a slice; also the number of
/// set bits in a selection bitmap.
pub const SUPERPAGE_BLOCKS: u32 = 32;
/// Size in frames of a memory chunk: an aligned 128MB of physical memory. Both slices of a paired entry must
/// be in the same chunk, because their addresses may differ only in six bits (G §3.6).
pub const CHUNK_FRAMES: u64 = (128 << 20) / 4096;

/// A mode of page directories with gap-tolerant entries: the size of blocks, and one or two superpages for an
/// entry. A row of G Table 3 with GT = 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct GapTolerance {
    /// log2 of the size in 4KB frames of a B-block, a 64th of a slice (field BS of the register GTPTCR).
    block_order: u8,
    /// True if an entry maps two superpages (field P of the register GTPTCR).
    paired: bool,
}

/// Error for a value that G Table 3 does not list for GTPTCR, the register that selects a mode of page
/// directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Field GT of GTPTCR is 0 but another bit is set. Contains the value of the register.
    #[error("GTPTCR {0:#x}: P and BS are 0 where GT is 0, which means 2MB-page PDEs (G Table 3)")]
    Disabled(u64),
    /// G Table 3 has no mode with this size of B-blocks (64ths of a slice) and this number of superpages for
    /// an entry.
    #[error(
        "GT=1, P={}, BS={order} is no mode of G Table 3: BS is 3 (32KB) or 4 (64KB), and 5 (128KB) \
         where P is 0", u8::from(*paired)
    )]
    BlockSize {
        /// Requested log2 of the size in 4KB frames of a B-block, a 64th of a slice (field BS).
        order: u64,
        /// Requested value of field P: true if an entry maps two superpages.
        paired: bool,
    },
    /// A reserved bit of GTPTCR is set. Contains the value of the register.
    #[error("GTPTCR {0:#x}: bits above BS (5 and up) are reserved and 0")]
    Reserved(u64),
}

impl GapTolerance {
    /// Mode in which an entry maps one superpage of 1MB, with B-blocks (64ths of a slice) of 32KB.
    pub const SINGLE_1M: Self = Self { block_order: 3, paired: false };
    /// Mode in which an entry maps one superpage of 2MB, with B-blocks (64ths of a slice) of 64KB.
    pub const SINGLE_2M: Self = Self { block_order: 4, paired: false };
    /// Mode in which an entry maps one superpage of 4MB, with B-blocks (64ths of a slice) of 128KB.
    pub const SINGLE_4M: Self = Self { block_order: 5, paired: false };
    /// Mode in which an entry maps two superpages of 1MB, with B-blocks (64ths of a slice) of 32KB.
    pub const PAIRED_2M: Self = Self { block_order: 3, paired: true };
    /// Mode in which an entry maps two superpages of 2MB, with B-blocks (64ths of a slice) of 64KB.
    pub const PAIRED_4M: Self = Self { block_order: 4, paired: true };

    /// All modes with gap-tolerant entries, in the order of G Table 3.
    pub const ALL: [Self; 5] =
        [Self::SINGLE_1M, Self::SINGLE_2M, Self::SINGLE_4M, Self::PAIRED_2M, Self::PAIRED_4M];

    /// Mode with B-blocks (64ths of a slice) of 2^`order` frames, and with two superpages for an entry if
    /// `paired`.
    ///
    /// # Errors
    /// [`ControlError::BlockSize`] if G Table 3 has no such mode.
    pub const fn new(order: u64, paired: bool) -> Result<Self, ControlError> {
        match (order, paired) {
            (3 | 4, _) | (5, false) => Ok(Self { block_order: order as u8, paired }),
            _ => Err(ControlError::BlockSize { order, paired }),
        }
    }

    /// Decodes GTPTCR: GT is bit 0, P bit 1, BS bits 2–4 (the bit positions are our reading of G
    /// Fig. 10(a)). `None` stands for GT = 0: 2MB-page PDEs and no gap-tolerant entries.
    ///
    /// # Errors
    /// [`ControlError`] if G Table 3 does not list the value.
    pub const fn from_control(register: u64) -> Result<Option<Self>, ControlError> {
        if register >> 5 != 0 {
            return Err(ControlError::Reserved(register));
        }
        if register & 1 == 0 {
            return if register == 0 { Ok(None) } else { Err(ControlError::Disabled(register)) };
        }
        match Self::new(register >> 2, register & 2 != 0) {
            Ok(mode) => Ok(Some(mode)),
            Err(error) => Err(error),
        }
    }

    /// Value of the register GTPTCR that selects this mode of page directories.
    pub const fn control(self) -> u64 {
        1 | (self.paired as u64) << 1 | (self.block_order as u64) << 2
    }

    /// True if one entry maps two superpages.
    pub const fn is_paired(self) -> bool {
        self.paired
    }

    /// log2 of the size in 4KB frames of a B-block, a 64th of a slice (field BS of the register GTPTCR).
    pub const fn block_order(self) -> u32 {
        self.block_order as u32
    }

    /// Size in frames of a B-block, a 64th of a slice.
    pub const fn block_frames(self) -> u64 {
        1 << self.block_order
    }

    /// Size of a slice in frames. A slice is aligned to its size.
    pub const fn slice_frames(self) -> u64 {
        self.block_frames() * SLICE_BLOCKS as u64
    }

    /// Size of a superpage in 4KB pages.
    pub const fn superpage_pages(self) -> u64 {
        self.block_frames() * SUPERPAGE_BLOCKS as u64
    }

    /// Number of 4KB pages that an entry maps: one superpage, or two if paired. The mapped range is
    /// aligned to this number.
    pub const fn entry_pages(self) -> u64 {
        self.superpage_pages() << self.paired as u32
    }

    /// Size of a page-directory node in bytes: 4, 8 or 16KB. A node maps 1GB (G Table 2).
    pub const fn directory_bytes(self) -> u64 {
        PageSize::Size1G.pages() / self.entry_pages() * GT_PDE_BYTES
    }

    /// log2 of a page-directory node's size in frames.
    pub const fn directory_order(self) -> u32 {
        (self.directory_bytes() / PageSize::Size4K.bytes()).trailing_zeros()
    }

    /// Bytes of a page-directory node per 2MB of address space. If a 2MB region has 4KB pages,
    /// these bytes are a pointer to a level-1 node, followed by zero padding (G §3.5).
    pub const fn directory_bytes_per_region(self) -> u64 {
        self.directory_bytes() / 512
    }

    /// Name of the mode in reports, as G writes it: `GT-PDE-4MB`, `P-GT-PDE-2MB`.
    pub fn label(self) -> String {
        let prefix = if self.paired { "P-GT-PDE" } else { "GT-PDE" };
        format!("{prefix}-{}MB", self.entry_pages() / 256)
    }
}

impl TryFrom<u64> for GapTolerance {
    type Error = String;

    fn try_from(register: u64) -> Result<Self, String> {
        let mode = Self::from_control(register).map_err(|error| error.to_string())?;
        mode.ok_or_else(|| "GTPTCR 0 has no gap-tolerant entries".into())
    }
}

impl From<GapTolerance> for u64 {
    fn from(mode: GapTolerance) -> Self {
        mode.control()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of G Tables 2 and 3, typed from the paper: BS, P → sizes of entry, B-block, slice and
    /// directory, and directory bytes per 2MB.
    #[test]
    fn modes_of_table_3() {
        const K: u64 = 1024;
        const M: u64 = 1024 * K;
        let rows = [
            (3, false, M, 32 * K, 2 * M, 16 * K, 32),
            (4, false, 2 * M, 64 * K, 4 * M, 8 * K, 16),
            (5, false, 4 * M, 128 * K, 8 * M, 4 * K, 8),
            (3, true, 2 * M, 32 * K, 2 * M, 8 * K, 16),
            (4, true, 4 * M, 64 * K, 4 * M, 4 * K, 8),
        ];
        for ((order, paired, entry, block, slice, directory, region), mode) in
            rows.into_iter().zip(GapTolerance::ALL)
        {
            assert_eq!(GapTolerance::new(order, paired), Ok(mode));
            assert_eq!(mode.entry_pages() * 4 * K, entry);
            assert_eq!(mode.block_frames() * 4 * K, block);
            assert_eq!(mode.slice_frames() * 4 * K, slice);
            assert_eq!(mode.directory_bytes(), directory);
            assert_eq!(4096 << mode.directory_order(), directory);
            assert_eq!(mode.directory_bytes_per_region(), region);
            assert_eq!(GapTolerance::from_control(mode.control()), Ok(Some(mode)));
        }
        assert_eq!(GapTolerance::SINGLE_4M.label(), "GT-PDE-4MB");
        assert_eq!(GapTolerance::PAIRED_2M.label(), "P-GT-PDE-2MB");
    }

    /// Only the six rows of the table are valid among all 2^64 values; the test tries the lowest
    /// 64.
    #[test]
    fn other_registers_are_refused() {
        let listed = (0..64).filter(|&register| GapTolerance::from_control(register).is_ok());
        let rows = [0, 0b1101, 0b1111, 0b10001, 0b10011, 0b10101];
        assert!(listed.eq(rows));
        assert_eq!(GapTolerance::from_control(0), Ok(None));
        let error = GapTolerance::from_control(1 << 63 | 0b1101).unwrap_err();
        assert_eq!(error, ControlError::Reserved(1 << 63 | 0b1101));
        let text = GapTolerance::new(5, true).unwrap_err().to_string();
        assert!(text.starts_with("GT=1, P=1, BS=5 is no mode of G Table 3"), "{text}");
        assert!(GapTolerance::try_from(0).is_err());
    }
}

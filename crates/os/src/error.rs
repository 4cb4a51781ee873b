//! Errors of the operating system, each as one line for the user.

use std::error::Error;
use std::sync::Arc;

use perforate_config::ConfigError;
use perforate_types::{SpaceId, VirtualPage};

/// An error of the simulated operating system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OsError {
    /// An option with an invalid value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An error of a mechanism or policy outside this crate, such as direct segments or a policy script.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// Not enough free frames for the request.
    #[error(
        "out of memory: {} asked, {} of {} free; {} are enough for the present mappings, to which the program may add",
        size(*asked_bytes), size(*free_bytes), size(*memory_bytes), size(*enough_bytes)
    )]
    OutOfMemory {
        /// Size of the requested contiguous block, in bytes.
        asked_bytes: u64,
        /// Free memory in bytes; no free block is as large as the one asked for.
        free_bytes: u64,
        /// Size of the memory in bytes.
        memory_bytes: u64,
        /// Memory size in bytes that suffices to touch every mapped page.
        enough_bytes: u64,
    },
    /// A memory size that cannot be simulated.
    #[error("memory of {memory_bytes} bytes: {reason}")]
    InvalidMemory {
        /// The requested size in bytes.
        memory_bytes: u64,
        /// The rule that a valid size follows.
        reason: &'static str,
    },
    /// An unusable snapshot of a machine's memory.
    #[error("snapshot: {place}: {problem}")]
    InvalidSnapshot {
        /// Location of the problem: a byte of the file, or a line of a file in `/proc`.
        place: String,
        /// Description of the problem, and of what would be right.
        problem: String,
    },
    /// The policy maps perforated pages, but the page tables have no shadow node beside each node of 2MB
    /// entries (level 2), through which a walk finds the 4KB entries of holes.
    #[error("perforated pages need page tables with shadow directories")]
    NoShadowDirectories,
    /// The policy maps 2MB pages, but the page tables have gap-tolerant entries instead (G §3.7).
    #[error(
        "policy \"{policy}\" maps 2MB pages, and page tables in mode {mode} cannot hold them: an \
         address space has either 2MB-page PDEs or GT-PDEs (GTPTCR, G §3.7)"
    )]
    LargePagesWithGapTolerance {
        /// Name of the policy.
        policy: &'static str,
        /// Mode of gap-tolerant page tables (control register GTPTCR).
        mode: String,
    },
    /// The address space does not exist.
    #[error("no address space {}", .space.0)]
    UnknownSpace {
        /// Number of the address space in the request.
        space: SpaceId,
    },
    /// A range outside the 48-bit user address space.
    #[error("range of {length_bytes} bytes at {start:#x} is not in the 48-bit address space")]
    InvalidRange {
        /// First address of the range.
        start: u64,
        /// Length of the range in bytes.
        length_bytes: u64,
    },
    /// All 65,536 address-space identifiers are in use.
    #[error("more than 65536 address spaces at once")]
    TooManySpaces,
    /// The page to punch or patch is not part of an ordinary or perforated 2MB page.
    #[error("{page:?} of address space {} is not part of a 2MB page", .space.0)]
    NotLarge {
        /// Address space of the page.
        space: SpaceId,
        /// Page that was to become a hole (punch) or whose hole was to be filled (patch).
        page: VirtualPage,
    },
    /// The page to be punched is a hole already.
    #[error("{page:?} of address space {} is a hole already", .space.0)]
    AlreadyHole {
        /// Address space of the page.
        space: SpaceId,
        /// Page that was to become a hole.
        page: VirtualPage,
    },
    /// The page to be patched is not a hole.
    #[error("{page:?} of address space {} is not a hole", .space.0)]
    NotHole {
        /// Address space of the page.
        space: SpaceId,
        /// Page that was to be patched although it is not a hole.
        page: VirtualPage,
    },
    /// The address range to share is already mapped, or the in-place frame of the hole to patch holds other
    /// data.
    #[error("{page:?} of address space {} is occupied", .space.0)]
    Occupied {
        /// Address space of the page.
        space: SpaceId,
        /// The page whose address or in-place frame is in use.
        page: VirtualPage,
    },
    /// The page whose content was set or requested is not mapped.
    #[error("{page:?} of address space {} is not mapped", .space.0)]
    NotMapped {
        /// Address space of the page.
        space: SpaceId,
        /// The page that is not mapped.
        page: VirtualPage,
    },
    /// The content of a page was set although other pages map its frame.
    #[error(
        "{page:?} of address space {} shares its frame: only a write gives it other content",
        .space.0
    )]
    SharedContent {
        /// Address space of the page.
        space: SpaceId,
        /// The page that shares its frame.
        page: VirtualPage,
    },
    /// A punch or patch would move data of shared memory (MAP_SHARED) that other address spaces also map.
    #[error(
        "{page:?} of address space {} is shared memory that others map too: its data stay where \
         they are",
        .space.0
    )]
    SharedMemory {
        /// Address space of the page.
        space: SpaceId,
        /// The page of shared memory whose data would move.
        page: VirtualPage,
    },
    /// The hole cannot be patched: its 2MB page is shared memory and the hole is private, or the reverse.
    #[error("{page:?} of address space {} is not shared as the rest of its 2MB page is", .space.0)]
    SharingDiffers {
        /// Address space of the page.
        space: SpaceId,
        /// Page that is private in a shared 2MB page, or shared in a private one.
        page: VirtualPage,
    },
    /// Private memory with a copy-on-write page cannot become shared memory, because its frame is
    /// shared.
    #[error(
        "{page:?} of address space {} has its frame in common with others until a write copies \
         it: it cannot become shared memory",
        .space.0
    )]
    CopyOnWrite {
        /// Address space of the page.
        space: SpaceId,
        /// The copy-on-write page.
        page: VirtualPage,
    },
    /// No contiguous run of the requested length is free or can be freed.
    #[error(
        "no {} of contiguous memory; the longest run that there is or that can be made has {}",
        size(*asked_bytes), size(*longest_bytes)
    )]
    NoContiguousMemory {
        /// Requested length in bytes.
        asked_bytes: u64,
        /// Length in bytes of the longest run that is free or can be freed.
        longest_bytes: u64,
    },
    /// There is no room for the memory to hot-add.
    #[error(
        "no room to add {} of memory: {} can still be added",
        size(*asked_bytes), size(*left_bytes)
    )]
    NoRoomToAdd {
        /// Amount of memory to hot-add, in bytes.
        asked_bytes: u64,
        /// Room for hot-added memory that is left, in bytes.
        left_bytes: u64,
    },
    /// The hole cannot be patched: its 2MB page allows accesses that the hole's memory area (VMA) forbids.
    #[error("{page:?} of address space {} may not do what its 2MB mapping allows", .space.0)]
    PermissionsDiffer {
        /// Address space of the page.
        space: SpaceId,
        /// Hole that was to be patched.
        page: VirtualPage,
    },
}

/// An error of a mechanism or policy outside this crate, such as direct segments or a policy script.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MechanismError(Arc<dyn Error + Send + Sync>);

impl MechanismError {
    /// Wraps an error from outside this crate. The error's `Display` is shown to the user.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The wrapped error, if it has type `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl PartialEq for MechanismError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Formats bytes in the syntax of sizes on the command line, rounded up to kilobytes.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "none".into(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ => format!("{}K", bytes.div_ceil(1 << 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_divides_them() {
        for (bytes, text) in [
            (0, "none"),
            (1, "1K"),
            (1024, "1K"),
            (1025, "2K"),
            (1 << 20, "1M"),
            ((1 << 20) + 1, "1025K"),
            ((1 << 20) - 1024, "1023K"),
            (1 << 30, "1G"),
            (3 << 29, "1536M"),
            (5 << 40, "5120G"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn each_error_is_one_sentence() {
        let (space, page) = (SpaceId(3), VirtualPage::new(0x12));
        let mode = "2MB".to_owned();
        let known = page;
        let place = format!("{known:?} of address space 3");
        for (error, text) in [
            (
                OsError::OutOfMemory {
                    asked_bytes: 4096,
                    free_bytes: 0,
                    memory_bytes: 1 << 30,
                    enough_bytes: 3 << 20,
                },
                "out of memory: 4K asked, none of 1G free; 3M are enough for the present mappings, to \
                 which the program may add"
                    .to_owned(),
            ),
            (
                OsError::InvalidMemory { memory_bytes: 7, reason: "odd" },
                "memory of 7 bytes: odd".into(),
            ),
            (
                OsError::NoShadowDirectories,
                "perforated pages need page tables with shadow directories".into(),
            ),
            (
                OsError::LargePagesWithGapTolerance { policy: "thp", mode },
                "policy \"thp\" maps 2MB pages, and page tables in mode 2MB cannot hold them: an address \
                 space has either 2MB-page PDEs or GT-PDEs (GTPTCR, G §3.7)"
                    .into(),
            ),
            (OsError::UnknownSpace { space }, "no address space 3".into()),
            (
                OsError::InvalidRange { start: 4096, length_bytes: 5 },
                "range of 5 bytes at 0x1000 is not in the 48-bit address space".into(),
            ),
            (OsError::TooManySpaces, "more than 65536 address spaces at once".into()),
            (OsError::NotLarge { space, page }, format!("{place} is not part of a 2MB page")),
            (OsError::AlreadyHole { space, page }, format!("{place} is a hole already")),
            (OsError::NotHole { space, page }, format!("{place} is not a hole")),
            (OsError::Occupied { space, page }, format!("{place} is occupied")),
            (OsError::NotMapped { space, page }, format!("{place} is not mapped")),
            (
                OsError::SharedContent { space, page },
                format!("{place} shares its frame: only a write gives it other content"),
            ),
            (
                OsError::SharedMemory { space, page },
                format!("{place} is shared memory that others map too: its data stay where they are"),
            ),
            (
                OsError::SharingDiffers { space, page },
                format!("{place} is not shared as the rest of its 2MB page is"),
            ),
            (
                OsError::CopyOnWrite { space, page },
                format!(
                    "{place} has its frame in common with others until a write copies it: it cannot \
                     become shared memory"
                ),
            ),
            (
                OsError::NoContiguousMemory { asked_bytes: 4 << 20, longest_bytes: 2 << 20 },
                "no 4M of contiguous memory; the longest run that there is or that can be made has 2M"
                    .into(),
            ),
            (
                OsError::NoRoomToAdd { asked_bytes: 2 << 20, left_bytes: 4096 },
                "no room to add 2M of memory: 4K can still be added".into(),
            ),
            (
                OsError::PermissionsDiffer { space, page },
                format!("{place} may not do what its 2MB mapping allows"),
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
        let mechanism = |error: OsError| OsError::from(MechanismError::new(error));
        let none = mechanism(OsError::TooManySpaces);
        assert_eq!(none, mechanism(OsError::TooManySpaces));
        assert_ne!(none, mechanism(OsError::NoShadowDirectories));
        assert_eq!(none.to_string(), OsError::TooManySpaces.to_string());
        let OsError::Mechanism(inside) = none else { unreachable!("just made") };
        assert_eq!(inside.downcast_ref::<OsError>(), Some(&OsError::TooManySpaces));
        assert!(inside.downcast_ref::<ConfigError>().is_none());
    }
}

//! What can go wrong, each as one line for the user.

use std::error::Error;
use std::sync::Arc;

use perforate_config::ConfigError;
use perforate_types::{SpaceId, VirtualPage};

/// An error of the simulated operating system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OsError {
    /// An option that is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What a mechanism outside this crate cannot do.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// No frames left for what was asked.
    #[error(
        "out of memory: {} asked, {} of {} free; at most {} of memory are needed for all that is mapped now",
        size(*asked_bytes), size(*free_bytes), size(*memory_bytes), size(*enough_bytes)
    )]
    OutOfMemory {
        /// Size of the contiguous piece that was asked for.
        asked_bytes: u64,
        /// Free memory, in smaller pieces.
        free_bytes: u64,
        /// Size of the memory.
        memory_bytes: u64,
        /// A memory size at which touching every mapped page would succeed.
        enough_bytes: u64,
    },
    /// A memory of this size cannot be simulated.
    #[error("memory of {memory_bytes} bytes: {reason}")]
    InvalidMemory {
        /// The size asked for.
        memory_bytes: u64,
        /// What would be right.
        reason: &'static str,
    },
    /// A snapshot of a machine's memory that cannot be used.
    #[error("snapshot: {place}: {problem}")]
    InvalidSnapshot {
        /// Where: a byte of the file, a line of a file of `/proc`.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Perforated pages were wanted without the table format for them.
    #[error("perforated pages need page tables with shadow directories")]
    NoShadowDirectories,
    /// A policy with 2MB pages over page tables with gap-tolerant entries.
    #[error(
        "policy \"{policy}\" maps 2MB pages, and page tables in mode {mode} cannot hold them: an \
         address space has either 2MB-page PDEs or GT-PDEs (GTPTCR, G §3.7)"
    )]
    LargePagesWithGapTolerance {
        /// The policy.
        policy: &'static str,
        /// The mode.
        mode: String,
    },
    /// An address space that does not exist.
    #[error("no address space {}", .space.0)]
    UnknownSpace {
        /// The address space.
        space: SpaceId,
    },
    /// A range that no process can have.
    #[error("range of {length_bytes} bytes at {start:#x} is not in the 48-bit address space")]
    InvalidRange {
        /// First byte.
        start: u64,
        /// Length in bytes.
        length_bytes: u64,
    },
    /// More address spaces than tags.
    #[error("more than 65536 address spaces at once")]
    TooManySpaces,
    /// The page is not part of an ordinary or perforated 2MB page.
    #[error("{page:?} of address space {} is not part of a 2MB page", .space.0)]
    NotLarge {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// A punch where there is a hole already.
    #[error("{page:?} of address space {} is a hole already", .space.0)]
    AlreadyHole {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// A patch where there is no hole.
    #[error("{page:?} of address space {} is not a hole", .space.0)]
    NotHole {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// The place is taken: by a mapping (share), or by somebody else's data (patch).
    #[error("{page:?} of address space {} is occupied", .space.0)]
    Occupied {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// The content of a page that is not there.
    #[error("{page:?} of address space {} is not mapped", .space.0)]
    NotMapped {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// Another content for a page whose frame others map as well.
    #[error(
        "{page:?} of address space {} shares its frame: only a write gives it other content",
        .space.0
    )]
    SharedContent {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// Data of shared memory that would move for one of those who map it.
    #[error(
        "{page:?} of address space {} is shared memory that others map too: its data stay where \
         they are",
        .space.0
    )]
    SharedMemory {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// A page that is private in a 2MB page of shared memory, or the other way round.
    #[error("{page:?} of address space {} is not shared as the rest of its 2MB page is", .space.0)]
    SharingDiffers {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// Private memory that was to be shared while a page of it waits for its copy.
    #[error(
        "{page:?} of address space {} has its frame in common with others until a write copies \
         it: it cannot become shared memory",
        .space.0
    )]
    CopyOnWrite {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
    /// No run of contiguous memory of that length, nor one that could be made.
    #[error(
        "no {} of contiguous memory; the longest run that there is or that can be made has {}",
        size(*asked_bytes), size(*longest_bytes)
    )]
    NoContiguousMemory {
        /// Length asked for.
        asked_bytes: u64,
        /// The longest run.
        longest_bytes: u64,
    },
    /// More memory to be added at run time than there is room for.
    #[error(
        "no room to add {} of memory: {} can still be added",
        size(*asked_bytes), size(*left_bytes)
    )]
    NoRoomToAdd {
        /// Memory to be added.
        asked_bytes: u64,
        /// Room that is left.
        left_bytes: u64,
    },
    /// A patch that would allow more than the area does.
    #[error("{page:?} of address space {} may not do what its 2MB mapping allows", .space.0)]
    PermissionsDiffer {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
}

/// An error of a mechanism outside this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MechanismError(Arc<dyn Error + Send + Sync>);

impl MechanismError {
    /// An error as its mechanism describes it.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl PartialEq for MechanismError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Bytes as sizes are written on the command line, rounded up to kilobytes.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "none".into(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ => format!("{}K", bytes.div_ceil(1 << 10)),
    }
}

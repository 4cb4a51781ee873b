//! Facts about memory that the kernel passes to a script's functions: objects with read-only
//! fields.

use rhai::{Dynamic, Engine, EvalAltResult, Position};

/// Reason for which the kernel considers a large page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page fault, or memory that is populated in advance.
    Fault,
    /// Background promotion by khugepaged.
    Khugepaged,
}

impl Purpose {
    /// Name by which scripts know this reason.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Khugepaged => "khugepaged",
        }
    }
}

/// Declares the structs that script functions get as arguments, and registers their fields with the script
/// engine.
macro_rules! facts {
    ($(
        $(#[$meta:meta])*
        $name:ident as $script_name:literal { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }

            impl $name {
                /// Names of all fields of this argument of script functions, for documentation and error
                /// messages.
                pub const FIELDS: &[&str] = &[$(stringify!($field)),*];

                fn register(engine: &mut Engine) {
                    engine.register_type_with_name::<Self>($script_name);
                    $( engine.register_get(stringify!($field), |facts: &mut Self| ToScript::to_script(facts.$field)); )*
                    // Called if a script uses a field name that does not exist.
                    engine.register_indexer_get(|facts: &mut Self, field: &str| match field {
                        $( stringify!($field) => Ok(ToScript::to_script(facts.$field)), )*
                        _ => Err(no_field($script_name, Self::FIELDS, field)),
                    });
                    engine.register_indexer_set(|_: &mut Self, field: &str, _: Dynamic| {
                        Err::<(), _>(match Self::FIELDS.contains(&field) {
                            true => wrong_field(format!("{}.{field} can only be read", $script_name)),
                            false => no_field($script_name, Self::FIELDS, field),
                        })
                    });
                }
            }
        )*

        /// Registers the fields of all arguments of script functions, so that scripts can read the fields.
        pub(crate) fn register_all(engine: &mut Engine) {
            $( $name::register(engine); )*
        }
    };
}

facts! {
    /// Facts about the memory area (mapping) that may get a large page, and the state of physical memory.
    AreaFacts as "Area" {
        /// Address that the program touched; for khugepaged, the start of the 2MB region.
        address: u64,
        /// First address of the area.
        start: u64,
        /// Length of the area in bytes.
        length: u64,
        /// Kind of the area: anonymous, heap or stack.
        kind: &'static str,
        /// `hugepage` if the program advised MADV_HUGEPAGE for the area, otherwise `none`.
        advice: &'static str,
        /// True if the area is MAP_SHARED.
        shared: bool,
        /// True if the program may write to the area.
        writable: bool,
        /// True if the program may execute code in the area.
        executable: bool,
        /// Size of physical memory in bytes.
        memory_bytes: u64,
        /// Free physical memory in bytes.
        free_bytes: u64,
        /// Number of free 2MB blocks, including those inside larger free blocks.
        free_blocks: u64,
    }

    /// Facts about a 2MB block that other programs or the kernel occupy in part, or a 2MB page with holes.
    BlockFacts as "Block" {
        /// Number of 4KB holes in the block, 1 to 511.
        holes: u64,
        /// Number of 256KB regions of the block with a hole, 1 to 8.
        regions_with_holes: u64,
        /// True if the holes come from memory that has been in use (`--age`, `--memory-from`),
        /// rather than from fragmentation generated before the run.
        aged: bool,
    }

    /// Facts about a 2MB region of 4KB pages that khugepaged examines.
    RegionFacts as "Region" {
        /// Number of mapped 4KB pages in the region.
        pages_present: u64,
        /// Number of unmapped 4KB pages in the region.
        pages_absent: u64,
        /// Number of pages in the region whose frame is shared with other mappings.
        pages_shared: u64,
    }

    /// Facts about one way in which khugepaged can turn a region into a 2MB page, with its cost.
    WayFacts as "Way" {
        /// Name of the way: `collapse` copies all pages into a free block, `punch_around` copies pages around
        /// the frames in use by others in a block, `punch_in_place` copies nothing.
        name: &'static str,
        /// Number of frames of the region that must be copied.
        frames_copied: u64,
        /// Number of frames of other programs or the kernel that must be migrated first.
        frames_migrated: u64,
        /// Number of frames that must be cleared for unmapped pages.
        frames_zeroed: u64,
        /// Number of holes that the 2MB page would have.
        holes: u64,
    }

    /// Facts about a 2MB region that reclaim may swap out.
    VictimFacts as "Victim" {
        /// First address of the 2MB region.
        address: u64,
        /// Number of mapped 4KB pages in the region; for a 2MB page, without its holes.
        pages_present: u64,
        /// True if a page of 2MB or more maps the region.
        large: bool,
        /// Number of holes of the 2MB page that maps the region.
        holes: u64,
        /// Advice of the program for the first area in the region: `hugepage`, `nohugepage` or
        /// `none`.
        advice: &'static str,
    }
}

fn no_field(object: &str, fields: &[&str], name: &str) -> Box<EvalAltResult> {
    wrong_field(format!("{object} has no field {name}; it has {}", fields.join(", ")))
}

fn wrong_field(problem: String) -> Box<EvalAltResult> {
    EvalAltResult::ErrorDotExpr(problem, Position::NONE).into()
}

/// Conversion of a Rust value to a type of the script language.
trait ToScript {
    fn to_script(self) -> Dynamic;
}

impl ToScript for u64 {
    fn to_script(self) -> Dynamic {
        i64::try_from(self).unwrap_or(i64::MAX).into()
    }
}

impl ToScript for bool {
    fn to_script(self) -> Dynamic {
        self.into()
    }
}

impl ToScript for &'static str {
    fn to_script(self) -> Dynamic {
        self.into()
    }
}

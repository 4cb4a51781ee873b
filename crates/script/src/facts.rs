//! What a question tells the script: objects whose fields it can read.

use rhai::{Dynamic, Engine, EvalAltResult, Position};

/// What large pages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page fault, or memory that is touched in advance.
    Fault,
    /// Background promotion.
    Khugepaged,
}

impl Purpose {
    /// As scripts see it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Khugepaged => "khugepaged",
        }
    }
}

/// Facts, and the fields that a script reads of them, from one list.
macro_rules! facts {
    ($(
        $(#[$meta:meta])*
        $name:ident as $shown:literal { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }

            impl $name {
                /// The names of its fields, for whoever explains them.
                pub const FIELDS: &[&str] = &[$(stringify!($field)),*];

                fn register(engine: &mut Engine) {
                    engine.register_type_with_name::<Self>($shown);
                    $( engine.register_get(stringify!($field), |it: &mut Self| Shown::shown(it.$field)); )*
                    // Asked where there is no field of the name.
                    engine.register_indexer_get(|it: &mut Self, field: &str| match field {
                        $( stringify!($field) => Ok(Shown::shown(it.$field)), )*
                        _ => Err(no_field($shown, Self::FIELDS, field)),
                    });
                    engine.register_indexer_set(|_: &mut Self, field: &str, _: Dynamic| {
                        Err::<(), _>(match Self::FIELDS.contains(&field) {
                            true => wrong_field(format!("{}.{field} can only be read", $shown)),
                            false => no_field($shown, Self::FIELDS, field),
                        })
                    });
                }
            }
        )*

        /// Lets scripts read the fields of all facts.
        pub(crate) fn register_all(engine: &mut Engine) {
            $( $name::register(engine); )*
        }
    };
}

facts! {
    /// The area in which a large page is looked for, and the memory that there is.
    AreaFacts as "Area" {
        /// The address that was touched; the start of the 2MB region where khugepaged asks.
        address: u64,
        /// Where the area begins.
        start: u64,
        /// Its bytes.
        length: u64,
        /// anonymous, heap or stack.
        kind: &'static str,
        /// hugepage where the program advised MADV_HUGEPAGE, else none.
        advice: &'static str,
        /// Whether it is MAP_SHARED.
        shared: bool,
        /// Whether the program may write.
        writable: bool,
        /// Whether the program may execute.
        executable: bool,
        /// Physical memory in bytes.
        memory_bytes: u64,
        /// Those of them that are free.
        free_bytes: u64,
        /// Free 2MB blocks, those within larger free pieces included.
        free_blocks: u64,
    }

    /// A 2MB block of which others have a part, or a 2MB page with holes.
    BlockFacts as "Block" {
        /// Its 4KB holes, 1 to 511.
        holes: u64,
        /// The eighths of it (256KB) with a hole, 1 to 8.
        regions_with_holes: u64,
        /// Whether holes come from memory that has been in use (--age, --memory-from), not from
        /// injected fragmentation.
        aged: bool,
    }

    /// A 2MB region of 4KB pages that khugepaged looks at.
    RegionFacts as "Region" {
        /// Its pages that are mapped.
        pages_present: u64,
        /// Those that are not.
        pages_absent: u64,
        /// Those whose frame others map too.
        pages_shared: u64,
    }

    /// A way to make it a 2MB page, and its price.
    WayFacts as "Way" {
        /// collapse, punch_in_place or punch_around.
        name: &'static str,
        /// Frames of the region that are copied.
        frames_copied: u64,
        /// Frames of others that are moved away first.
        frames_migrated: u64,
        /// Frames that are cleared for absent pages.
        frames_zeroed: u64,
        /// Holes that the 2MB page would have.
        holes: u64,
    }

    /// A 2MB region that reclaim may swap out.
    VictimFacts as "Victim" {
        /// Where it begins.
        address: u64,
        /// Its 4KB pages that are mapped; of a 2MB page, those that are no holes.
        pages_present: u64,
        /// Whether a 2MB page or a larger one maps it.
        large: bool,
        /// Holes of the 2MB page.
        holes: u64,
        /// hugepage, nohugepage or none, as the program advised for the first area in it.
        advice: &'static str,
    }
}

fn no_field(object: &str, fields: &[&str], name: &str) -> Box<EvalAltResult> {
    wrong_field(format!("{object} has no field {name}; it has {}", fields.join(", ")))
}

fn wrong_field(problem: String) -> Box<EvalAltResult> {
    EvalAltResult::ErrorDotExpr(problem, Position::NONE).into()
}

/// A value as a script sees it.
trait Shown {
    fn shown(self) -> Dynamic;
}

impl Shown for u64 {
    fn shown(self) -> Dynamic {
        i64::try_from(self).unwrap_or(i64::MAX).into()
    }
}

impl Shown for bool {
    fn shown(self) -> Dynamic {
        self.into()
    }
}

impl Shown for &'static str {
    fn shown(self) -> Dynamic {
        self.into()
    }
}

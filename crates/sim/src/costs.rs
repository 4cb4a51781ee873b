//! Sections of a machine file that state a cost under each key.

/// Declares the type of such a section: its costs, then keys of other types, each with its value
/// in machine files without the section.
macro_rules! costs {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$cost_about:meta])* pub $cost:ident: f64 = $cost_default:expr,)*
            $(; $($(#[$other_about:meta])* pub $other:ident: $kind:ty = $other_default:expr,)*)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$cost_about])* pub $cost: f64,)*
            $($($(#[$other_about])* pub $other: $kind,)*)?
        }

        impl Default for $name {
            /// Returns the values for machine files without the section: those of the machine
            /// `perforated-table2`, which names the sources.
            fn default() -> Self {
                Self { $($cost: $cost_default,)* $($($other: $other_default,)*)? }
            }
        }

        impl $name {
            /// Returns each cost with its key.
            fn costs(&self) -> impl Iterator<Item = (&'static str, f64)> {
                [$((stringify!($cost), self.$cost)),*].into_iter()
            }
        }
    };
}

pub(crate) use costs;

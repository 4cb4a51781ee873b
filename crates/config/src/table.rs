//! Tables of options. A row has everything that the program knows about one option.
//!
//! [`options!`](crate::options) declares a struct with one field for each row. Flags of the command line,
//! keys of experiment files, keywords of Python, help, lists and notes are derived from the rows.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Key, keys, words};

/// Section of the options in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Options of the program that runs.
    Program,
    /// Options that choose the translation schemes to compare.
    Schemes,
    /// Options of physical memory and its history.
    Memory,
    /// Options of processor, caches and TLBs.
    Machine,
    /// Options of the run's length, repetitions, sampling and checks.
    Length,
    /// Options of Linux's settings, and of schemes' policies.
    System,
    /// Options of a virtual machine's guest and host.
    Virtual,
    /// Options of files and forms of results.
    Output,
}

impl Section {
    /// All sections, in the order in which help shows them.
    pub const ALL: [Self; 8] = [
        Self::Program,
        Self::Schemes,
        Self::Memory,
        Self::Machine,
        Self::Length,
        Self::System,
        Self::Virtual,
        Self::Output,
    ];

    /// Heading of the section in the help.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Program => "What to run",
            Self::Schemes => "Schemes",
            Self::Memory => "Memory",
            Self::Machine => "Machine",
            Self::Length => "How long and how exact",
            Self::System => "Operating system",
            Self::Virtual => "Virtual machine",
            Self::Output => "Output",
        }
    }
}

/// Work that an option causes in a run, such as swapping. Counters of this work show that the option had an
/// effect.
#[derive(Clone, Copy)]
pub struct Work {
    /// Counters of which at least one is above 0 if the option's work was done.
    pub counters: &'static [&'static str],
    /// Sentence for the note on a run in which all of these counters are 0.
    pub missing: &'static str,
}

/// Description of one option of the table `T`.
pub struct Row<T: Table> {
    /// Name of the option's field; users write it with `-` or `_`.
    pub name: &'static str,
    /// Section of the help that lists the option.
    pub section: Section,
    /// True if only `--help` shows the option, and `-h` does not.
    pub is_rare: bool,
    /// True if only the system that runs the program has the option, and not the host of a virtual machine.
    pub is_guest_only: bool,
    /// True if the scheme `ideal` (2MB pages on unfragmented memory) runs without the option.
    pub ideal_ignores: bool,
    /// True if the option contradicts a snapshot of a real machine's memory, which has the use of each frame.
    pub snapshot_says: bool,
    /// Line for short help; empty if the doc comment of the field is short enough.
    pub brief: &'static str,
    /// Form of the option's values in help, for example `FILE`; empty for the form of the field's
    /// type.
    pub form: &'static str,
    /// Default in help; empty if it is the default of the field.
    pub default: &'static str,
    /// True if the option's value is not the default.
    pub is_set: fn(&T) -> bool,
    /// Resets the option to its default.
    pub unset: fn(&mut T),
    /// Phrase about the option, to describe a run's memory; `None` if the option's value needs none.
    pub phrase: fn(&T) -> Option<String>,
    /// Reason why the option has no effect in a run about which these facts are known; `None` if it may have
    /// one.
    pub idle: fn(&T, &T::Setting) -> Option<String>,
    /// Work that the option causes; `None` if no counter shows it.
    pub work: Option<Work>,
}

impl<T: Table> Row<T> {
    /// Creates a row with a name, a section, and defaults for the other fields.
    pub const fn new(
        name: &'static str,
        section: Section,
        is_set: fn(&T) -> bool,
        unset: fn(&mut T),
    ) -> Self {
        Self {
            name,
            section,
            is_rare: false,
            is_guest_only: false,
            ideal_ignores: false,
            snapshot_says: false,
            brief: "",
            form: "",
            default: "",
            is_set,
            unset,
            phrase: |_| None,
            idle: |_, _| None,
            work: None,
        }
    }

    /// Name of the option as users write it, with `-`.
    pub fn option(&self) -> String {
        words::kebab(self.name)
    }
}

/// A struct of options that [`options!`](crate::options) declares.
pub trait Table: Sized + Serialize + DeserializeOwned + schemars::JsonSchema + 'static {
    /// Facts about the run that decide which options have an effect.
    type Setting;

    /// Rows of the table, in the order of the fields.
    fn rows() -> &'static [Row<Self>];

    /// Names, forms, defaults and help of all options.
    fn keys() -> Vec<Key> {
        let all = keys::<Self>().into_iter();
        let row = |name: &str| Self::rows().iter().find(|row| words::same(row.name, name));
        let with_row = all.filter_map(|key| Some((row(&key.name)?, key)));
        let said = |text: &str, otherwise: String| match text {
            "" => otherwise,
            text => text.to_owned(),
        };
        let key = |(row, key): (&Row<Self>, Key)| Key {
            form: said(row.form, key.form),
            default: said(row.default, said(&key.default, "none".into())),
            brief: said(row.brief, key.brief),
            section: Some(row.section),
            is_rare: row.is_rare,
            is_guest_only: row.is_guest_only,
            ..key
        };
        with_row.map(key).collect()
    }

    /// Rows of the options whose values differ from the defaults.
    fn set_rows(&self) -> impl Iterator<Item = &'static Row<Self>> {
        Self::rows().iter().filter(|row| (row.is_set)(self))
    }

    /// Phrases about the options that are set, in the order of the rows, to describe a run's memory.
    fn phrases(&self) -> Vec<String> {
        Self::rows().iter().filter_map(|row| (row.phrase)(self)).collect()
    }

    /// Names of the options that are set without an effect, with the reasons.
    fn idle(&self, setting: &Self::Setting) -> Vec<(String, String)> {
        let reason = |row: &Row<Self>| Some((row.option(), (row.idle)(self, setting)?));
        self.set_rows().filter_map(reason).collect()
    }
}

/// Declares a table of options: a struct, its defaults and its rows.
///
/// ```
/// use perforate_config::{Size, Table, options};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// options! {
///     /// Options of swapping.
///     #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
///     #[serde(default, deny_unknown_fields)]
///     pub struct Swapping, bool {
///         /// Swap space, for example 2G [default: none].
///         swap: Size, Memory {
///             phrase: |it| (it.swap.0 > 0).then(|| format!("{} of swap", it.swap)),
///         };
///         /// Pages that are read at a time.
///         readahead: u32 = 8, System {
///             is_rare: true,
///             idle: |it, &has_disk| (!has_disk).then(|| "there is no disk".into()),
///         };
///     }
/// }
///
/// let swapping: Swapping = perforate_config::read("readahead=4").unwrap();
/// assert_eq!(swapping.idle(&false), [("readahead".to_owned(), "there is no disk".to_owned())]);
/// assert_eq!(Swapping::keys()[1].default, "8");
/// ```
///
/// A row has a doc comment (the help), name, type, default (of the type, if omitted), the
/// [`Section`](crate::Section) of the help, and the fields of [`Row`](crate::Row) that differ from
/// [`Row::new`](crate::Row::new). Fields in a second block, `and { … }`, are not options.
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        $visibility:vis struct $name:ident, $setting:ty {
            $(
                $(#[$meta:meta])*
                $field:ident: $type:ty $(= $default:expr)?, $section:ident
                $({ $($key:ident: $value:expr),* $(,)? })?;
            )*
        }
        $(and {
            $( $(#[$other_meta:meta])* $other:ident: $other_type:ty $(= $other_default:expr)?; )*
        })?
    ) => {
        $(#[$about])*
        $visibility struct $name {
            $( $(#[$meta])* pub $field: $type, )*
            $( $( $(#[$other_meta])* pub $other: $other_type, )* )?
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $crate::options!(@default $($default)?), )*
                    $( $( $other: $crate::options!(@default $($other_default)?), )* )?
                }
            }
        }

        impl $crate::Table for $name {
            type Setting = $setting;

            fn rows() -> &'static [$crate::Row<Self>] {
                const ROWS: &[$crate::Row<$name>] = &[$(
                    $crate::Row {
                        $( $($key: $value,)* )?
                        ..$crate::Row::new(
                            stringify!($field),
                            $crate::Section::$section,
                            |it| {
                                let default: $type = $crate::options!(@default $($default)?);
                                it.$field != default
                            },
                            |it| it.$field = $crate::options!(@default $($default)?),
                        )
                    },
                )*];
                ROWS
            }
        }
    };
    (@default) => { ::core::default::Default::default() };
    (@default $value:expr) => { $value };
}

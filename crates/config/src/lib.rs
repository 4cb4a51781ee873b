//! Options, read and written in one way wherever they come from.
//!
//! A struct of options derives serde's traits and schemars' `JsonSchema`, which makes it [`Options`];
//! that is all. From it come
//! - reading: [`read`] takes `key=value,key=value` as a command line has it, [`OptionTexts`] texts by key
//!   as experiment files and Python have them;
//! - writing: [`write`] gives text that can be read again;
//! - lists and help: [`keys`] says key, form, default and meaning, from the field itself and the
//!   comment above it;
//! - tables: [`options!`] declares a struct whose fields are options of a run, each with all that flags,
//!   help, notes and checks need ([`Table`]);
//! - changes: [`Changes`] are some options of a struct, to be put over others.
//!
//! Values with a unit have a type and one grammar each: [`Size`] ([`BoundedSize`] in a range),
//! [`Count`], [`Share`], [`Address`]. Keys are written with `-` or `_`.
//!
//! Files that options name are read by [`read_text`] and its neighbours, and written as a [`NewFile`].
//! [`Program`] is the program itself, which may run inside another such as Python.
//!
//! A [`ConfigError`] knows the path of keys to what is wrong, so that whoever shows it can name the
//! option as the user wrote it.

mod changes;
mod error;
mod file;
mod key;
mod new_file;
mod option_texts;
mod plain;
mod program;
mod read;
mod shorten;
mod table;
#[cfg(test)]
mod tests;
mod unit;
mod words;
mod write;

pub use changes::Changes;
pub use error::ConfigError;
pub use file::{open_file, read_file, read_text};
pub use key::{Key, Word, keys, words_of};
pub use new_file::{NewFile, write_text, write_texts};
pub use option_texts::OptionTexts;
pub use plain::plain;
pub use program::Program;
pub use read::read;
pub use shorten::shorten;
pub use table::{Row, Section, Table, Work};
pub use unit::{Address, BoundedSize, Count, Share, Size};
pub use words::{nearest, suggestion};
pub use write::{write, write_changed};

/// A struct or enum that can be read, written and listed.
pub trait Options: serde::Serialize + serde::de::DeserializeOwned + schemars::JsonSchema {}

impl<T: serde::Serialize + serde::de::DeserializeOwned + schemars::JsonSchema> Options for T {}

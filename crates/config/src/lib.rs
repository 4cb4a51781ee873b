//! Options: parsing, writing, lists and help, in one grammar for the command line, files and Python.
//!
//! A struct of options derives serde's traits and schemars' `JsonSchema`, and so implements [`Options`]:
//! - [`read`] parses `key=value,key=value`, as on a command line; [`OptionTexts`] parses texts by key, as
//!   in experiment files and Python;
//! - [`write`] returns text that [`read`] parses;
//! - [`keys`] lists name, form, default and help of each option, from the field and its doc comment;
//! - [`options!`] declares a [`Table`]: a struct whose fields are options of a run, with all that flags,
//!   help, notes and checks need;
//! - [`Changes`] override some options of a struct.
//!
//! Values with a unit have a type each: [`Size`], [`BoundedSize`] (in a range), [`Count`], [`Share`],
//! [`Address`]. Keys are written with `-` or `_`. A [`ConfigError`] has the path of keys to the wrong
//! value, so that the message names the option as the user wrote it.
//!
//! The crate also reads input files ([`read_text`], [`open_file`]), writes output files ([`NewFile`]), and
//! knows the running [`Program`], which may be a module in Python.

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

/// A struct or enum of options that can be parsed, written and listed.
pub trait Options: serde::Serialize + serde::de::DeserializeOwned + schemars::JsonSchema {}

impl<T: serde::Serialize + serde::de::DeserializeOwned + schemars::JsonSchema> Options for T {}

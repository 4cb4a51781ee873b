//! Two dimensions with hand-made tables. `paging` has paging over paging, `segments` direct
//! segments at either level or both, `ranges` a unit with its own entries, and `intermediate`
//! intermediate entries. `tables` describes the tables.

mod hardware;
mod intermediate;
mod paging;
mod ranges;
mod segments;
mod tables;

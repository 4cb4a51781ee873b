//! Two dimensions with hand-made tables: paging over paging in `paging`, direct segments at either
//! level or both in `segments`, a unit with entries of its own in `ranges`; the tables themselves are
//! described in `tables`.

mod intermediate;
mod paging;
mod ranges;
mod segments;
mod tables;

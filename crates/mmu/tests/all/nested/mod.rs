//! Two dimensions with hand-made tables: paging over paging in `paging`, direct segments at either
//! level or both in `segments`; the tables themselves are described in `tables`.

mod paging;
mod segments;
mod tables;

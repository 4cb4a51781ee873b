//! Operating-system half: 2MB pages with holes in an address space.

mod mechanism;
mod page;

pub(crate) use mechanism::PerforatedPages;

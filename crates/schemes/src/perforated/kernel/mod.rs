//! Operating-system half: 2MB pages with holes in an address space.

mod acts;
mod demotion;
mod mechanism;
mod page;
mod reservation;

pub(crate) use mechanism::PerforatedPages;

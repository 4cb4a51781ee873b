//! How operating systems and hardware are connected in a [`System`](crate::System).

use perforate_mmu::{Dimension, Mmu, Shadow};
use perforate_types::Update;

/// Whose tables, or whose updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Of the operating system that runs the program: the guest's, when virtualized.
    Own,
    /// Of the host's.
    Host,
    /// Of the hypervisor that keeps shadow tables.
    Shadow,
}

impl Side {
    /// Brings an update of this side to the memory-management unit.
    ///
    /// # Panics
    /// If the unit has no such side.
    pub fn deliver(self, update: &Update, mmu: &mut Mmu) {
        match (self, update) {
            (Self::Own, _) | (Self::Shadow, Update::Shootdown(_)) => mmu.apply(update),
            (Self::Host, _) => mmu.apply_host(update),
            (Self::Shadow, Update::Change(change)) => {
                let shadow: Option<&mut Shadow> = mmu.dimension_mut().part_mut();
                shadow.expect("the unit has shadow tables").apply_shadow(change);
            }
        }
    }
}

/// The connections of a system. As they stand, everything is passed on as it is; whoever watches or
/// alters what passes implements the one concerned, as the tests do that prove that the oracle sees
/// defects.
pub trait Wiring: Send {
    /// Takes the tables of one side, before they are put together with others.
    fn tables(&mut self, _side: Side, tables: Box<dyn Dimension>) -> Box<dyn Dimension> {
        tables
    }

    /// Takes the dimension that stands behind the TLBs: the tables of one side, or of both together.
    fn behind_tlbs(&mut self, dimension: Box<dyn Dimension>) -> Box<dyn Dimension> {
        dimension
    }

    /// Brings an update to the memory-management unit.
    fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
        side.deliver(update, mmu);
    }
}

/// The connections of every run.
pub struct Direct;

impl Wiring for Direct {}

//! Connections between operating systems and hardware in a [`System`](crate::System), through which
//! tests can alter updates.

use perforate_mmu::{Attempt, Dimension, Mmu};
use perforate_schemes::shadow::Shadow;
use perforate_types::{FormatOperation, Update};

/// Owner of page tables, which sends the updates of these tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Operating system of the program; the guest's when virtualized.
    Own,
    /// Kernel of the host.
    Host,
    /// Hypervisor as the owner of shadow tables.
    Shadow,
}

impl Side {
    /// Delivers an update from this owner of tables to the memory-management unit.
    ///
    /// # Panics
    /// If the unit has no tables of this owner, or if they cannot represent the update.
    #[inline]
    pub fn deliver(self, update: &Update, mmu: &mut Mmu) {
        match (self, update) {
            (Self::Own, _) | (Self::Shadow, Update::Shootdown(_)) => mmu.apply(update),
            (Self::Host, _) => mmu.apply_host(update),
            (Self::Shadow, Update::Table(operation)) => {
                let shadow: Option<&mut Shadow> = mmu.dimension_mut().part_mut();
                shadow.expect("the unit has shadow tables").apply_shadow(operation);
            }
            (Self::Shadow, Update::Truth(_) | Update::Format(_)) => {
                panic!("shadow tables cannot hold {update:?}")
            }
        }
    }
}

/// Observer between operating systems and hardware, which may also alter tables and updates. Tests
/// use it to prove that the oracle detects defects. By default, it alters nothing.
pub trait Wiring: Send {
    /// Receives the tables of one owner, before guest and host tables are combined; returns the
    /// tables to use.
    fn tables(&mut self, _side: Side, tables: Box<dyn Dimension>) -> Box<dyn Dimension> {
        tables
    }

    /// Receives the address translation behind the TLBs (native tables, or guest and host tables
    /// combined); returns the translation to use.
    fn behind_tlbs(&mut self, dimension: Box<dyn Dimension>) -> Box<dyn Dimension> {
        dimension
    }

    /// Delivers an update to the memory-management unit, unchanged by default.
    fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
        side.deliver(update, mmu);
    }

    /// Observes each attempt to translate, successful or not, in runs that check translations.
    fn translated(&mut self, _attempt: &Attempt<'_>, _mmu: &Mmu) {}

    /// Returns true if a hypervisor with shadow tables sees this write of its guest to tables or
    /// registers.
    fn is_followed(&mut self, _operation: &dyn FormatOperation) -> bool {
        true
    }
}

/// Connections between operating systems and hardware: direct if `None`, otherwise through a
/// [`Wiring`].
pub(crate) struct Connections(pub(crate) Option<Box<dyn Wiring>>);

impl Connections {
    pub(crate) fn tables(&mut self, side: Side, tables: Box<dyn Dimension>) -> Box<dyn Dimension> {
        match &mut self.0 {
            None => tables,
            Some(wiring) => wiring.tables(side, tables),
        }
    }

    pub(crate) fn behind_tlbs(&mut self, dimension: Box<dyn Dimension>) -> Box<dyn Dimension> {
        match &mut self.0 {
            None => dimension,
            Some(wiring) => wiring.behind_tlbs(dimension),
        }
    }

    #[inline]
    pub(crate) fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
        match &mut self.0 {
            None => side.deliver(update, mmu),
            Some(wiring) => wiring.deliver(side, update, mmu),
        }
    }

    pub(crate) fn translated(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        if let Some(wiring) = &mut self.0 {
            wiring.translated(attempt, mmu);
        }
    }

    pub(crate) fn is_followed(&mut self, operation: &dyn FormatOperation) -> bool {
        self.0.as_mut().is_none_or(|wiring| wiring.is_followed(operation))
    }
}

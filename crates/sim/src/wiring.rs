//! How operating systems and hardware are connected in a [`System`](crate::System).

use perforate_mmu::{Attempt, Dimension, Mmu};
use perforate_schemes::shadow::Shadow;
use perforate_types::{FormatOperation, Update};

/// Owner of tables and sender of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The operating system that runs the program: the guest's, when virtualized.
    Own,
    /// The host's.
    Host,
    /// The hypervisor where it keeps shadow tables.
    Shadow,
}

impl Side {
    /// Brings an update of this side to the memory-management unit.
    ///
    /// # Panics
    /// If the unit has no such side, or its tables cannot hold it.
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

/// Somebody between operating systems and hardware, who may watch or alter what passes, as the tests
/// do that prove that the oracle sees defects. What is not implemented passes as it is.
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

    /// Hears of each attempt to translate, failed or not, where translations are checked.
    fn translated(&mut self, _attempt: &Attempt<'_>, _mmu: &Mmu) {}

    /// Whether a hypervisor that keeps shadow tables hears of what its guest writes.
    fn is_followed(&mut self, _operation: &dyn FormatOperation) -> bool {
        true
    }
}

/// The connections of a system: direct ones, unless there is somebody between.
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

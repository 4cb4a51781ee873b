//! Operations on the tables and registers that translate.
//!
//! The operating-system half of a mechanism writes them and the hardware half carries them out;
//! nobody between looks inside. [`TableOperation`]s are those of ordinary page tables, which all
//! formats made of radix trees share.

mod table;

use std::any::Any;
use std::fmt::Debug;

use crate::{Frame, PageRun};
pub use table::{Level, TableOperation};

/// An operation on one format of tables or registers.
pub trait FormatOperation: PlainData {
    /// The pages whose translation it may change. None where it only adds or removes nodes that map
    /// nothing.
    fn pages(&self) -> PageRun;

    /// What it writes, as a hypervisor sees it that keeps shadow tables.
    fn written(&self) -> Written;

    /// The frame of a table of the mechanism's own that it writes to, if it does. In a virtual
    /// machine the host backs it when the guest's kernel writes.
    fn table(&self) -> Option<Frame> {
        None
    }
}

/// What an operation writes. A hypervisor that keeps shadow tables of a guest's (D §II.A) has to see
/// whatever changes a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// An entry of the page table of this level that covers the operation's first page. The hypervisor
    /// write-protects the tables that it has shadowed.
    Entry(Level),
    /// So many registers of the processor, one after the other. The hypervisor emulates them.
    Registers(u64),
    /// Memory that only repeats what page tables say. The hypervisor does not read it.
    Copy,
}

/// What every operation can do because it is plain data; implemented for all that can be cloned and
/// compared.
pub trait PlainData: Any + Debug + Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn FormatOperation>;

    /// Whether the other one is the same operation of the same format.
    fn equals(&self, other: &dyn FormatOperation) -> bool;
}

impl<T: FormatOperation + Clone + PartialEq> PlainData for T {
    fn boxed(&self) -> Box<dyn FormatOperation> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn FormatOperation) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}

impl dyn FormatOperation {
    /// The operation as one of format `T`, if it is.
    pub fn downcast_ref<T: FormatOperation>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

impl Clone for Box<dyn FormatOperation> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl PartialEq for dyn FormatOperation {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

impl Eq for dyn FormatOperation {}

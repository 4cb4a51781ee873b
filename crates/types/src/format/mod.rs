//! Operations that write page tables, other translation tables, and registers.
//!
//! The operating-system half of a mechanism issues these operations and its hardware half carries
//! them out. The code between the two halves does not interpret them. [`TableOperation`]s write
//! ordinary page tables, which all formats based on radix trees share.

mod table;

use std::any::Any;
use std::fmt::Debug;

use crate::{Frame, PageRun};
pub use table::{Level, TableOperation};

/// An operation on one format of tables or registers.
pub trait FormatOperation: PlainData {
    /// The pages whose translations the operation may change. The run is empty if the operation
    /// only adds or removes nodes that map no page.
    fn pages(&self) -> PageRun;

    /// Kind of memory or registers that the operation writes, for a hypervisor with shadow tables.
    fn written(&self) -> Written;

    /// Frame of the mechanism's own table that the operation writes, if any. In a virtual machine,
    /// the host backs this frame when the guest's kernel writes to it.
    fn table(&self) -> Option<Frame> {
        None
    }
}

/// Target of an operation's writes. A hypervisor that keeps shadow tables of a guest (D §II.A) must
/// intercept every write that changes a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The page-table entry at this level that covers the operation's first page. The hypervisor
    /// write-protects the tables that it has shadowed.
    Entry(Level),
    /// This many processor registers, one after the other. The hypervisor emulates each write.
    Registers(u64),
    /// Memory that only repeats the contents of page tables. The hypervisor ignores it.
    Copy,
}

/// Cloning and comparison of operations behind `dyn`. Implemented for every operation that is
/// `Clone` and `PartialEq`.
pub trait PlainData: Any + Debug + Send + Sync {
    /// Clones the operation into a box.
    fn boxed(&self) -> Box<dyn FormatOperation>;

    /// True if `other` is an equal operation of the same format.
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
    /// Downcasts to format `T`; `None` if the operation has another format.
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

//! Operations that write page tables, other translation tables, and registers.
//!
//! A translation mechanism consists of an operating-system half, which issues these operations, and
//! a hardware half, which carries them out. The code between the two halves does not interpret the
//! operations. [`TableOperation`]s write ordinary page tables; all formats that are based on radix
//! trees use them.

mod table;

use std::any::Any;
use std::fmt::Debug;

use crate::{Frame, PageRun};
pub use table::{Level, TableOperation};

/// A write to tables or registers in the format of one translation mechanism.
pub trait FormatOperation: PlainData {
    /// Pages whose translations the operation may change. The run is empty if the operation only
    /// adds or removes nodes that map no page.
    fn pages(&self) -> PageRun;

    /// Target of the write. A hypervisor with shadow page tables decides by it which writes it must
    /// intercept.
    fn written(&self) -> Written;

    /// Frame that the operation writes if the frame belongs to a table other than page tables, such
    /// as a range table; otherwise `None`. In a virtual machine, the host maps this frame when the
    /// guest's kernel writes to it.
    fn table(&self) -> Option<Frame> {
        None
    }
}

/// Target of an operation's writes. A hypervisor that keeps shadow tables of a guest (D §II.A) must
/// intercept every write that changes a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Page-table entry at this level that covers the operation's first page. A hypervisor with
    /// shadow page tables intercepts the write by write-protecting the guest's tables.
    Entry(Level),
    /// Number of processor registers written, one after the other. The hypervisor emulates each
    /// write.
    Registers(u64),
    /// Memory that only repeats the contents of page tables, such as a range table. A hypervisor can ignore
    /// the write.
    Copy,
}

/// Object-safe cloning and comparison for `dyn FormatOperation`. Implemented for every operation
/// that is `Clone` and `PartialEq`.
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
    /// Converts the operation to type `T`; `None` if it belongs to another format.
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

//! The page walker and its means: walk caches, the list of steps, and, in the first of two
//! dimensions, the dimension beneath, through which guest-physical addresses are located.

use perforate_types::{Action, Frame, GuestFrame, Level, PhysicalAddress, Purpose, Steps, Unit};

use crate::nested::Host;
use crate::tlb::L2Tlb;
use crate::walk::Directory;
use crate::{WalkCaches, WalkFault, WalkRequest};

/// A page-table node: its frame as its own dimension counts frames, and where that lies in the
/// machine. The two differ in guests only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Frame of the dimension's own output space; the tables' contents are kept by it.
    pub frame: Frame,
    /// Frame of the machine, which the walker reads.
    pub located: Frame,
}

/// Purpose of a read of an entry of `level`.
pub(crate) const fn purpose_of(level: Level) -> Purpose {
    match level {
        4 => Purpose::Level4,
        3 => Purpose::Level3,
        2 => Purpose::Level2,
        _ => Purpose::Level1,
    }
}

/// The hardware page walker while it walks one dimension.
pub struct Walker<'a> {
    pub(crate) caches: &'a mut WalkCaches,
    pub(crate) l2: &'a mut L2Tlb,
    pub(crate) steps: &'a mut Steps,
    /// The dimension beneath, in a guest.
    pub(crate) host: Option<&'a mut Host>,
    /// Whether this is the second dimension of two.
    pub(crate) is_host: bool,
}

impl<'a> Walker<'a> {
    /// For a dimension with none beneath.
    #[inline(always)]
    pub(crate) fn native(
        caches: &'a mut WalkCaches,
        l2: &'a mut L2Tlb,
        steps: &'a mut Steps,
    ) -> Self {
        Self { caches, l2, steps, host: None, is_host: false }
    }

    /// The same walker in the guest's dimension, which lies on `host`.
    pub(crate) fn above<'b>(&'b mut self, host: &'b mut Host) -> Walker<'b> {
        let Walker { caches, l2, steps, .. } = self;
        Walker { caches, l2, steps, host: Some(host), is_host: false }
    }

    #[inline]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        if self.is_host { purpose.of_host() } else { purpose }
    }

    #[inline]
    fn walk_cache(&self) -> Unit {
        if self.is_host { Unit::HostWalkCache } else { Unit::WalkCache }
    }

    /// Notes a look-up of the walk caches.
    #[inline]
    pub(crate) fn looked_up(&mut self, slot: Option<u32>) {
        let unit = self.walk_cache();
        let action = slot.map_or(Action::Miss { unit }, |slot| Action::Hit { unit, slot });
        self.steps.then(self.purpose(Purpose::Page), action);
    }

    /// Notes a fill of the walk caches.
    #[inline]
    fn filled(&mut self, level: Level, slot: u32) {
        let action = Action::Fill { unit: self.walk_cache(), slot };
        self.steps.beside(self.purpose(purpose_of(level)), action);
    }

    /// Fills the walk cache of `level` with an entry just read, which points to `node`.
    #[inline]
    pub fn fill(&mut self, request: &WalkRequest, level: Level, directory: Directory, node: Node) {
        let WalkRequest { space, page, .. } = *request;
        if let Some(slot) = self.caches.fill(space, page, level, directory, node) {
            self.filled(level, slot);
        }
    }

    /// As [`Self::fill`], for an entry that was read without looking it up, and may be there.
    #[inline]
    pub fn fill_again(
        &mut self,
        request: &WalkRequest,
        level: Level,
        directory: Directory,
        node: Node,
    ) {
        let WalkRequest { space, page, .. } = *request;
        if let Some(slot) = self.caches.fill_again(space, page, level, directory, node) {
            self.filled(level, slot);
        }
    }

    /// Makes a place in the walk cache of level-2 entries for one just read that is a leaf. Returns
    /// the slot, for which the dimension keeps the entry; `None` where the machine caches no such
    /// entries.
    #[inline]
    pub fn fill_leaf(&mut self, request: &WalkRequest) -> Option<u32> {
        let slot = self.caches.fill_leaf(request.space, request.page)?;
        self.filled(2, slot);
        Some(slot)
    }

    /// Reads simulated memory, at an address of the machine.
    #[inline]
    pub fn read(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.then(self.purpose(purpose), Action::Read { address });
    }

    /// Reads simulated memory, at an address of the machine, together with the step before.
    #[inline]
    pub fn read_beside(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.beside(self.purpose(purpose), Action::Read { address });
    }

    /// Whether this dimension lies on another, so that each of its tables has to be located.
    #[inline]
    pub fn is_guest(&self) -> bool {
        self.host.is_some()
    }

    /// Notes that the read before fell on padding, so that another one follows.
    pub fn fell_on_padding(&mut self) {
        self.steps.fell_on_padding();
    }

    /// The unit of this dimension beside the second-level TLB.
    pub fn unit_beside(&self) -> Unit {
        Unit::beside_l2(self.purpose(Purpose::Page))
    }

    /// Notes what else was done, after everything before it. The purpose is that of the dimension
    /// itself, host or not.
    #[inline]
    pub fn note(&mut self, purpose: Purpose, action: Action) {
        self.steps.then(self.purpose(purpose), action);
    }

    /// Notes a table that a walk cache knew, where somebody checks the places of tables.
    #[inline(always)]
    pub(crate) fn located_before(&mut self, node: Node) {
        if let Some(host) = &mut self.host {
            host.noted(GuestFrame::new(node.frame.number()), node.located);
        }
    }

    /// Where a table of this dimension lies in the machine. The walker sets accessed bits in
    /// tables, so the host must allow writing them, as x86-64 has it where nested tables have
    /// accessed and dirty bits.
    ///
    /// # Errors
    /// [`WalkFault::Host`] where the host has it nowhere.
    #[inline(always)]
    pub fn locate(&mut self, frame: Frame) -> Result<Node, WalkFault> {
        match &mut self.host {
            None => Ok(Node { frame, located: frame }),
            Some(host) => {
                let guest = GuestFrame::new(frame.number());
                let located = host.locate_table(guest, self.l2, self.steps)?;
                Ok(Node { frame, located })
            }
        }
    }
}

//! The page walker and its resources: walk caches, the list of steps, and, for a guest's dimension,
//! the host's dimension, which locates guest-physical addresses.

use perforate_types::{Action, Frame, GuestFrame, Level, PhysicalAddress, Purpose, Steps, Unit};

use crate::nested::Host;
use crate::tlb::L2Tlb;
use crate::walk::Directory;
use crate::{WalkCaches, WalkFault, WalkRequest};

/// A page-table node: its frame number in its own dimension, and its location in the machine. The
/// two differ only in guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Frame in the dimension's output space; the dimension stores the node's contents under this
    /// number.
    pub frame: Frame,
    /// Machine frame, which the walker reads.
    pub located: Frame,
}

/// Purpose of reading an entry of `level`.
pub(crate) const fn purpose_of(level: Level) -> Purpose {
    match level {
        4 => Purpose::Level4,
        3 => Purpose::Level3,
        2 => Purpose::Level2,
        _ => Purpose::Level1,
    }
}

/// The hardware page walker during a walk of one dimension.
pub struct Walker<'a> {
    pub(crate) caches: &'a mut WalkCaches,
    pub(crate) l2: &'a mut L2Tlb,
    pub(crate) steps: &'a mut Steps,
    /// The host's dimension, in a guest.
    pub(crate) host: Option<&'a mut Host>,
    /// True if this is the second dimension of two.
    pub(crate) is_host: bool,
}

impl<'a> Walker<'a> {
    /// A walker for a dimension without a host.
    #[inline(always)]
    pub(crate) fn native(
        caches: &'a mut WalkCaches,
        l2: &'a mut L2Tlb,
        steps: &'a mut Steps,
    ) -> Self {
        Self { caches, l2, steps, host: None, is_host: false }
    }

    /// This walker for the guest's dimension over `host`.
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

    /// Records a look-up of the walk caches; `slot` is `None` for a miss.
    #[inline]
    pub(crate) fn looked_up(&mut self, slot: Option<u32>) {
        let unit = self.walk_cache();
        let action = slot.map_or(Action::Miss { unit }, |slot| Action::Hit { unit, slot });
        self.steps.then(self.purpose(Purpose::Page), action);
    }

    /// Records a fill of the walk caches.
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

    /// Like [`Self::fill`], for an entry that was read without a look-up and may be cached already.
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

    /// Allocates a slot in the level-2 walk cache for a leaf entry just read, whose content the
    /// dimension stores. Returns `None` if the machine does not cache such entries.
    #[inline]
    pub fn fill_leaf(&mut self, request: &WalkRequest) -> Option<u32> {
        let slot = self.caches.fill_leaf(request.space, request.page)?;
        self.filled(2, slot);
        Some(slot)
    }

    /// Records a read of simulated memory at a machine address, after all earlier steps.
    #[inline]
    pub fn read(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.then(self.purpose(purpose), Action::Read { address });
    }

    /// Records a read of simulated memory at a machine address, in parallel with the previous step.
    #[inline]
    pub fn read_beside(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.beside(self.purpose(purpose), Action::Read { address });
    }

    /// True if this dimension has a host, so that each of its tables must be located.
    #[inline]
    pub fn is_guest(&self) -> bool {
        self.host.is_some()
    }

    /// Records that the previous read fell on padding, so that another read follows.
    pub fn record_padding_read(&mut self) {
        self.steps.record_padding_read();
    }

    /// The unit beside the second-level TLB in this dimension.
    pub fn unit_beside(&self) -> Unit {
        Unit::beside_l2(self.purpose(Purpose::Page))
    }

    /// Records any other action, after all earlier steps. `purpose` is given for the first
    /// dimension and converted if this is the host.
    #[inline]
    pub fn note(&mut self, purpose: Purpose, action: Action) {
        self.steps.then(self.purpose(purpose), action);
    }

    /// Records the location of a table that a walk cache held, if a checker asked for locations.
    #[inline(always)]
    pub(crate) fn record_cached_location(&mut self, node: Node) {
        if let Some(host) = &mut self.host {
            host.record_location(GuestFrame::new(node.frame.number()), node.located);
        }
    }

    /// Locates a table of this dimension in the machine. The walker sets accessed bits in tables,
    /// so the host must allow writes, as on x86-64 with accessed and dirty bits in nested tables.
    ///
    /// # Errors
    /// [`WalkFault::Host`] if the host does not map the frame or forbids writes.
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

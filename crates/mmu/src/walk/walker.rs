//! The page walker and its resources: walk caches, the list of steps and, for a guest's tables, the
//! host that locates guest-physical addresses in the machine.

use perforate_types::{Action, Frame, GuestFrame, Level, PhysicalAddress, Purpose, Steps, Unit};

use crate::nested::Host;
use crate::tlb::L2Tlb;
use crate::walk::Directory;
use crate::{WalkCaches, WalkFault, WalkRequest};

/// A page-table node, by its frame number in the tables and its frame in the machine. The two
/// differ only in a guest, whose tables have guest-physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Frame number in the tables: a guest frame in a guest. [`TableMemory`](crate::TableMemory)
    /// has the contents of the node under this number.
    pub frame: Frame,
    /// Machine frame of the node, at which the walker reads.
    pub located: Frame,
}

/// Returns the purpose that a step has if it reads an entry of `level`, such as
/// [`Purpose::Level1`].
#[inline(always)]
pub(crate) const fn purpose_of(level: Level) -> Purpose {
    const PURPOSES: [Purpose; 8] = {
        let mut purposes = [Purpose::Level4; 8];
        purposes[1] = Purpose::Level1;
        purposes[2] = Purpose::Level2;
        purposes[3] = Purpose::Level3;
        purposes[5] = Purpose::Level5;
        purposes
    };
    PURPOSES[(level & 7) as usize]
}

/// The hardware page walker during a walk of native, guest or host tables.
pub struct Walker<'a> {
    pub(crate) caches: &'a mut WalkCaches,
    pub(crate) l2: &'a mut L2Tlb,
    pub(crate) steps: &'a mut Steps,
    /// Host that translates the guest frames of a guest's tables to machine frames; `None` during
    /// native walks and walks of the host's tables.
    pub(crate) host: Option<&'a mut Host>,
    /// True during a walk of the host's tables.
    pub(crate) is_host: bool,
}

impl<'a> Walker<'a> {
    /// Creates a walker for tables without a host. For a guest, [`Self::above`] adds the host.
    #[inline(always)]
    pub(crate) fn native(
        caches: &'a mut WalkCaches,
        l2: &'a mut L2Tlb,
        steps: &'a mut Steps,
    ) -> Self {
        Self { caches, l2, steps, host: None, is_host: false }
    }

    /// Borrows this walker for a walk of a guest's tables; `host` translates their guest frames to
    /// machine frames.
    pub(crate) fn above<'b>(&'b mut self, host: &'b mut Host) -> Walker<'b> {
        let Walker { caches, l2, steps, .. } = self;
        Walker { caches, l2, steps, host: Some(host), is_host: false }
    }

    /// Borrows this walker, which has no host, for a walk of native tables or, with `is_host`, of the host's.
    #[inline(always)]
    pub(crate) fn without_host(&mut self, is_host: bool) -> Walker<'_> {
        let Walker { caches, l2, steps, .. } = self;
        Walker { caches, l2, steps, host: None, is_host }
    }

    #[inline(always)]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        if self.is_host { purpose.of_host() } else { purpose }
    }

    #[inline(always)]
    fn walk_cache(&self) -> Unit {
        if self.is_host { Unit::HostWalkCache } else { Unit::WalkCache }
    }

    /// Appends the step of a look-up of the walk caches. `slot` is `None` for a miss.
    #[inline(always)]
    pub(crate) fn looked_up(&mut self, slot: Option<u32>) {
        let unit = self.walk_cache();
        let action = slot.map_or(Action::Miss { unit }, |slot| Action::Hit { unit, slot });
        self.steps.then(self.purpose(Purpose::Page), action);
    }

    /// Appends the step of a fill of the walk caches.
    #[inline(always)]
    fn filled(&mut self, level: Level, slot: u32) {
        let action = Action::Fill { unit: self.walk_cache(), slot };
        self.steps.beside(self.purpose(purpose_of(level)), action);
    }

    /// Fills the walk cache of `level` with an entry just read, which points to `node`.
    #[inline(always)]
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

    /// Allocates a slot in the level-2 walk cache for a leaf entry just read. The caller must keep
    /// the entry's content under this slot. Returns `None` if the machine does not cache such
    /// entries.
    #[inline]
    pub fn fill_leaf(&mut self, request: &WalkRequest) -> Option<u32> {
        let slot = self.caches.fill_leaf(request.space, request.page)?;
        self.filled(2, slot);
        Some(slot)
    }

    /// Appends the step of a read of simulated memory at a machine address. The read starts after
    /// all earlier steps.
    #[inline(always)]
    pub fn read(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.then(self.purpose(purpose), Action::Read { address });
    }

    /// Appends the step of a read of simulated memory at a machine address, in parallel with the
    /// previous step.
    #[inline(always)]
    pub fn read_beside(&mut self, purpose: Purpose, address: PhysicalAddress) {
        self.steps.beside(self.purpose(purpose), Action::Read { address });
    }

    /// True during a walk of a guest's tables, each of which the host must locate.
    #[inline]
    pub fn is_guest(&self) -> bool {
        self.host.is_some()
    }

    /// Records that the previous read hit the zero padding of a page directory, so that another
    /// read follows (G §3.5).
    pub fn record_padding_read(&mut self) {
        self.steps.record_padding_read();
    }

    /// Returns the unit in parallel with the second-level TLB, such as a range TLB, that belongs to
    /// the walked tables: the host's during a walk of the host's tables, otherwise the native or
    /// guest's one.
    pub fn unit_beside(&self) -> Unit {
        Unit::sideband_tlb(self.purpose(Purpose::Page))
    }

    /// Appends a step with the given action, such as a check of segment registers, after all
    /// earlier steps. Callers give the `purpose` of a native walk; during a walk of the host's
    /// tables, its host counterpart is recorded.
    #[inline]
    pub fn note(&mut self, purpose: Purpose, action: Action) {
        self.steps.then(self.purpose(purpose), action);
    }

    /// Records the machine frame of a guest page-table node that a walk cache held, if
    /// [`Host::note_located`] was called.
    #[inline(always)]
    pub(crate) fn record_cached_location(&mut self, node: Node) {
        if let Some(host) = &mut self.host {
            host.record_location(GuestFrame::new(node.frame.number()), node.located);
        }
    }

    /// Finds the machine frame of a page-table node. In a guest, the host translates the guest
    /// frame, and must allow writes, because the walker sets accessed bits in the node (as on
    /// x86-64 with accessed and dirty bits in nested tables).
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

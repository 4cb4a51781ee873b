//! Reference translation of a system: one oracle, or the guest's oracle combined with the host's.

use std::collections::BTreeMap;

use perforate_mmu::{HostFault, PageFault, Translated};
use perforate_oracle::{Disagreement, Mapping, Oracle, OracleError};
use perforate_os::Kernel;
use perforate_types::{
    AccessKind, Frame, GapTolerance, GuestFrame, Level, PageSize, PhysicalAddress, SpaceId,
    TableOperation, Update, VirtualAddress, VirtualPage,
};

/// Oracles of the program's operating system and of the host, which know the intended mappings.
pub(crate) struct Oracles {
    own: Oracle,
    host: Option<HostOracle>,
    /// Spurious fault that is being served: the page is mapped according to the oracle. `None` if
    /// there is none.
    spurious: Option<Spurious>,
}

/// Fault on a page that is mapped and allows the access. It is legitimate only if the tables lack
/// the mapping so far. So the operating system must write something for the page while it serves
/// the fault.
struct Spurious {
    /// True if the host's tables caused the fault.
    is_host: bool,
    /// Error to report if the operating system writes nothing for the page.
    disagreement: Disagreement,
}

/// Oracle of the host, and the virtual machine's address space in the host.
struct HostOracle {
    oracle: Oracle,
    space: SpaceId,
    tables: GuestTables,
}

/// Pages of the guest's memory that the page walker reads.
pub(crate) struct GuestTables {
    /// First frame of each page-table node, by address space, level, first page that the node
    /// covers, and index among the nodes of this level for the same pages.
    nodes: BTreeMap<(SpaceId, Level, VirtualPage, u8), Frame>,
    /// Number of frames of a level-2 node in the default format.
    directory_frames: u64,
    /// Number of frames of a level-2 node in address spaces with another format.
    directory_frames_of: BTreeMap<SpaceId, u64>,
    /// First page of the hole bitmaps. Only hot-added memory has higher addresses. `None` without
    /// holes.
    bitmaps: Option<GuestFrame>,
}

impl GuestTables {
    /// Creates an empty list of tables, for a kernel that has not written any tables yet.
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let bitmaps = kernel.hole_bitmap().map(|address| GuestFrame::new(address.page().number()));
        let directory_frames = 1 << kernel.tables().directory_order();
        let (nodes, directory_frames_of) = (BTreeMap::new(), BTreeMap::new());
        Self { nodes, directory_frames, directory_frames_of, bitmaps }
    }

    fn apply(&mut self, operation: &TableOperation) {
        match *operation {
            TableOperation::SetControl { space, control } => {
                if let Ok(Some(mode)) = GapTolerance::from_control(control) {
                    self.directory_frames_of.insert(space, 1 << mode.directory_order());
                }
            }
            TableOperation::AddNode { space, level, page, frame, branch } => {
                self.nodes.insert((space, level, page, branch), frame);
            }
            TableOperation::RemoveNode { space, level, page, branch } => {
                self.nodes.remove(&(space, level, page, branch));
            }
            _ => {}
        }
    }

    /// True if a walk of `page` in `space` may read the page `table`.
    fn may_be_read(&self, (space, page): (SpaceId, VirtualPage), table: GuestFrame) -> bool {
        let is_bitmap = self.bitmaps.is_some_and(|first| table >= first);
        let is_node = |level: Level| {
            let first = VirtualPage::new(page.number() >> (9 * level) << (9 * level));
            let of_space = self.directory_frames_of.get(&space);
            let directory = of_space.copied().unwrap_or(self.directory_frames);
            let frames = if level == 2 { directory } else { 1 };
            let branches = (space, level, first, 0)..=(space, level, first, u8::MAX);
            self.nodes
                .range(branches)
                .any(|(_, node)| (node.number()..node.number() + frames).contains(&table.number()))
        };
        is_bitmap || (1..=5).any(is_node)
    }
}

impl HostOracle {
    fn expected(&mut self, page: GuestFrame) -> Option<Mapping> {
        self.oracle.expected(self.space, VirtualPage::new(page.number()))
    }

    /// Compares a translation with the combined mappings of guest and host.
    fn compare(
        &mut self,
        access: Access,
        mapped: Option<Mapping>,
        result: &Result<Translated, PageFault>,
    ) -> Result<Option<Spurious>, Disagreement> {
        let guest = mapped.filter(|_| access.allowed_by(mapped).is_some());
        let host = guest.and_then(|(frame, _)| self.expected(GuestFrame::new(frame.number())));
        let composed = access.allowed_by(host);
        let is_spurious = |is_host, disagreement| Ok(Some(Spurious { is_host, disagreement }));
        match *result {
            Ok(Translated { physical, .. }) if composed == Some(physical) => Ok(None),
            Ok(Translated { physical, .. }) => Err(access.disagreement(composed, Some(physical))),
            Err(PageFault::Host(fault)) => {
                if !self.involves(&access, mapped.map(|(frame, _)| frame), fault) {
                    return Err(access.disagreement(composed, None));
                }
                let address = VirtualAddress::new(fault.page.address().value());
                let inner = Access { space: self.space, address, kind: fault.kind };
                match inner.allowed_by(self.expected(fault.page)) {
                    None => Ok(None),
                    expected => is_spurious(true, inner.disagreement(expected, None)),
                }
            }
            // The hypervisor may drop a shadow entry at any time; this fault requests a new one.
            Err(PageFault::Incomplete) => Ok(None),
            Err(_) if guest.is_none() => Ok(None),
            Err(PageFault::NotMapped) => is_spurious(false, access.disagreement(composed, None)),
            Err(PageFault::Protection) => Err(access.disagreement(composed, None)),
        }
    }

    /// True if the access involves the page that faulted: as its data, or as a table of its walk,
    /// in which the walker sets accessed bits.
    fn involves(&self, access: &Access, data: Option<Frame>, fault: HostFault) -> bool {
        let is_data = data.is_some_and(|frame| frame.number() == fault.page.number());
        // A host's walk does not distinguish a fetch from a load.
        let as_data = fault.kind == access.kind || fault.kind == AccessKind::Read;
        let place = (access.space, access.address.page());
        let is_table =
            fault.kind == AccessKind::Write && self.tables.may_be_read(place, fault.page);
        is_data && as_data || is_table
    }
}

/// Memory access whose translation is checked.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) space: SpaceId,
    pub(crate) address: VirtualAddress,
    pub(crate) kind: AccessKind,
}

impl Access {
    /// Returns the physical address of the access under a mapping; `None` if the mapping does not
    /// allow the access.
    fn allowed_by(&self, mapping: Option<Mapping>) -> Option<PhysicalAddress> {
        let (frame, permissions) = mapping?;
        permissions.allow(self.kind).then(|| physical(frame, self.address))
    }

    fn disagreement(
        &self,
        expected: Option<PhysicalAddress>,
        got: Option<PhysicalAddress>,
    ) -> Disagreement {
        let Self { space, address, kind } = *self;
        Disagreement { space, address, kind, expected, got }
    }
}

/// Compares a native translation with the program's mapping.
fn compare(
    access: Access,
    mapped: Option<Mapping>,
    result: &Result<Translated, PageFault>,
) -> Result<Option<Spurious>, Disagreement> {
    let expected = access.allowed_by(mapped);
    let got = result.map(|translated| translated.physical).ok();
    let disagreement = access.disagreement(expected, got);
    match result {
        _ if expected == got => Ok(None),
        Err(PageFault::NotMapped) => Ok(Some(Spurious { is_host: false, disagreement })),
        _ => Err(disagreement),
    }
}

impl Oracles {
    /// Creates oracles of empty address spaces. For a guest, `virtual_machine` is its address space
    /// in the host, and the tables that its walks read.
    pub(crate) fn new(virtual_machine: Option<(SpaceId, GuestTables)>) -> Self {
        let host = virtual_machine.map(|(space, tables)| HostOracle {
            oracle: Oracle::new(),
            space,
            tables,
        });
        Self { own: Oracle::new(), host, spurious: None }
    }

    /// Returns the oracle of the program's operating system; the guest's if virtualized.
    pub(crate) fn own(&self) -> &Oracle {
        &self.own
    }

    /// Returns the oracle of the host; `None` for native systems.
    pub(crate) fn host(&self) -> Option<&Oracle> {
        self.host.as_ref().map(|host| &host.oracle)
    }

    /// Applies an update of the program's operating system.
    pub(crate) fn apply(&mut self, update: &Update) -> Result<(), OracleError> {
        self.note_written(update, false);
        match (update, &mut self.host) {
            (Update::Truth(truth), _) => return self.own.apply(truth),
            (Update::Table(operation), Some(host)) => host.tables.apply(operation),
            _ => {}
        }
        Ok(())
    }

    /// Applies an update of the host.
    pub(crate) fn apply_host(&mut self, update: &Update) -> Result<(), OracleError> {
        self.note_written(update, true);
        let host = self.host.as_mut().expect("there is a second dimension");
        match update {
            Update::Truth(truth) => host.oracle.apply(truth),
            _ => Ok(()),
        }
    }

    /// Clears the spurious fault if the update writes something for its page.
    fn note_written(&mut self, update: &Update, is_host: bool) {
        let Some(Spurious { is_host: of_host, disagreement }) = &self.spurious else { return };
        let Some(operation) = update.operation().filter(|_| *of_host == is_host) else { return };
        if operation.pages().contains(disagreement.space, disagreement.address.page()) {
            self.spurious = None;
        }
    }

    /// Notes that the operating system has served a fault. An error if the fault was spurious and
    /// nothing was written for its page meanwhile.
    pub(crate) fn end_fault(&mut self) -> Result<(), Disagreement> {
        self.spurious.take().map_or(Ok(()), |spurious| Err(spurious.disagreement))
    }

    /// Compares a translation with the mappings. A physical address must follow from the mappings
    /// of guest and host together. A fault must be justified by the side (guest or host) that it
    /// names. A fault on a mapped page counts as spurious until [`Self::end_fault`].
    pub(crate) fn check(
        &mut self,
        access: Access,
        result: &Result<Translated, PageFault>,
    ) -> Result<(), Disagreement> {
        let mapped = self.own.expected(access.space, access.address.page());
        self.spurious = match &mut self.host {
            None => compare(access, mapped, result)?,
            Some(host) => host.compare(access, mapped, result)?,
        };
        Ok(())
    }

    /// Compares the frame in which the walker found a guest's table with the host's mapping of that
    /// table.
    pub(crate) fn check_table(&mut self, page: GuestFrame, got: Frame) -> Result<(), Disagreement> {
        let host = self.host.as_mut().expect("there is a second dimension");
        let kind = AccessKind::Write;
        let expected = host.expected(page).filter(|(_, permissions)| permissions.allow(kind));
        let address = VirtualAddress::new(page.address().value());
        let expected = expected.map(|(frame, _)| physical(frame, address));
        let got = Some(physical(got, address));
        if expected == got {
            return Ok(());
        }
        Err(Disagreement { space: host.space, address, kind, expected, got })
    }
}

fn physical(frame: Frame, address: VirtualAddress) -> PhysicalAddress {
    frame.address().add(address.offset(PageSize::Size4K))
}

#[cfg(test)]
mod tests {
    use perforate_types::{PageRun, Permissions, Truth};

    use super::*;

    const GUEST: SpaceId = SpaceId(0);
    const DATA: u64 = 9;
    const TABLE: u64 = 20;

    /// The guest maps page 5 to its frame `DATA`, with a level-1 table in `TABLE`. The host maps
    /// nothing.
    fn oracles() -> Oracles {
        let nodes = [((GUEST, 1, VirtualPage::new(0), 0), Frame::new(TABLE))].into();
        let tables = GuestTables {
            nodes,
            directory_frames: 1,
            directory_frames_of: BTreeMap::new(),
            bitmaps: None,
        };
        let mut oracles = Oracles::new(Some((SpaceId(1), tables)));
        let run = PageRun::new(GUEST, VirtualPage::new(5), 1);
        let permissions = Permissions::READ_WRITE;
        let map = Truth::Map { run, frame: Frame::new(DATA), permissions };
        oracles.apply(&Update::Truth(map)).expect("consistent");
        oracles
    }

    #[test]
    fn faults_of_the_host_are_on_data_as_accessed_and_on_tables_as_written() {
        use AccessKind::{Fetch, Read, Write};
        let is_justified = |kind, page, faulted| {
            let access = Access { space: GUEST, address: VirtualAddress::new(5 << 12), kind };
            let fault = HostFault { page: GuestFrame::new(page), kind: faulted };
            oracles().check(access, &Err(PageFault::Host(fault))).is_ok()
        };
        assert!(is_justified(Read, DATA, Read));
        assert!(is_justified(Write, DATA, Write));
        assert!(is_justified(Fetch, DATA, Read));
        assert!(!is_justified(Read, DATA, Write));
        assert!(!is_justified(Write, DATA, Fetch));
        assert!(is_justified(Read, TABLE, Write));
        assert!(!is_justified(Read, TABLE, Read));
        assert!(!is_justified(Read, DATA + 1, Read));
    }

    /// A fault on a page that is mapped is right only if the operating system then writes an entry
    /// of that page.
    #[test]
    fn a_fault_on_a_mapped_page_needs_an_entry() {
        let native = || {
            let mut oracles = Oracles::new(None);
            let run = PageRun::new(GUEST, VirtualPage::new(5), 1);
            let (frame, permissions) = (Frame::new(DATA), Permissions::READ_WRITE);
            oracles.apply(&Update::Truth(Truth::Map { run, frame, permissions })).unwrap();
            oracles
        };
        let entry = |page| {
            let (frame, permissions) = (Frame::new(DATA), Permissions::READ_WRITE);
            let (page, size) = (VirtualPage::new(page), PageSize::Size4K);
            Update::Table(TableOperation::Map { space: GUEST, page, size, frame, permissions })
        };
        let access = |page: u64| {
            let address = VirtualAddress::new(page << 12);
            Access { space: GUEST, address, kind: AccessKind::Read }
        };
        let not_mapped = Err(PageFault::NotMapped);
        for start in [native as fn() -> Oracles, oracles] {
            let is_ended = |page, written: Option<u64>| {
                let mut oracles = start();
                oracles.check(access(page), &not_mapped).expect("it may be justified yet");
                written.into_iter().for_each(|page| oracles.apply(&entry(page)).unwrap());
                oracles.end_fault().is_ok()
            };
            assert!(!is_ended(5, None), "nothing was written");
            assert!(!is_ended(5, Some(6)), "another page was written");
            assert!(is_ended(5, Some(5)));
            assert!(is_ended(6, None), "the page is not mapped");
        }
        assert!(native().check(access(5), &Err(PageFault::Protection)).is_err());
    }

    /// Page 5 + 512 × 512 of a guest: a walk may read the nodes around it, of its space only, until they go,
    /// all frames of a directory, and the bitmaps.
    #[test]
    fn walks_read_the_nodes_around_their_page() {
        let mut tables = GuestTables {
            nodes: BTreeMap::new(),
            directory_frames: 3,
            directory_frames_of: BTreeMap::new(),
            bitmaps: Some(GuestFrame::new(900)),
        };
        let page = VirtualPage::new((1 << 18) + 5);
        let reads = |tables: &GuestTables, space, page, frame| {
            tables.may_be_read((SpaceId(space), page), GuestFrame::new(frame))
        };
        let firsts = [(1, 1 << 18), (2, 1 << 18), (3, 0), (4, 0), (5, 0)];
        let node = |(level, first): (Level, u64), branch| TableOperation::AddNode {
            space: GUEST,
            level,
            page: VirtualPage::new(first),
            frame: Frame::new(100 * u64::from(level) + 50 * u64::from(branch)),
            branch,
        };
        for first in firsts {
            tables.apply(&node(first, 0));
        }
        tables.apply(&node((1, 1 << 18), 1));
        for frame in [100, 150, 200, 202, 300, 400, 500, 900, 901] {
            assert!(reads(&tables, 0, page, frame), "{frame}");
            assert_eq!(reads(&tables, 1, page, frame), frame >= 900, "{frame} of another space");
        }
        for frame in [99, 101, 199, 203, 301, 401, 501, 899] {
            assert!(!reads(&tables, 0, page, frame), "{frame}");
        }
        // The next level-1 node's pages are in the same directory, those a gigabyte on in another.
        for (page, expected) in [(512, [false, true, true]), (1 << 18, [false, false, true])] {
            let page = VirtualPage::new((1 << 18) + page);
            assert_eq!([100, 201, 400].map(|frame| reads(&tables, 0, page, frame)), expected);
        }
        let (space, level, first) = (GUEST, 1, VirtualPage::new(1 << 18));
        tables.apply(&TableOperation::RemoveNode { space, level, page: first, branch: 1 });
        assert!(!reads(&tables, 0, page, 150) && reads(&tables, 0, page, 100));
        // In another format, directories of this space have other sizes.
        let mode = GapTolerance::SINGLE_4M;
        tables.apply(&TableOperation::SetControl { space: SpaceId(1), control: mode.control() });
        assert!(reads(&tables, 0, page, 201));
        tables.apply(&TableOperation::SetControl { space: GUEST, control: mode.control() });
        let frames = 1 << mode.directory_order();
        assert!(reads(&tables, 0, page, 200 + frames - 1));
        assert!(!reads(&tables, 0, page, 200 + frames));
    }

    /// Translations and faults that the mappings of guest and host justify. The guest may write its page 5; the
    /// host's mapping of that page decides whether the machine may.
    #[test]
    fn translations_and_faults_are_compared_with_both_mappings() {
        use perforate_mmu::Case;
        let map = |permissions| {
            let run = PageRun::new(SpaceId(1), VirtualPage::new(DATA), 1);
            Update::Truth(Truth::Map { run, frame: Frame::new(77), permissions })
        };
        let found = |frame: u64| {
            let physical = PhysicalAddress::new((frame << 12) + 8);
            Ok(Translated { physical, slot: 0, case: Case::Regular, walked: true })
        };
        let (mapped, readable) = (Some(Permissions::READ_WRITE), Some(Permissions::READ));
        use AccessKind::{Fetch, Read, Write};
        use PageFault::{Incomplete, NotMapped, Protection};
        for (host, page, kind, result, is_right, is_spurious) in [
            (mapped, 5, Read, found(77), true, false),
            (mapped, 5, Write, found(77), true, false),
            (mapped, 5, Read, found(78), false, false),
            (mapped, 5, Read, found(DATA), false, false),
            (mapped, 6, Read, found(77), false, false),
            (readable, 5, Read, found(77), true, false),
            (readable, 5, Write, found(77), false, false),
            (None, 5, Read, found(77), false, false),
            // The guest's mapping forbids fetches, and has nothing at page 6.
            (mapped, 5, Fetch, found(77), false, false),
            (mapped, 5, Fetch, Err(Protection), true, false),
            (mapped, 5, Fetch, Err(NotMapped), true, false),
            (mapped, 6, Read, Err(NotMapped), true, false),
            (mapped, 6, Read, Err(Protection), true, false),
            (mapped, 5, Read, Err(NotMapped), true, true),
            (mapped, 5, Read, Err(Protection), false, false),
            (None, 5, Read, Err(Protection), false, false),
            (mapped, 5, Read, Err(Incomplete), true, false),
            (None, 6, Read, Err(Incomplete), true, false),
        ] {
            let mut oracles = oracles();
            host.into_iter().for_each(|host| oracles.apply_host(&map(host)).unwrap());
            let address = VirtualAddress::new((page << 12) + 8);
            let outcome = oracles.check(Access { space: GUEST, address, kind }, &result);
            let case = format!("{host:?} {page} {kind:?} {result:?}: {outcome:?}");
            assert_eq!(
                (outcome.is_ok(), oracles.spurious.is_some()),
                (is_right, is_spurious),
                "{case}"
            );
        }
        // A fault in the host's tables is spurious if the host maps the page as it is accessed.
        for (host, kind, is_spurious) in [
            (None, Read, false),
            (readable, Write, false),
            (readable, Read, true),
            (mapped, Write, true),
        ] {
            let mut oracles = oracles();
            host.into_iter().for_each(|host| oracles.apply_host(&map(host)).unwrap());
            let access = Access { space: GUEST, address: VirtualAddress::new(5 << 12), kind };
            let fault = HostFault { page: GuestFrame::new(DATA), kind };
            oracles.check(access, &Err(PageFault::Host(fault))).unwrap();
            assert_eq!(oracles.spurious.is_some(), is_spurious, "{host:?} {kind:?}");
            // Only what the host writes for the page ends such a fault.
            let entry = |space, page| {
                let (page, size) = (VirtualPage::new(page), PageSize::Size4K);
                let (frame, permissions) = (Frame::new(77), Permissions::READ);
                Update::Table(TableOperation::Map { space, page, size, frame, permissions })
            };
            oracles.apply(&entry(SpaceId(1), DATA)).unwrap();
            oracles.apply_host(&entry(SpaceId(1), DATA + 1)).unwrap();
            assert_eq!(oracles.spurious.is_some(), is_spurious);
            oracles.apply_host(&entry(SpaceId(1), DATA)).unwrap();
            assert!(oracles.end_fault().is_ok());
        }
        // The walker writes accessed bits into tables, and finds them where the host maps them.
        for (host, frame, is_right) in
            [(mapped, 77, true), (mapped, 78, false), (readable, 77, false), (None, 77, false)]
        {
            let mut oracles = oracles();
            host.into_iter().for_each(|host| oracles.apply_host(&map(host)).unwrap());
            let checked = oracles.check_table(GuestFrame::new(DATA), Frame::new(frame));
            assert_eq!(checked.is_ok(), is_right, "{host:?} {frame}");
        }
    }
}

//! Every operation that changes how page tables map a page tells the overlay first. An overlay that
//! copies the page tables must agree with them after every operation.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_config::{Count, Size};
use perforate_types::{
    AccessKind, Advice, Backing, Counters, Frame, Permissions, ProcessId, ProgramEvent, ThreadId,
    VirtualAddress, VirtualPage,
};

use perforate_os::mechanism::{
    ALL_PAGES, AddressSpace, Departure, Overlay, OverlayMechanism, Present, Recount, SpaceMut,
};
use perforate_os::{
    BasePages, HoleContent, Kernel, KernelConfig, KsmConfig, OsError, Policy, TableFormat, Thp,
};
use perforate_schemes::perforated::{Perforated, PerforationOptions};

const MB: u64 = 1 << 20;
/// Start of the mapped area, aligned to 64 regions.
const BASE: u64 = 128 * MB;

/// An overlay with a copy of the page tables at one moment, less the pages that have left since.
#[derive(Default)]
struct Copy {
    pages: BTreeMap<u64, (Frame, Permissions)>,
}

struct Copies;

impl OverlayMechanism for Copies {
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError> {
        let copy = space.overlay_mut().expect("it acts for one");
        let copy: &mut Copy = copy.downcast_mut().expect("its own");
        if departure == Departure::Forked {
            copy.pages.clear();
        }
        copy.pages.retain(|page, _| !pages.contains(page));
        Ok(())
    }
}

impl Overlay for Copy {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &Copies
    }

    fn check(&self, space: &AddressSpace, _: &mut Recount) -> Result<(), String> {
        for (&page, &(frame, permissions)) in &self.pages {
            let now = space.find(page).and_then(|now| Some((now.frame()?, now.permissions())));
            if now != Some((frame, permissions)) {
                return Err(format!("page {page:#x} had {frame:?} {permissions:?}, has {now:?}"));
            }
        }
        Ok(())
    }
}

struct Machine {
    kernel: Kernel,
}

impl Machine {
    fn new(policy: &str, config: KernelConfig) -> Self {
        let shadow_directories = policy.starts_with("perforated");
        let tables = TableFormat { shadow_directories, ..TableFormat::default() };
        let config = KernelConfig { tables, ..config };
        let policy: Box<dyn Policy> = match policy {
            "base-pages" => Box::new(BasePages),
            "thp" => Box::new(Thp::new("thp")),
            "thp-madvise" => Box::new(Thp { needs_advice: true, ..Thp::new("thp-madvise") }),
            _ => Box::new(Perforated::new(PerforationOptions::DEFAULT).expect("it is sound")),
        };
        let kernel = Kernel::new(config, policy);
        Self { kernel: kernel.expect("a kernel") }
    }

    fn event(&mut self, event: ProgramEvent) {
        self.kernel.event(&event).expect("the event is right");
    }

    fn map(&mut self, start: u64, length: u64) {
        self.event(ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        });
    }

    fn write(&mut self, pages: Range<u64>) {
        let space = self.kernel.current();
        for page in pages {
            let (page, kind) = (VirtualPage::new(page), AccessKind::Write);
            self.kernel.fault(space, page, kind).expect("there is memory");
        }
    }

    fn advise(&mut self, start: u64, length: u64, advice: Advice) {
        let start = VirtualAddress::new(start);
        self.event(ProgramEvent::Advise { start, length, advice });
    }

    /// Gives the running process an overlay with a copy of its present page tables.
    fn copy(&mut self) {
        let id = self.kernel.current();
        let copied = self.kernel.change_space(id, |space| {
            let mut copy = Copy::default();
            for page in space.areas_within(ALL_PAGES).flat_map(|area| area.pages()) {
                let present = space.find(page);
                let mapped = present.and_then(|now| Some((now.frame()?, now.permissions())));
                copy.pages.extend(mapped.map(|mapped| (page, mapped)));
            }
            space.set_overlay(Box::new(copy));
            Ok(())
        });
        copied.expect("it lives");
    }

    /// Checks the copy against the page tables; returns the number of pages that have not left it.
    fn check(&self) -> usize {
        self.kernel.check_invariants().expect("the copy says what page tables say");
        let space = self.kernel.space(self.kernel.current()).expect("it lives");
        let overlay = space.overlay().expect("it was given one");
        overlay.downcast_ref::<Copy>().expect("a copy").pages.len()
    }
}

/// Two 2MB regions, mapped and copied into an overlay.
fn two_regions(policy: &str) -> Machine {
    let mut machine = Machine::new(policy, KernelConfig::new(64 * MB));
    machine.map(BASE, 4 * MB);
    machine.write(BASE >> 12..(BASE + 4 * MB) >> 12);
    machine.copy();
    assert_eq!(machine.check(), 1024);
    machine
}

#[test]
fn system_calls() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = two_regions(policy);
        machine.event(ProgramEvent::Unmap { start: VirtualAddress::new(BASE), length: 4096 });
        assert_eq!(machine.check(), 1023, "{policy}");
        machine.advise(BASE + 4096, 4096, Advice::DontNeed);
        assert_eq!(machine.check(), 1022, "{policy}");
        machine.event(ProgramEvent::Protect {
            start: VirtualAddress::new(BASE + 2 * 4096),
            length: 4096,
            permissions: Permissions::READ,
            accessible: true,
        });
        assert_eq!(machine.check(), 1021, "{policy}");
        machine.event(ProgramEvent::Remap {
            from: VirtualAddress::new(BASE + 3 * 4096),
            from_length: 4096,
            to: VirtualAddress::new(BASE + 64 * MB),
            to_length: 4096,
        });
        assert_eq!(machine.check(), 1020, "{policy}");
        machine.event(ProgramEvent::Fork { child: ProcessId(1) });
        assert_eq!(machine.check(), 0, "{policy}");
    }
}

#[test]
fn copies_on_write() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = Machine::new(policy, KernelConfig::new(64 * MB));
        machine.map(BASE, 4 * MB);
        machine.write(BASE >> 12..(BASE + 4 * MB) >> 12);
        machine.event(ProgramEvent::Fork { child: ProcessId(1) });
        machine.copy();
        machine.write(BASE >> 12..(BASE >> 12) + 1);
        assert!((512..1024).contains(&machine.check()), "{policy}");
        // After the child's exit, a write makes everything under the same entry writable again.
        machine.event(ProgramEvent::Exit { process: ProcessId(1) });
        machine.write((BASE >> 12) + 1..(BASE >> 12) + 2);
        assert!((511..1023).contains(&machine.check()), "{policy}");
    }
}

#[test]
fn merging() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = two_regions(policy);
        let space = machine.kernel.current();
        for page in (BASE >> 12)..(BASE >> 12) + 4 {
            machine.kernel.set_content(space, VirtualPage::new(page), 7).expect("it is mapped");
        }
        let config = KsmConfig { pages_to_scan: Count::new(2048), ..KsmConfig::default() };
        machine.kernel.set_ksm(config);
        for _ in 0..3 {
            machine.kernel.ksm_pass();
        }
        assert_eq!(machine.check(), 1020, "{policy}");
    }
}

#[test]
fn failing_frames() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = two_regions(policy);
        let space = machine.kernel.space(machine.kernel.current()).expect("it lives");
        let frame = space.find(BASE >> 12).and_then(Present::frame).expect("it is mapped");
        machine.kernel.hard_fault(frame);
        assert!((512..1024).contains(&machine.check()), "{policy}");
    }
}

#[test]
fn swapping() {
    for policy in ["base-pages", "thp", "perforated"] {
        let config = KernelConfig { swap: Size(64 * MB), ..KernelConfig::new(32 * MB) };
        let mut machine = Machine::new(policy, config);
        machine.map(BASE, 8 * MB);
        machine.write(BASE >> 12..(BASE + 8 * MB) >> 12);
        machine.copy();
        machine.map(BASE + 64 * MB, 28 * MB);
        machine.write((BASE + 64 * MB) >> 12..(BASE + 92 * MB) >> 12);
        assert!(machine.check() < 2048, "{policy}");
    }
}

#[test]
fn promotion() {
    for policy in ["thp-madvise", "perforated"] {
        let mut machine = Machine::new(policy, KernelConfig::new(64 * MB));
        machine.map(BASE, 2 * MB);
        machine.advise(BASE, 2 * MB, Advice::NoHugePage);
        machine.write(BASE >> 12..(BASE + 2 * MB) >> 12);
        machine.advise(BASE, 2 * MB, Advice::HugePage);
        machine.copy();
        for _ in 0..2 {
            machine.kernel.khugepaged_pass();
        }
        machine.check();
        let mut counters = Counters::default();
        machine.kernel.counters(&mut counters);
        let made = ["large_pages", "perforated_pages"].map(|name| counters.get(name).unwrap());
        assert_eq!(made.iter().sum::<f64>(), 1.0, "{policy}");
    }
}

#[test]
fn holes_come_and_go() {
    let mut machine = two_regions("perforated");
    let (space, page) = (machine.kernel.current(), VirtualPage::new(BASE >> 12));
    machine.kernel.punch(space, page, HoleContent::Moved).expect("punched");
    assert_eq!(machine.check(), 1023);
    machine.kernel.patch(space, page).expect("patched");
    assert_eq!(machine.check(), 1023);
}

#[test]
fn processes_come_and_go() {
    let mut machine = two_regions("thp");
    let (process, thread) = (ProcessId(1), ThreadId(0));
    machine.event(ProgramEvent::Switch { process, thread });
    machine.event(ProgramEvent::Switch { process: ProcessId(0), thread });
    assert_eq!(machine.check(), 1024);
    machine.event(ProgramEvent::Exec);
    assert_eq!(machine.check(), 0);
}

//! For tests: a second reference beside the oracle, for the state of the translation hardware.
//!
//! The oracle checks translations. It cannot see state that only saves work: a dirty bit in a TLB entry,
//! an entry that outlives a flush and is not used, a victim that is not the least recently used entry.
//! [`Reference`] can. It hears every update of tables and TLBs and every attempt to translate with its
//! steps. It keeps a list of the entries of each unit, with the time of their last use. After each attempt
//! and each event the hardware must hold just these entries:
//!
//! - a look-up hits if and only if an entry in the list covers the page (`steps.rs`);
//! - a fill takes an empty way of the right set, or else the least recently used one (`unit.rs`);
//! - a shootdown, a switch of address spaces without tags, or a change by the host ends the entries that
//!   it names and no others (`shootdown.rs`);
//! - an entry says what is true: frames, permissions, page-table nodes (`truth.rs`, `nodes.rs`);
//! - stores and nothing else set the dirty bit of an entry, and no entry has one that the tables have not;
//!   accessed bits are set along the way of every walk (`marks.rs`);
//! - counters count what the steps show (`counts.rs`).
//!
//! It is written from these rules: lists that are searched from end to end. It shares no code with the
//! hardware. It sees the hardware by [`Mmu::inspect`], by steps, and by the tables, which it reads itself.
//!
//! The rules are weaker where no step shows the order of uses: beside a unit of a mechanism
//! (direct segments, ranges), in walk caches that hold leaves, and where the host's dirty bits are set.
//! Caches of mechanisms (range TLB, TLB of gap-tolerant entries) have no list.

mod counts;
mod marks;
mod nodes;
mod shootdown;
mod steps;
mod truth;
mod unit;

use perforate_mmu::{Attempt, CachedContent, CachedEntry, Mmu, MmuConfig};
use perforate_types::{PageRun, SpaceId, TableOperation, Truth, Unit, Update};

use counts::Counts;
use nodes::Nodes;
use truth::Truths;
use unit::UnitModel;

/// Tables that an update is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Tables of the operating system that runs the program: the guest's, when virtualized.
    Own,
    /// Tables of the host.
    Host,
    /// Shadow tables of a hypervisor.
    Shadow,
}

/// Configuration of the hardware, as far as the reference depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Sizes and ways of TLBs and walk caches, and what the hardware has for virtualization.
    pub config: MmuConfig,
    /// True if several hardware threads share a core.
    pub shares_cores: bool,
    /// True if the hardware walks shadow tables.
    pub is_shadowed: bool,
}

/// The units of one core.
#[derive(Clone, Default)]
struct Core {
    space: SpaceId,
    units: [UnitModel; Unit::COUNT],
}

impl Core {
    /// Compares the lists with what a core holds, in the order of units and slots.
    fn compare(&mut self, now: &[CachedEntry], number: usize, space: SpaceId) {
        for (index, unit) in self.units.iter_mut().enumerate() {
            let first = now.partition_point(|entry| (entry.unit as usize) < index);
            let end = now.partition_point(|entry| entry.unit as usize <= index);
            if let Err(wrong) = unit.compare(&now[first..end]) {
                panic!("core {number}, which runs {space:?}: {wrong}");
            }
        }
    }
}

/// The reference. Its methods panic where the hardware is wrong, and say how.
pub struct Reference {
    setup: Setup,
    cores: Vec<Core>,
    truths: Truths,
    nodes: Nodes,
    counts: Counts,
    /// Entries that the hardware held at the last look at it.
    now: Vec<CachedEntry>,
    /// Pages about which something has changed since entries were last compared with the truth.
    changed: Vec<(Side, PageRun)>,
    /// True if entries of any page may be wrong after what has changed.
    any_changed: bool,
    /// True if nodes have gone since.
    has_lost_nodes: bool,
    attempts: u64,
    rests: u64,
}

/// Changed runs of pages that are looked at one by one; after more, all entries are.
const MOST_CHANGED: usize = 40;
/// One attempt in so many that all entries of the core are compared after; they are after every event.
const COMPARED_EVERY: u64 = 3;
/// One rest in so many at which the cores that are not at work are compared, too.
const OTHERS_COMPARED_EVERY: u64 = 4;

impl Reference {
    /// Of hardware that has run nothing and holds nothing.
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            cores: Vec::new(),
            truths: Truths::default(),
            nodes: Nodes::default(),
            counts: Counts::default(),
            now: Vec::new(),
            changed: Vec::new(),
            any_changed: false,
            has_lost_nodes: false,
            attempts: 0,
            rests: 0,
        }
    }

    /// An update has been brought to the hardware.
    pub fn update(&mut self, side: Side, update: &Update, mmu: &Mmu) {
        if !self.setup.shares_cores {
            self.follow_switch(mmu);
        }
        if let Some(operation) = update.operation() {
            self.note_change(side, operation.pages());
        }
        match update {
            Update::Truth(truth) => {
                self.truths.hear(side, truth);
                self.note_change(side, truth.run());
                // What was true of a guest's memory may be part of any entry of the guest.
                self.any_changed |= side == Side::Host && !matches!(truth, Truth::Map { .. });
            }
            Update::Table(operation) => {
                self.nodes.hear(side, operation);
                self.has_lost_nodes |= matches!(operation, TableOperation::RemoveNode { .. });
            }
            Update::Format(_) => {}
            Update::Shootdown(shootdown) => self.shoot_down(side, *shootdown, mmu),
        }
    }

    fn note_change(&mut self, side: Side, run: PageRun) {
        if let Some((last_side, last)) = self.changed.last_mut()
            && (*last_side, last.space) == (side, run.space)
            && last.page <= run.page
            && run.page <= last.end()
        {
            let end = last.end().max(run.end());
            last.pages = end.number() - last.page.number();
        } else if self.changed.len() < MOST_CHANGED {
            self.changed.push((side, run));
        } else {
            self.any_changed = true;
        }
    }

    /// An attempt to translate is over.
    pub fn translated(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        self.follow_switch(mmu);
        self.check_changed(mmu);
        self.attempts += 1;
        let has_steps = !attempt.steps.is_empty();
        if has_steps || self.attempts.is_multiple_of(COMPARED_EVERY) {
            self.look(mmu);
            self.follow_steps(attempt, mmu);
            // Marks of the host's entries are uses of them that only a look shows.
            let has_host = mmu.dimension().host().is_some();
            if has_host || self.attempts.is_multiple_of(COMPARED_EVERY) {
                self.compare(mmu);
            }
        } else {
            self.follow_steps(attempt, mmu);
        }
        self.check_marks(attempt, mmu);
        self.counts.add(attempt);
    }

    /// Nothing is under way: the hardware is compared with the reference.
    pub fn at_rest(&mut self, mmu: &Mmu) {
        self.follow_switch(mmu);
        self.look(mmu);
        self.compare(mmu);
        self.rests += 1;
        if self.rests.is_multiple_of(OTHERS_COMPARED_EVERY) {
            self.compare_others(mmu);
        }
        self.check_changed(mmu);
        self.counts.check(mmu.counters());
    }

    /// Without tags, another address space ends what is cached of virtual addresses. Where hardware
    /// threads share a core, it is not known here whether the core was given another address space or
    /// has gone on with that of its other thread: then all of it is gone or nothing.
    fn follow_switch(&mut self, mmu: &Mmu) {
        let (core, space) = mmu.at_work();
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Core::default);
        }
        if !self.setup.config.tlb.tagged {
            let is_flushed = if self.setup.shares_cores {
                self.look(mmu);
                !self.now.iter().any(|entry| !entry.is_guest_physical)
            } else {
                self.cores[core].space != space
            };
            if is_flushed {
                for unit in &mut self.cores[core].units {
                    unit.retain(|entry| entry.is_guest_physical);
                }
            }
        }
        self.cores[core].space = space;
    }

    /// Looks at what the core at work holds.
    fn look(&mut self, mmu: &Mmu) {
        mmu.inspect(&mut self.now);
    }

    /// Compares the entries just read from the hardware with the lists.
    fn compare(&mut self, mmu: &Mmu) {
        let (number, space) = mmu.at_work();
        self.cores[number].compare(&self.now, number, space);
    }

    /// Compares the entries of the cores that are not at work.
    fn compare_others(&mut self, mmu: &Mmu) {
        mmu.inspect_others(&mut self.now);
        let (at_work, _) = mmu.at_work();
        for (number, core) in self.cores.iter_mut().enumerate() {
            if number != at_work {
                let first = self.now.partition_point(|entry| entry.core < number);
                let end = self.now.partition_point(|entry| entry.core <= number);
                core.compare(&self.now[first..end], number, core.space);
            }
        }
        let beyond = self.now.iter().find(|entry| entry.core >= self.cores.len());
        assert!(beyond.is_none(), "{beyond:?} is of a core that has run nothing");
    }

    /// Entries about pages that have changed still say what is true.
    fn check_changed(&mut self, mmu: &Mmu) {
        if self.changed.is_empty() && !self.any_changed && !self.has_lost_nodes {
            return;
        }
        let (changed, all) = (std::mem::take(&mut self.changed), self.any_changed);
        let nodes = std::mem::take(&mut self.has_lost_nodes);
        self.any_changed = false;
        let is_meant = |entry: &CachedEntry| {
            let is_node = matches!(entry.content, CachedContent::Node { .. });
            all || nodes && is_node
                || changed.iter().any(|(side, run)| {
                    let is_of_side = (*side == Side::Host) == entry.is_guest_physical;
                    is_of_side
                        && run.space == entry.space
                        && overlaps(entry, run.page.number(), run.pages)
                })
        };
        for core in &self.cores {
            for held in core.units.iter().flat_map(UnitModel::entries) {
                if is_meant(held) {
                    self.check_entry(core, held, mmu);
                }
            }
        }
    }

    /// An entry says what is true now.
    fn check_entry(&self, core: &Core, entry: &CachedEntry, mmu: &Mmu) {
        let wrong = match entry.content {
            CachedContent::Page { .. } => {
                let is_leaf_dirty = || self.is_leaf_dirty(entry, mmu);
                self.truths.find_wrong(core, entry, mmu, is_leaf_dirty)
            }
            CachedContent::Node { .. } => {
                self.nodes.find_wrong(entry, self.setup.is_shadowed, &self.truths, mmu)
            }
            // Bits are compared together with the page that they are about, leaves by what they translate.
            CachedContent::Bitmap(_) | CachedContent::Leaf => None,
        };
        if let Some(wrong) = wrong {
            panic!("{entry:x?} is stale: {wrong}");
        }
    }
}

/// True if an entry is about one of so many pages from `first` on.
fn overlaps(entry: &CachedEntry, first: u64, pages: u64) -> bool {
    let own = entry.first.number();
    own < first.saturating_add(pages) && first < own + entry.pages
}

/// True if an entry is about a page.
fn covers(entry: &CachedEntry, page: u64) -> bool {
    overlaps(entry, page, 1)
}

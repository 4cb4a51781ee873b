//! Reference model of the state of the translation hardware, for tests. It complements the oracle.
//!
//! The oracle checks translations. It cannot see state that only saves work. Examples are a dirty
//! bit in a TLB entry, an unused entry that survives a flush, and a victim that is not the least
//! recently used entry. [`Reference`] sees such state. It receives every update of tables and TLBs,
//! and every attempt to translate with its steps. It keeps a list of the entries of each unit, with
//! the time of their last use. After each attempt and each event, the hardware must hold exactly
//! these entries. The rules:
//!
//! - a look-up hits if and only if an entry in the list covers the page (`steps.rs`);
//! - a fill uses an empty way of the right set, or else the least recently used way (`unit.rs`);
//! - a shootdown, a switch of address spaces without tags, or a change by the host invalidates the
//!   entries that it covers and no others (`shootdown.rs`);
//! - an entry agrees with the mapping in frames, permissions and page-table nodes (`truth.rs`,
//!   `nodes.rs`);
//! - only stores set the dirty bit of an entry, and no entry is dirty unless its page-table entry
//!   is; every walk sets the accessed bits on its path (`marks.rs`);
//! - counters agree with the steps (`counts.rs`).
//!
//! The model is written from these rules and searches plain lists. It shares no code with the
//! hardware model. It observes the hardware through [`Mmu::inspect`], steps, and the tables, which
//! it reads itself.
//!
//! The rules are weaker where no step shows the order of uses. This is so with a unit that is
//! looked up in parallel with a TLB (direct segments, ranges), in walk caches that hold leaf
//! entries, and where the walker sets the host's dirty bits. The model has no lists for caches of
//! mechanisms (range TLB, TLB of gap-tolerant entries).

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

/// System whose page tables an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Tables of the operating system that runs the program: the guest's tables if virtualized.
    Own,
    /// Tables of the host's operating system, which map the guest's memory.
    Host,
    /// Shadow tables that the hypervisor maintains.
    Shadow,
}

/// Configuration of the hardware, as far as the reference model depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Geometries of TLBs and walk caches, and the hardware for virtualization.
    pub config: MmuConfig,
    /// True if several hardware threads share a core.
    pub shares_cores: bool,
    /// True if the hardware walks shadow tables of a hypervisor.
    pub is_shadowed: bool,
}

/// TLBs and walk caches of one core, with the entries that the reference model expects in them.
#[derive(Clone, Default)]
struct Core {
    space: SpaceId,
    units: [UnitModel; Unit::COUNT],
}

impl Core {
    /// Compares the expected entries with `now`, the entries of the hardware's core `number`, which must be
    /// sorted by unit (TLB or walk cache) and slot. With `may_be_flushed`, the entries of virtual addresses
    /// may also be flushed all at once, by a switch of address spaces that the model did not observe.
    fn compare(
        &mut self,
        now: &[CachedEntry],
        number: usize,
        space: SpaceId,
        may_be_flushed: bool,
    ) {
        if may_be_flushed && has_no_virtual(now) {
            self.flush_virtual();
        }
        for (index, unit) in self.units.iter_mut().enumerate() {
            let first = now.partition_point(|entry| (entry.unit as usize) < index);
            let end = now.partition_point(|entry| entry.unit as usize <= index);
            if let Err(wrong) = unit.compare(&now[first..end]) {
                panic!("core {number}, which runs {space:?}: {wrong}");
            }
        }
    }

    /// Removes the core's expected entries of virtual addresses, as an untagged switch of address spaces
    /// does.
    fn flush_virtual(&mut self) {
        for unit in &mut self.units {
            unit.retain(|entry| entry.is_guest_physical);
        }
    }
}

/// Reference model of the TLBs and walk caches, for tests. Its methods panic with a description if the
/// simulated hardware is wrong.
pub struct Reference {
    setup: Setup,
    cores: Vec<Core>,
    truths: Truths,
    nodes: Nodes,
    counts: Counts,
    /// Entries of the simulated hardware's TLBs and walk caches at the last inspection.
    now: Vec<CachedEntry>,
    /// Runs of pages whose mapping or tables have changed since the cached entries for these pages were last
    /// compared with the intended mapping.
    changed: Vec<(Side, PageRun)>,
    /// True if the changes since the last comparison may affect cached entries of any page.
    any_changed: bool,
    /// True if page-table nodes were removed since the last comparison.
    has_lost_nodes: bool,
    attempts: u64,
    rests: u64,
}

/// Maximum number of changed runs of pages in the list. If there are more, all cached entries are compared.
const MOST_CHANGED: usize = 40;
/// Number of attempts to translate between two comparisons of all cached entries of the running core. They
/// are also compared after every event.
const COMPARED_EVERY: u64 = 3;
/// Number of calls of [`Reference::at_rest`] per comparison of the entries of cores that are not running.
const OTHERS_COMPARED_EVERY: u64 = 4;

impl Reference {
    /// Creates the reference model of hardware whose TLBs and walk caches are empty.
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

    /// Updates the model after the hardware received an operating system's `update` of tables or TLBs.
    pub fn update(&mut self, side: Side, update: &Update, mmu: &Mmu) {
        if !self.setup.shares_cores {
            self.follow_switch(mmu);
        }
        if let Some(operation) = update.operation() {
            self.note_change(side, operation.pages());
        }
        match update {
            Update::Truth(truth) => {
                self.truths.apply(side, truth);
                self.note_change(side, truth.run());
                // Any combined entry (gVA→hPA) may depend on the guest's memory that has changed.
                self.any_changed |= side == Side::Host && !matches!(truth, Truth::Map { .. });
            }
            Update::Table(operation) => {
                self.nodes.apply(side, operation);
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

    /// Updates the model after an attempt to translate an address, and checks the steps of the attempt.
    pub fn translated(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        self.follow_switch(mmu);
        self.check_changed(mmu);
        self.attempts += 1;
        let has_steps = !attempt.steps.is_empty();
        if has_steps || self.attempts.is_multiple_of(COMPARED_EVERY) {
            self.inspect(mmu);
            self.follow_steps(attempt, mmu);
            // Setting bits in the host's page-table entries counts as a use of their cached copies.
            // Only an inspection shows such a use.
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

    /// Compares the cached entries and counters of the hardware with the model between operations, when no
    /// translation is in progress.
    pub fn at_rest(&mut self, mmu: &Mmu) {
        self.follow_switch(mmu);
        self.inspect(mmu);
        self.compare(mmu);
        self.rests += 1;
        if self.rests.is_multiple_of(OTHERS_COMPARED_EVERY) {
            self.compare_others(mmu);
        }
        self.check_changed(mmu);
        self.counts.check(mmu.counters());
    }

    /// Updates the model after a possible switch of the running core's address space: without tags, the
    /// switch flushes entries of virtual addresses. If hardware threads share a core, the model cannot
    /// distinguish a switch from a return to the other thread. It then accepts that either all virtual
    /// entries are present or none.
    fn follow_switch(&mut self, mmu: &Mmu) {
        let (core, space) = mmu.running();
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Core::default);
        }
        if !self.setup.config.tlb.tagged {
            let is_flushed = if self.setup.shares_cores {
                self.inspect(mmu);
                has_no_virtual(&self.now)
            } else {
                self.cores[core].space != space
            };
            if is_flushed {
                self.cores[core].flush_virtual();
            }
        }
        self.cores[core].space = space;
    }

    /// Reads the entries of the running core's TLBs and walk caches.
    fn inspect(&mut self, mmu: &Mmu) {
        mmu.inspect(&mut self.now);
    }

    /// Compares the last inspected TLB and walk-cache entries of the running core with the model's lists.
    fn compare(&mut self, mmu: &Mmu) {
        let (number, space) = mmu.running();
        let may_be_flushed = self.has_unobserved_flushes();
        self.cores[number].compare(&self.now, number, space, may_be_flushed);
    }

    /// True if the model cannot observe all TLB flushes: without tags, a switch between hardware threads of a
    /// core flushes, and no update reports it.
    fn has_unobserved_flushes(&self) -> bool {
        self.setup.shares_cores && !self.setup.config.tlb.tagged
    }

    /// Compares the entries of the TLBs and walk caches of the cores that are not running.
    fn compare_others(&mut self, mmu: &Mmu) {
        mmu.inspect_others(&mut self.now);
        let (running, _) = mmu.running();
        let may_be_flushed = self.has_unobserved_flushes();
        for (number, core) in self.cores.iter_mut().enumerate() {
            if number != running {
                let first = self.now.partition_point(|entry| entry.core < number);
                let end = self.now.partition_point(|entry| entry.core <= number);
                core.compare(&self.now[first..end], number, core.space, may_be_flushed);
            }
        }
        let beyond = self.now.iter().find(|entry| entry.core >= self.cores.len());
        assert!(beyond.is_none(), "{beyond:?} is of a core that has run nothing");
    }

    /// Checks that the cached entries of pages whose mapping changed agree with the intended mappings.
    fn check_changed(&mut self, mmu: &Mmu) {
        if self.changed.is_empty() && !self.any_changed && !self.has_lost_nodes {
            return;
        }
        let (changed, all) = (std::mem::take(&mut self.changed), self.any_changed);
        let nodes = std::mem::take(&mut self.has_lost_nodes);
        self.any_changed = false;
        let is_selected = |entry: &CachedEntry| {
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
                if is_selected(held) {
                    self.check_entry(core, held, mmu);
                }
            }
        }
    }

    /// Checks that a TLB or walk-cache entry agrees with the intended mappings and the page-table nodes.
    fn check_entry(&self, core: &Core, entry: &CachedEntry, mmu: &Mmu) {
        let wrong = match entry.content {
            CachedContent::Page { .. } => {
                let is_leaf_dirty = || self.is_leaf_dirty(entry, mmu);
                self.truths.find_wrong(core, entry, mmu, is_leaf_dirty)
            }
            CachedContent::Node { .. } => {
                self.nodes.find_wrong(entry, self.setup.is_shadowed, &self.truths, mmu)
            }
            // Bitmap entries are checked with their page, and leaf entries with the translations
            // that use them.
            CachedContent::Bitmap(_) | CachedContent::Leaf => None,
        };
        if let Some(wrong) = wrong {
            panic!("{entry:x?} is stale: {wrong}");
        }
    }
}

/// True if no entry of a TLB or walk cache is tagged with a virtual address.
fn has_no_virtual(entries: &[CachedEntry]) -> bool {
    entries.iter().all(|entry| entry.is_guest_physical)
}

/// True if an entry of a TLB or walk cache covers any of the `pages` pages from page `first` on.
fn overlaps(entry: &CachedEntry, first: u64, pages: u64) -> bool {
    let own = entry.first.number();
    own < first.saturating_add(pages) && first < own + entry.pages
}

/// True if an entry of a TLB or walk cache covers page number `page`.
fn covers(entry: &CachedEntry, page: u64) -> bool {
    overlaps(entry, page, 1)
}

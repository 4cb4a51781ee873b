//! Wiring of a storm that passes everything to the reference model of the hardware state.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use perforate_mmu::{Attempt, Mmu};
use perforate_reference::{Reference, Setup};
use perforate_sim::{Composition, Machine, Side, Wiring};
use perforate_testing::kept::TextHash;
use perforate_types::Update;

/// Reference model and a hash of all updates, shared by the wiring and the storm.
#[derive(Clone)]
pub struct Watcher {
    reference: Arc<Mutex<Reference>>,
    updates: Arc<Mutex<TextHash>>,
}

impl Watcher {
    /// Creates the model for a system of this machine and composition.
    pub fn new(machine: &Machine, composition: &Composition, shares_cores: bool) -> Self {
        let mut config = machine.mmu();
        config.tlb.l2_coalescing = composition.coalescing().or(config.tlb.l2_coalescing);
        let is_shadowed = composition.is_shadowed();
        let reference = Reference::new(Setup { config, shares_cores, is_shadowed });
        Self { reference: Arc::new(Mutex::new(reference)), updates: Arc::default() }
    }

    fn ask(&self, act: impl FnOnce(&mut Reference)) {
        act(&mut self.reference.lock().expect("it has found nothing wrong before"));
    }

    /// Hash of all updates so far, with the system that sent each.
    pub fn updates(&self) -> TextHash {
        *self.updates.lock().expect("nothing fails while it is locked")
    }

    /// Compares the hardware with the model between accesses.
    pub fn at_rest(&self, mmu: &Mmu) {
        self.ask(|reference| reference.at_rest(mmu));
    }
}

impl Wiring for Watcher {
    fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
        let mut updates = self.updates.lock().expect("nothing fails while it is locked");
        write!(updates, "{side:?} {update:?}").expect("a hash takes all");
        drop(updates);
        side.deliver(update, mmu);
        let side = match side {
            Side::Own => perforate_reference::Side::Own,
            Side::Host => perforate_reference::Side::Host,
            Side::Shadow => perforate_reference::Side::Shadow,
        };
        self.ask(|reference| reference.update(side, update, mmu));
    }

    fn translated(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        self.ask(|reference| reference.translated(attempt, mmu));
    }
}

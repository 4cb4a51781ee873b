//! Wiring of a storm that passes everything to the reference model of the hardware state.

use std::sync::{Arc, Mutex};

use perforate_mmu::{Attempt, Mmu};
use perforate_reference::{Reference, Setup};
use perforate_sim::{Composition, Machine, Side, Wiring};
use perforate_types::Update;

/// Reference model, shared by the wiring and the storm.
#[derive(Clone)]
pub struct Watcher(Arc<Mutex<Reference>>);

impl Watcher {
    /// Creates the model for a system of this machine and composition.
    pub fn new(machine: &Machine, composition: &Composition, shares_cores: bool) -> Self {
        let mut config = machine.mmu();
        composition.configure_coalescing(&mut config.tlb);
        let is_shadowed = composition.is_shadowed();
        let reference = Reference::new(Setup { config, shares_cores, is_shadowed });
        Self(Arc::new(Mutex::new(reference)))
    }

    fn ask(&self, act: impl FnOnce(&mut Reference)) {
        act(&mut self.0.lock().expect("it has found nothing wrong before"));
    }

    /// Compares the hardware with the model between accesses.
    pub fn at_rest(&self, mmu: &Mmu) {
        self.ask(|reference| reference.at_rest(mmu));
    }
}

impl Wiring for Watcher {
    fn deliver(&mut self, side: Side, update: &Update, mmu: &mut Mmu) {
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

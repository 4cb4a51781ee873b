//! One run of the study: the kernel's work in each phase of the fork, the mappings at three moments, and the
//! page walks of reads at these moments.

use perforate_os::{KhugepagedConfig, Work};
use perforate_sim::{MemoryState, PhasedRun, PolicyOptions, Scheme, SimError, System};

use super::ForkSharing;
use crate::kind::Measurement;
use crate::kind::case_study::{PAGE_BYTES, counter, counters, cycles, promote};

/// Returns a free memory with room for the heap, its complete copy after copy-on-write, khugepaged's copies,
/// and page tables.
fn memory(setup: &ForkSharing) -> MemoryState {
    let perforation = setup.perforation.clone();
    let policies = PolicyOptions { perforation, ..PolicyOptions::default() };
    MemoryState { policies, ..MemoryState::of(4 * setup.fork.pages() * PAGE_BYTES + (64 << 20)) }
}

/// Runs the study under one scheme with one seed, and returns its figures.
///
/// # Errors
/// Errors of [`System`].
pub fn run(
    setup: &ForkSharing,
    scheme: &'static Scheme,
    seed: u64,
) -> Result<Measurement, SimError> {
    let place = (&setup.machine, &memory(setup));
    let run = PhasedRun::new(place, scheme, &setup.fork.workload(), seed, (false, setup.check))?;
    let free_at_boot = counter(&counters(run.simulation.system()), "free_bytes");
    let mut study = Study { setup, run, free_at_boot, figures: Measurement::new() };
    study.run.run_until("fork")?;
    study.phase("fork")?;
    study.run.run_until("changes")?;
    study.phase("changes")?;
    study.moment("shared");
    study.reads("shared", &["parent", "child"])?;
    study.run.run_until("exit")?;
    study.phase("exit")?;
    study.moment("alone");
    study.reads("alone", &["parent"])?;
    study.mend()?;
    study.moment("mended");
    study.reads("mended", &["parent"])?;
    Ok(study.figures)
}

/// State of one run of the study between its phases.
struct Study<'a> {
    setup: &'a ForkSharing,
    run: PhasedRun,
    free_at_boot: f64,
    figures: Measurement,
}

impl Study<'_> {
    fn system(&self) -> &System {
        self.run.simulation.system()
    }

    fn note(&mut self, name: &str, value: f64) {
        self.figures.insert(name.into(), value);
    }

    /// Runs the next phase of the workload, and records the kernel's work during the phase under `name`.
    fn phase(&mut self, name: &str) -> Result<(), SimError> {
        let before = self.system().kernel().work();
        if let Some(next) = self.run.next_phase()? {
            // The program's own count of changed pages is the same after each later phase.
            next.figures.iter().for_each(|(name, &value)| self.note(name, value as f64));
        }
        self.note_work(name, &(self.system().kernel().work() - before));
        Ok(())
    }

    /// Runs khugepaged until a pass changes nothing, and records the kernel's work.
    fn mend(&mut self) -> Result<(), SimError> {
        let before = self.system().kernel().work();
        promote(self.run.simulation.system_mut(), KhugepagedConfig::default())?;
        self.note_work("khugepaged", &(self.system().kernel().work() - before));
        Ok(())
    }

    /// Records the kernel's work in a phase, with its cycles according to the machine file.
    fn note_work(&mut self, phase: &str, work: &Work) {
        for (what, count) in [
            ("entries_added_and_protected", work.pages_mapped + work.pages_protected),
            ("table_frames_cleared", work.frames_zeroed_tables),
            ("frames_copied", work.frames_copied),
            ("frames_migrated", work.frames_migrated),
            ("frames_scanned", work.frames_scanned),
            ("large_pages_split", work.large_pages_split),
            ("subpages_punched", work.subpages_punched),
            ("subpages_patched", work.subpages_patched),
            ("shootdown_batches", work.shootdown_batches),
            ("entries_invalidated", work.entries_invalidated),
            ("tlb_flushes", work.spaces_flushed),
            ("os_cycles", cycles(&self.setup.machine, work)),
        ] {
            self.note(&format!("{phase}_{what}"), count as f64);
        }
    }

    /// Records numbers of pages by kind, and the memory beyond the heap, of both processes together, as
    /// figures named after `moment`.
    fn moment(&mut self, moment: &str) {
        let counters = counters(self.system());
        for (what, name) in [
            ("large_pages", "large_pages"),
            ("perforated_pages", "perforated_pages"),
            ("base_pages", "base_pages"),
            ("holes", "holes_allocated"),
            // Page-table nodes, including shadow nodes.
            ("page_table_bytes", "page_table_bytes"),
        ] {
            self.note(&format!("{moment}_{what}"), counter(&counters, name));
        }
        // Memory allocated since boot, without the heap: page tables and copies.
        let heap_bytes = (self.setup.fork.pages() * PAGE_BYTES) as f64;
        let beyond = self.free_at_boot - counter(&counters, "free_bytes") - heap_bytes;
        self.note(&format!("{moment}_beyond_heap_bytes"), beyond);
    }

    /// Runs the next reads, with the processes taking turns. Records second-level TLB misses in
    /// which neither the page nor a perforated page around it was found, and page walks (including
    /// those for holes).
    fn reads(&mut self, state: &str, readers: &[&str]) -> Result<(), SimError> {
        let mut counts = vec![(0, 0); readers.len()];
        let mut part = format!("{state}-warm-up");
        loop {
            let before = *self.system().mmu().counters();
            let next = self.run.next_phase()?;
            let after = self.system().mmu().counters();
            let reader = readers.iter().position(|reader| part == format!("{state}-{reader}"));
            if let Some((misses, walks)) = reader.map(|reader| &mut counts[reader]) {
                *misses += after.l2_misses - before.l2_misses;
                *walks += after.walks - before.walks;
            }
            match next {
                Some(next) if next.name.starts_with(state) => part = next.name,
                _ => break,
            }
        }
        let per_1000 = |count: u64| count as f64 * 1000.0 / self.setup.fork.reads.get() as f64;
        for (reader, (misses, walks)) in readers.iter().zip(counts) {
            self.note(&format!("{state}_{reader}_l2_misses_per_1000_reads"), per_1000(misses));
            self.note(&format!("{state}_{reader}_walks_per_1000_reads"), per_1000(walks));
        }
        Ok(())
    }
}

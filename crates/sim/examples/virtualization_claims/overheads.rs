//! Overheads of translation (the shape of D Fig. 11), with D's linear models beside them.

use perforate_sim::SimError;
use perforate_sim::linear_model::{Design, Runs, Shares, overhead};

use crate::laboratory::{self, Figures, Job};
use crate::options::Options;
use crate::table::{middle, spread};
use crate::workloads::{self, Place};

/// Scheme, D's label, and the design of Table IV.
const CONFIGURATIONS: &[(&str, &str, Option<Design>)] = &[
    ("4k", "4K", None),
    ("thp", "2M", None),
    ("1g", "1G", None),
    ("segment", "DS", Some(Design::DirectSegment)),
    ("4k+4k", "4K+4K", None),
    ("4k+thp", "4K+2M", None),
    ("4k+1g", "4K+1G", None),
    ("thp+thp", "2M+2M", None),
    ("thp+1g", "2M+1G", None),
    ("1g+1g", "1G+1G", None),
    ("4k+segment", "4K+VD", Some(Design::VmmDirect)),
    ("segment+4k", "4K+GD", Some(Design::GuestDirect)),
    ("segment+segment", "DD", Some(Design::DualDirect)),
];

/// The native 2M run in which no TLB misses.
const WITHOUT_MISSES: usize = CONFIGURATIONS.len();
/// 4K+4K with a nested TLB of 64 entries apart.
const NESTED_TLB_APART: usize = WITHOUT_MISSES + 1;
/// 4K+4K with nested entries cached nowhere.
const NO_NESTED_TLB: usize = WITHOUT_MISSES + 2;
const RUNS: usize = WITHOUT_MISSES + 3;

/// What must be left of the native 2M run without its walks for overheads to be given: where walks
/// overlap so much that next to nothing is left, the subtraction says nothing (D §VIII).
const LEAST_IDEAL: f64 = 0.1;

/// The runs of one workload on one machine.
pub struct Study {
    /// What was run.
    pub place: Place,
    /// By seed, then by configuration.
    runs: Vec<Vec<Figures>>,
}

impl Study {
    /// A figure by seed.
    pub fn figures(&self, of: impl Fn(&Seed<'_>) -> Option<f64>) -> Vec<Option<f64>> {
        self.runs.iter().map(|runs| of(&Seed(runs))).collect()
    }
}

/// The runs of one seed.
pub struct Seed<'a>(&'a [Figures]);

impl Seed<'_> {
    /// The run under a scheme.
    pub fn run(&self, scheme: &str) -> &Figures {
        let place = CONFIGURATIONS.iter().position(|(name, ..)| *name == scheme);
        &self.0[place.expect("a configuration")]
    }

    /// 4K+4K with a nested TLB apart.
    pub fn nested_tlb_apart(&self) -> &Figures {
        &self.0[NESTED_TLB_APART]
    }

    /// 4K+4K with no nested TLB.
    pub fn no_nested_tlb(&self) -> &Figures {
        &self.0[NO_NESTED_TLB]
    }

    /// D §VIII, as a share: over the native 2M run less the cycles of its walks.
    pub fn overhead(&self, scheme: &str) -> Option<f64> {
        Some(overhead(self.run(scheme).cycles, self.ideal()?))
    }

    /// T_2Mideal; none where walks take nearly all the time of the 2M run.
    fn ideal(&self) -> Option<f64> {
        let least = self.run("thp").cycles * LEAST_IDEAL;
        self.models().ideal_cycles().filter(|&cycles| cycles >= least)
    }

    /// Over the run in which no TLB misses.
    pub fn overhead_over_no_misses(&self, scheme: &str) -> f64 {
        overhead(self.run(scheme).cycles, self.0[WITHOUT_MISSES].cycles)
    }

    fn models(&self) -> Runs {
        Runs {
            native: self.run("4k").measured(),
            virtualized: self.run("4k+4k").measured(),
            native_2m: Some(self.run("thp").measured()),
        }
    }

    /// Share of a run's misses that a counter has.
    fn share(&self, scheme: &str, name: &str) -> f64 {
        let run = self.run(scheme);
        // What both segments translate is looked up in no second-level TLB.
        let misses = run.counter("l2_tlb_misses") + run.counter("misses_in_both_segments");
        if misses > 0.0 { run.counter(name) / misses } else { 0.0 }
    }

    /// Overhead as Table IV has it, with the shares of misses that each mode's own run counted.
    fn predicted(&self, design: Design) -> Option<f64> {
        let share = |scheme, name| self.share(scheme, name);
        let shares = match design {
            Design::DirectSegment => {
                Shares::new(share("segment", "misses_in_both_segments"), None, None, None)
            }
            Design::VmmDirect => {
                let vmm = share("4k+segment", "misses_in_host_segment_only");
                Shares::new(0.0, Some(vmm), Some(0.0), Some(0.0))
            }
            Design::GuestDirect => {
                let guest = share("segment+4k", "misses_in_guest_segment_only");
                Shares::new(guest, Some(0.0), Some(guest), Some(0.0))
            }
            Design::DualDirect => {
                let dual = |name| share("segment+segment", name);
                let both = dual("misses_in_both_segments");
                let guest = both + dual("misses_in_guest_segment_only");
                let vmm = both + dual("misses_in_host_segment_only");
                Shares::new(guest, Some(vmm), Some(guest), Some(both))
            }
        };
        let walk_cycles = design.walk_cycles(&self.models().costs(), &shares.ok()?);
        Some(walk_cycles / self.ideal()?)
    }
}

/// Runs everything and prints a table for each workload.
///
/// # Errors
/// The first run that went wrong.
pub fn print(options: &Options) -> Result<Vec<Study>, SimError> {
    println!(
        "Overhead of translation (D Fig. 11) on sandy-bridge-table6, {} seeds, {} instructions\n\
         overhead: (T − T2Mideal) ÷ T2Mideal in %, T2Mideal = native 2M cycles − its walk_cycles\n\
         (none where walks take over 90 % of it); model: D Table IV from our counts;\n\
         no-miss: over a 2M run in which no TLB misses",
        options.seeds, options.instructions
    );
    let mut studies = Vec::new();
    for place in workloads::all(options.size_bytes)? {
        let study = run(place, options)?;
        print_one(&study);
        studies.push(study);
    }
    println!();
    Ok(studies)
}

fn run(place: Place, options: &Options) -> Result<Study, SimError> {
    let mut jobs = Vec::new();
    for seed in 1..=options.seeds {
        let job = |scheme, machine: &_| Job {
            workload: place.workload.clone(),
            machine: Clone::clone(machine),
            scheme,
            memory: place.memory.clone(),
            seed,
            instructions: options.instructions,
        };
        let machine = &place.machine;
        jobs.extend(CONFIGURATIONS.iter().map(|(scheme, ..)| job(scheme, machine)));
        jobs.push(job("thp", &workloads::without_misses(machine)));
        jobs.push(job("4k+4k", &workloads::with_nested_tlb(machine, 64)));
        jobs.push(job("4k+4k", &workloads::with_nested_tlb(machine, 0)));
    }
    let mut figures = laboratory::run(&place.title, &jobs)?.into_iter();
    let runs = (0..options.seeds).map(|_| figures.by_ref().take(RUNS).collect()).collect();
    Ok(Study { place, runs })
}

fn print_one(study: &Study) {
    println!("\n{}", study.place.title);
    println!(
        "{:<7}{:<17}{:>20}{:>8}{:>20}{:>8}{:>8}{:>7}",
        "D", "scheme", "overhead, %", "model", "no-miss, %", "MPKI", "cyc/mi.", "refs"
    );
    let percent = |share: f64| Some(share * 100.0);
    for &(scheme, label, design) in CONFIGURATIONS {
        let overheads = study.figures(|seed| seed.overhead(scheme).and_then(percent));
        let model = design.map_or(String::new(), |design| {
            middle(&study.figures(|seed| seed.predicted(design).and_then(percent)), 1)
        });
        let no_miss = study.figures(|seed| percent(seed.overhead_over_no_misses(scheme)));
        let counter = |name: &str| study.figures(|seed| Some(seed.run(scheme).counter(name)));
        let per_miss = study.figures(|seed| Some(seed.run(scheme).measured().cycles_per_miss()));
        println!(
            "{label:<7}{scheme:<17}{:>20}{model:>8}{:>20}{:>8}{:>8}{:>7}",
            spread(&overheads, 1),
            spread(&no_miss, 1),
            middle(&counter("l2_tlb_mpki"), 1),
            middle(&per_miss, 1),
            middle(&counter("references_per_walk"), 2),
        );
    }
    print_below(study);
}

/// What is needed to judge the table above.
fn print_below(study: &Study) {
    let percent = |share: f64| Some(share * 100.0);
    let walks = study.figures(|seed| {
        let run = seed.run("thp");
        percent(run.counter("walk_cycles") / run.cycles)
    });
    let touched = study.figures(|seed| Some(seed.run("4k").counter("touched_bytes")));
    let reach = (study.place.machine.tlb.l2.entries * 4096) as f64;
    let ratio = touched.iter().map(|bytes| bytes.map(|bytes| bytes / reach)).collect::<Vec<_>>();
    let megabytes = touched.iter().map(|bytes| bytes.map(|bytes| bytes / 1e6)).collect::<Vec<_>>();
    println!(
        "walks: {} % of the native 2M run; touched: {} MB, {} times the reach of the L2 TLB",
        spread(&walks, 1),
        middle(&megabytes, 0),
        middle(&ratio, 0)
    );
    let share = |scheme: &str, name: &str| {
        middle(&study.figures(|seed| percent(seed.share(scheme, name))), 1)
    };
    println!(
        "misses in segments, %: DS {}, 4K+VD {}, 4K+GD {}, DD {} in both",
        share("segment", "misses_in_both_segments"),
        share("4k+segment", "misses_in_host_segment_only"),
        share("segment+4k", "misses_in_guest_segment_only"),
        share("segment+segment", "misses_in_both_segments"),
    );
}

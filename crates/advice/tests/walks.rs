//! Walks that the analysis counts, compared with the counters of whole simulations.

use std::sync::atomic::AtomicBool;

use perforate_advice::{Analysis, PageOrder, analyse};
use perforate_sim::{
    Composition, Machine, MeasuringOptions, MemoryState, ResolvedRun, Silent, WarmupLength,
    Workload, open_workload,
};
use perforate_types::{Advice, Chunk, ProgramEvent, VirtualAddress};

use given::{OneChunk, map, push_read};

mod given;

/// A functional run of 4KB pages and of 2MB pages in unfragmented memory, without a warm-up.
fn resolved(workload: &str, machine: &str, instructions: u64) -> ResolvedRun {
    let measuring = MeasuringOptions {
        functional: true,
        warmup: Some(WarmupLength::Instructions(0)),
        ..MeasuringOptions::default()
    };
    let name = perforate_trace::bundled::resolve(workload);
    let workload = Workload { instructions: Some(instructions), ..Workload::named(name) };
    let schemes = Composition::list("4k,thp").unwrap();
    ResolvedRun {
        machine: Machine::load(machine).unwrap(),
        measuring,
        memory: MemoryState::of(32 << 30),
        ..ResolvedRun::new(workload, schemes)
    }
}

fn analysed(run: &ResolvedRun) -> Analysis {
    let mut source = open_workload(&run.workload, &run.memory, run.seed).unwrap();
    analyse(&mut source, 0, &run.machine.tlb, 2, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Capacity misses and compulsory misses of the second-level TLB, by scheme.
fn simulated(run: &ResolvedRun) -> Vec<[u64; 2]> {
    let results = perforate_sim::run(run, &mut Silent).unwrap();
    let counted = results.iter().map(|result| {
        let get = |name: &str| result.counters.get(name).unwrap() as u64;
        let compulsory = get("l2_tlb_compulsory_misses");
        [get("l2_tlb_misses") - compulsory, compulsory]
    });
    counted.collect()
}

/// Machines whose second level shares its ways among page sizes in different manners: all ways, some ways,
/// an array of its own for 1GB, none for 2MB. One has no tags.
const MACHINES: [&str; 4] =
    ["perforated-table2", "ice-lake-sp", "sandy-bridge-table6", "neoverse-n1"];

/// With 4KB pages, walks and first walks are those of a whole simulation, whatever the program maps and
/// unmaps.
///
/// With 2MB pages they are equal if the program maps its memory at once. Otherwise the analysis counts fewer
/// first walks: an area is all that was ever mapped, so its pages are as large as if the program had mapped
/// it at the beginning, while the simulated kernel maps 4KB pages in what is smaller at the first touch, and
/// splits a large page that is unmapped in part.
#[test]
fn walks_are_those_of_a_simulation() {
    for (workload, is_mapped_at_once) in [
        ("random:size=64M", true),
        ("zipf:size=256M", true),
        ("stride:size=64M", true),
        ("mummer", true),
        ("churn", false),
        ("redis", false),
        ("xz", false),
        ("bfs", false),
    ] {
        for machine in MACHINES {
            let run = resolved(workload, machine, 300_000);
            let analysis = analysed(&run);
            let [base, large] = [analysis.base, analysis.all_large]
                .map(|counts| [counts.walks, counts.first_walks]);
            let [with_4k, thp] = simulated(&run)[..] else { panic!("two schemes") };
            assert_eq!(base, with_4k, "{workload} on {machine}");
            if is_mapped_at_once {
                assert_eq!(large, thp, "{workload} on {machine}");
            } else {
                assert!(large[1] <= thp[1], "{workload} on {machine}: {large:?} {thp:?}");
            }
        }
    }
}

/// Pages of a size that the TLB joins have the walks of the scheme that maps them everywhere.
#[test]
fn walks_with_sizes_between_are_those_of_a_simulation() {
    for (workload, machine, scheme) in [
        ("random:size=96M", "neoverse-n1", "mthp-64k"),
        ("random:size=112M", "neoverse-n1", "mthp-64k"),
        ("random:size=64M", "zen4-genoa", "mthp-16k"),
    ] {
        let mut run = resolved(workload, machine, 600_000);
        run.schemes = Composition::list(scheme).unwrap();
        let analysis = analysed(&run);
        let [between] = simulated(&run)[..] else { panic!("one scheme") };
        let gain = &analysis.area_gains[0];
        assert!(gain.order < PageOrder::LARGE && gain.saved_walks > 0, "{gain:?}");
        assert_eq!(analysis.base.walks - gain.saved_walks, between[0], "{workload} on {machine}");
    }
}

/// The curve begins with 4KB pages, and each further point saves walks for more memory. All choices together
/// are about as good as 2MB pages everywhere.
#[test]
fn the_curve_leads_from_small_pages_to_large_ones() {
    for workload in ["random:size=64M", "zipf:size=256M", "bfs", "mummer", "fork"] {
        let run = resolved(workload, "perforated-table2", 2_000_000);
        let Analysis { base, all_large, curve, gains, pieces, .. } = analysed(&run);
        let points = &curve.points;
        assert_eq!(
            (points[0].choices, points[0].walks, points[0].additional_bytes),
            (0, base.walks, 0)
        );
        assert_eq!(points.last().unwrap().choices, curve.choices.len());
        assert!(!curve.choices.is_empty() && pieces.len() <= 128 + 32, "{workload}");
        for pair in points.windows(2) {
            assert!(pair[0].additional_bytes <= pair[1].additional_bytes, "{workload}: {pair:?}");
        }
        let end = points.last().unwrap().walks;
        assert!(
            end <= all_large.walks + base.walks / 50,
            "{workload}: {end} of {base:?}, {all_large:?}"
        );
        // One choice alone saves no more than it does together with all others.
        let best = gains.iter().map(|gain| gain.walks).min().unwrap();
        assert!(end <= best, "{workload}: {end} and {best}");
    }
}

/// A window of a program that touched 1,000 of its 1,024 pages before: those walks come again and again, and 2MB
/// pages save them. The other 24 are first touches. Memory that the kernel populates for the program in one
/// piece is not touched before.
#[test]
fn pages_touched_between_windows_have_no_first_touch() {
    const START: u64 = 0x1000_0000;
    let start = VirtualAddress::new(START);
    let populate = |pages: u64| ProgramEvent::Advise {
        start,
        length: pages * 4096,
        advice: Advice::Other(23),
    };
    let analysed = |gap: bool| {
        let mut chunk = Chunk::default();
        chunk.push_event(map(START, 1024));
        if gap {
            chunk.push_event(ProgramEvent::Gap { instructions: 1_000_000 });
        }
        chunk.push_event(populate(1000));
        for page in 0..1024 {
            push_read(&mut chunk, START + page * 4096);
        }
        let tlb = Machine::load("ice-lake-sp").unwrap().tlb;
        analyse(&mut OneChunk::new(chunk), 0, &tlb, 2, &AtomicBool::new(false), &mut |_| {})
            .unwrap()
    };
    let [sampled, whole] = [analysed(true), analysed(false)];
    assert_eq!((sampled.base.walks, sampled.base.first_walks), (1000, 24));
    assert_eq!((sampled.all_large.walks, sampled.all_large.first_walks), (2, 0));
    assert_eq!((whole.base.walks, whole.base.first_walks), (0, 1024));
}

//! Advice without a trace: memory ranked by samples of the processor, or by accessed bits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use perforate_advice::{AccessedPlace, Place, Samples, rank_accessed, rank_samples};
use perforate_host::Reporter;
use perforate_host::accesses::{AccessOptions, watch_accesses};
use perforate_records::{
    AdviceEvidence, AdviceRecord, AdviceVerdict, EvidenceKind, RankedMemory, word,
};
use perforate_sim::Progress;
use perforate_types::counted;

use crate::actions::Failure;

/// Command that goes on to a prediction.
const GO_ON: &str = "perforate advise -- PROG ARGS… records the program and predicts time";

/// Ranks the memory of a running process by the accessed bits of its pages, in rounds of a second.
///
/// # Errors
/// There is no such process, it may not be read, or it ended before the first round.
pub fn advise_on_process(
    pid: u32,
    seconds: usize,
    reporter: &mut dyn Reporter,
    is_stopped: &dyn Fn() -> bool,
) -> Result<AdviceRecord, Failure> {
    let (proc, interval) = (PathBuf::from("/proc"), Duration::from_secs(1));
    let options = AccessOptions { pid, proc, rounds: seconds, interval };
    reporter.stage("watching accessed bits", "seconds");
    let found = watch_accesses(&options, &mut |done, all| {
        reporter.progress(Progress { done: done as u64, total: Some(all as u64) });
        !is_stopped()
    })?;
    let rounds = found.rounds;
    let ranked = rank_accessed(found.places);
    let all = ranked.candidates.iter().chain(&ranked.others);
    // The sum of no floating-point numbers is -0.
    let used: u64 = all.clone().map(|place| place.mean_bytes() as u64).sum();
    let description = format!(
        "{} of a second of process {pid}, {:.0} MB in use in a round",
        counted(rounds, "round"),
        used as f64 / f64::from(1 << 20)
    );
    Ok(AdviceRecord {
        workload: found.program,
        ranking: all.map(accessed).collect(),
        notes: [found.notes, vec![GO_ON.into()]].concat(),
        evidence: AdviceEvidence {
            kind: EvidenceKind::AccessedBits,
            description,
            ..AdviceEvidence::default()
        },
        ..ranking()
    })
}

/// Ranks memory by the samples in a file that `perf script` wrote.
///
/// # Errors
/// The file cannot be read, or has no addresses.
pub fn advise_on_samples(path: &Path) -> Result<AdviceRecord, Failure> {
    let samples = Samples::read(path)?;
    let ranked = rank_samples(&samples);
    let misses = match ranked.misses {
        None => ", none of which says whether it missed the TLB".to_owned(),
        Some(0) => ", none of which missed the TLB".to_owned(),
        Some(misses) => format!(", {misses} of which missed the TLB"),
    };
    let others = [
        (samples.of_kernel, "of the kernel's memory"),
        (samples.without_address, "without an address"),
    ];
    let others = others
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("; {} {what} not ranked", counted(count, "sample")));
    let description = format!(
        "{} of {}{misses}{}",
        counted(ranked.samples, "sample"),
        path.display(),
        others.collect::<String>()
    );
    let mut notes = Vec::new();
    if ranked.outside > 0 {
        notes.push(format!(
            "{} outside the mappings that the file tells: {} has them",
            counted(ranked.outside, "sample"),
            Samples::COMMAND
        ));
    }
    notes.push(GO_ON.into());
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let areas = ranked.areas.into_iter().map(|area| RankedMemory {
        samples: Some(area.samples),
        misses: area.misses,
        latency_cycles: area.latency_cycles,
        ..memory(&area.place)
    });
    Ok(AdviceRecord {
        workload: name,
        ranking: areas.collect(),
        notes,
        evidence: AdviceEvidence {
            kind: EvidenceKind::Samples,
            description,
            samples: Some(ranked.samples),
            kernel_samples: Some(samples.of_kernel),
            samples_without_address: Some(samples.without_address),
            accesses: None,
        },
        ..ranking()
    })
}

fn ranking() -> AdviceRecord {
    AdviceRecord {
        verdict: AdviceVerdict::Ranking,
        version: env!("CARGO_PKG_VERSION").into(),
        ..AdviceRecord::default()
    }
}

fn accessed(place: &AccessedPlace) -> RankedMemory {
    RankedMemory {
        resident_bytes: Some(place.resident_bytes),
        large_bytes: Some(place.large_bytes),
        accessed_bytes: place.accessed_bytes.clone(),
        ..memory(&place.place)
    }
}

fn memory(place: &Place) -> RankedMemory {
    RankedMemory {
        name: place.name.clone(),
        kind: word(place.kind),
        process: place.process,
        start: format!("{:#x}", place.bytes.start),
        bytes: place.bytes.end.saturating_sub(place.bytes.start),
        is_candidate: place.can_be_large(),
        ..RankedMemory::default()
    }
}

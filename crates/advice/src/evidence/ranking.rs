//! Rankings of memory, the most promising first.

use std::cmp::Reverse;
use std::ops::Range;

use serde::Serialize;

use super::Samples;
use super::samples::PageSamples;
use crate::{AreaKind, PageOrder};

/// Memory of one process with its name and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Process ID of the operating system.
    pub process: u32,
    /// Name as in `/proc/PID/maps`; empty for memory without a name.
    pub name: String,
    /// Kind of the memory.
    pub kind: AreaKind,
    /// Addresses of the memory in bytes.
    pub bytes: Range<u64>,
}

/// Memory with the number of samples there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampledPlace {
    /// Memory that was sampled.
    #[serde(flatten)]
    pub place: Place,
    /// Number of samples of the memory.
    pub samples: u64,
    /// Number of samples that missed the TLB; `None` if no sample here says whether it did.
    pub misses: Option<u64>,
    /// Mean latency of the samples that have one, in cycles.
    pub latency_cycles: Option<f64>,
}

impl SampledPlace {
    fn new(place: Place, sum: &PageSamples) -> Self {
        let cycles = sum.latency_cycles as f64 / sum.with_latency as f64;
        Self {
            place,
            samples: sum.samples,
            misses: (sum.with_tlb > 0).then_some(sum.misses),
            latency_cycles: (sum.with_latency > 0).then_some(cycles),
        }
    }
}

/// Ranking of memory by samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedSamples {
    /// All samples of user memory.
    pub samples: u64,
    /// Number of samples that missed the TLB; `None` if no sample says whether it did.
    pub misses: Option<u64>,
    /// Number of samples outside the areas that the file tells.
    pub outside: u64,
    /// Areas with samples; outside them, runs of 2MB blocks.
    pub areas: Vec<SampledPlace>,
}

/// Ranks areas by their samples that missed the TLB, or by all samples if none says whether it did.
pub fn rank_samples(samples: &Samples) -> RankedSamples {
    let total = samples.total();
    // Part of an area, within an aligned 2MB, whose samples have been added.
    let mut piece: Option<Place> = None;
    let mut areas: Vec<(Place, PageSamples)> = Vec::new();
    let mut outside = 0;
    for (process, address) in samples.sampled_pages() {
        if piece
            .as_ref()
            .is_some_and(|last| last.process == process && last.bytes.contains(&address))
        {
            continue;
        }
        let (area, is_known) = around(&samples.places, process, address);
        let block = address & !(PageOrder::LARGE.bytes() - 1);
        let end = block.saturating_add(PageOrder::LARGE.bytes());
        let bytes = block.max(area.bytes.start)..end.min(area.bytes.end);
        let sum = samples.within(process, &bytes);
        outside += if is_known { 0 } else { sum.samples };
        let next = piece.insert(Place { bytes, ..area.clone() });
        match areas.last_mut().filter(|(last, _)| continues(last, next, &area)) {
            Some((last, of_area)) => {
                last.bytes.end = last.bytes.end.max(next.bytes.end);
                of_area.add(&sum);
            }
            None => areas.push((if is_known { area } else { next.clone() }, sum)),
        }
    }
    let areas = areas.into_iter().map(|(place, sum)| SampledPlace::new(place, &sum));
    let mut areas: Vec<SampledPlace> = areas.collect();
    areas.sort_by_key(|area| Reverse((area.misses, area.samples)));
    let misses = (total.with_tlb > 0).then_some(total.misses);
    RankedSamples { samples: samples.count, misses, outside, areas }
}

/// True if a piece of `area` continues the memory of the last area: another piece of the same area, or the next
/// block outside all areas.
fn continues(last: &Place, piece: &Place, area: &Place) -> bool {
    last == area
        || last.process == piece.process && last.bytes.end == piece.bytes.start && {
            (&last.name, last.kind) == (&piece.name, piece.kind)
                && area.bytes.start < last.bytes.start
        }
}

/// Area that contains an address, or the gap between two areas, without a name; true for an area.
fn around(places: &[Place], process: u32, address: u64) -> (Place, bool) {
    let next =
        places.partition_point(|place| (place.process, place.bytes.start) <= (process, address));
    let is_own = |place: &&Place| place.process == process;
    let before = next.checked_sub(1).and_then(|last| places.get(last)).filter(is_own);
    if let Some(place) = before.filter(|place| place.bytes.contains(&address)) {
        return (place.clone(), true);
    }
    let start = before.map_or(0, |place| place.bytes.end);
    let end = places.get(next).filter(is_own).map_or(u64::MAX, |place| place.bytes.start);
    let gap = Place { process, name: String::new(), kind: AreaKind::Unknown, bytes: start..end };
    (gap, false)
}

/// Memory whose accessed bits were read several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessedPlace {
    /// Memory that was watched.
    #[serde(flatten)]
    pub place: Place,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Resident memory in pages of 2MB or more, in bytes.
    pub large_bytes: u64,
    /// Memory in bytes whose accessed bits were set in each round.
    pub accessed_bytes: Vec<u64>,
}

impl AccessedPlace {
    /// Pages of 4KB accessed in a round for each MB of mapped memory, the mean of all rounds; 256 is all.
    pub fn pages_per_mb(&self) -> f64 {
        let bytes = self.place.bytes.end.saturating_sub(self.place.bytes.start);
        self.mean_bytes() * 256.0 / (bytes.max(1) as f64)
    }

    /// Memory in bytes that was accessed in a round, the mean of all rounds.
    pub fn mean_bytes(&self) -> f64 {
        let sum: f64 = self.accessed_bytes.iter().map(|bytes| *bytes as f64).sum();
        sum / self.accessed_bytes.len().max(1) as f64
    }

    /// Number of rounds in which any page was accessed.
    pub fn rounds_accessed(&self) -> usize {
        self.accessed_bytes.iter().filter(|bytes| **bytes > 0).count()
    }
}

impl Place {
    /// True if a 2MB page fits, and memory of this kind can have one by advice.
    pub fn can_be_large(&self) -> bool {
        let Range { start, end } = self.bytes;
        let first = start.checked_next_multiple_of(PageOrder::LARGE.bytes());
        let fits = first.is_some_and(|first| end.saturating_sub(first) >= PageOrder::LARGE.bytes());
        fits && self.kind.takes_advice()
    }
}

/// Ranking of memory by accessed bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankedAccesses {
    /// Areas that a 2MB page fits into, and that take advice on page sizes. Those with most accessed pages per
    /// MB are first.
    pub candidates: Vec<AccessedPlace>,
    /// All other areas with accessed pages, in the same order.
    pub others: Vec<AccessedPlace>,
}

/// Ranks areas by the pages that were accessed per MB of mapped memory. Areas that were never accessed are left
/// out.
pub fn rank_accessed(places: Vec<AccessedPlace>) -> RankedAccesses {
    let mut places: Vec<AccessedPlace> =
        places.into_iter().filter(|place| place.rounds_accessed() > 0).collect();
    places.sort_by(|a, b| {
        let by = |place: &AccessedPlace| (place.pages_per_mb(), place.mean_bytes());
        let (a, b) = (by(a), by(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let (candidates, others) =
        places.into_iter().partition(|one: &AccessedPlace| one.place.can_be_large());
    RankedAccesses { candidates, others }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MB: u64 = 1 << 20;

    fn read(text: &str) -> RankedSamples {
        rank_samples(&Samples::parse(Path::new("samples.txt"), text.as_bytes()).unwrap())
    }

    /// Row of a table: name, first and last MB, samples, misses.
    fn rows(places: &[SampledPlace]) -> Vec<(&str, u64, u64, u64, Option<u64>)> {
        let row = |it: &'_ SampledPlace| {
            (it.place.bytes.start / MB, it.place.bytes.end / MB, it.samples, it.misses)
        };
        let with_name = |it| {
            let (start, end, samples, misses) = row(it);
            (it.place.name.as_str(), start, end, samples, misses)
        };
        places.iter().map(with_name).collect()
    }

    #[test]
    fn areas_are_ranked_by_misses() {
        // An area from 3 to 9MB, and samples with hits and misses in and outside it.
        let mut text = String::from(
            "7 1.0: PERF_RECORD_MMAP2 7/7: [0x300000(0x600000) @ 0 00:00 0 0]: rw-p [heap]\n",
        );
        for (number, (megabyte, missed)) in
            [(3, true), (5, false), (5, false), (8, true), (8, true), (17, false), (19, true)]
                .into_iter()
                .enumerate()
        {
            let source = if missed { "10250100142" } else { "10268100142" };
            text += &format!("7 2.{number}: mem: {:x} {source} |OP LOAD\n", megabyte * MB);
        }
        let ranked = read(&text);
        assert_eq!((ranked.samples, ranked.misses, ranked.outside), (7, Some(4), 2));
        let areas = [("[heap]", 3, 9, 5, Some(3)), ("", 16, 20, 2, Some(1))];
        assert_eq!(rows(&ranked.areas), areas);
    }

    #[test]
    fn samples_that_know_no_tlb_rank_by_their_number() {
        let text: String = (0..5)
            .map(|n| format!("{} 2.{n}: e: {:x}\n", 7 + n % 2, 0x40_0000 + n * 0x1000))
            .collect();
        let ranked = read(&text);
        assert_eq!((ranked.misses, ranked.outside), (None, 5));
        assert_eq!(rows(&ranked.areas), [("", 4, 6, 3, None), ("", 4, 6, 2, None)]);
        let processes: Vec<u32> = ranked.areas.iter().map(|area| area.place.process).collect();
        assert_eq!(processes, [7, 8]);
    }

    /// Addresses that follow those of another process begin an area of their own.
    #[test]
    fn areas_end_with_their_process() {
        let ranked = read("7 2.0: e: 400000\n8 2.1: e: 600000\n8 2.2: e: 800000\n");
        assert_eq!(rows(&ranked.areas), [("", 6, 10, 2, None), ("", 4, 6, 1, None)]);
    }

    #[test]
    fn dense_memory_comes_first() {
        let place = |name: &str, kind, megabytes: Range<u64>, accessed: &[u64]| AccessedPlace {
            place: Place {
                process: 7,
                name: name.into(),
                kind,
                bytes: megabytes.start * MB..megabytes.end * MB,
            },
            resident_bytes: 4 * MB,
            large_bytes: 0,
            accessed_bytes: accessed.iter().map(|pages| pages * 4096).collect(),
        };
        let ranked = rank_accessed(vec![
            place("sparse", AreaKind::Anonymous, 100..200, &[256, 512]),
            place("code", AreaKind::File, 10..20, &[256, 256]),
            place("idle", AreaKind::Heap, 20..30, &[0, 0]),
            place("dense", AreaKind::Heap, 40..44, &[0, 1024]),
            place("small", AreaKind::Anonymous, 51..54, &[768, 768]),
        ]);
        let names = |places: &[AccessedPlace]| -> Vec<String> {
            places.iter().map(|it| it.place.name.clone()).collect()
        };
        assert_eq!(names(&ranked.candidates), ["small", "dense", "sparse"]);
        assert_eq!(names(&ranked.others), ["code"]);
        let [small, dense, sparse] = &ranked.candidates[..] else { panic!() };
        assert_eq!(small.pages_per_mb(), 256.0);
        assert_eq!((dense.pages_per_mb(), dense.rounds_accessed()), (128.0, 1));
        assert_eq!((sparse.pages_per_mb(), sparse.mean_bytes()), (3.84, 384.0 * 4096.0));
    }
}

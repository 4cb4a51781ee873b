//! Sentences about large pages in a snapshot.

use perforate_records::{BlockReach, HostRecord, ProcessRecord};

use super::host::free_whole_blocks;
use crate::format::{bytes, percent};

/// Size of a large (2MB) page in bytes.
const LARGE: f64 = 2_097_152.0;
/// Difference of two shares, 0–1, below which sentences call them equal.
const SAME: f64 = 0.005;

/// Returns sentences on memory that can become 2MB pages, on 2MB pages that a program can get, and on the
/// additional memory that perforated pages cover.
pub(super) fn of_host(record: &HostRecord) -> Vec<String> {
    [whole(record), program(record), holes(record)].into_iter().flatten().collect()
}

/// Returns the share of memory, 0–1, in 2MB blocks with one of these possible uses; `None` if unknown.
fn share(record: &HostRecord, reaches: &[BlockReach]) -> Option<f64> {
    let blocks = record.blocks.as_ref()?;
    let found: f64 = reaches.iter().map(|&reach| blocks.count(reach) as f64).sum();
    Some(found / blocks.memory_blocks.max(1) as f64)
}

fn whole(record: &HostRecord) -> Option<String> {
    let Some((whole, later)) =
        share(record, &[BlockReach::Whole]).zip(share(record, &[BlockReach::Compactable]))
    else {
        let free = free_whole_blocks(record)? * LARGE / (record.memory_bytes as f64).max(1.0);
        return Some(format!(
            "{} of this memory is free in whole 2MB blocks; what compaction could add is known to \
             root only.",
            percent(free)
        ));
    };
    let today = share(record, &[BlockReach::Large]).filter(|&share| share > 0.0);
    let today = today.map(|share| format!(" ({} is in 2MB pages already)", percent(share)));
    Some(format!(
        "{} of this memory is free in whole 2MB blocks{}; compaction could free another {}.",
        percent(whole),
        today.unwrap_or_default(),
        percent(later)
    ))
}

/// Returns a sentence on the share of its memory that a program gets in 2MB pages: in the first simulated
/// case (state of memory), and in a later case with a larger share. `None` if no case was simulated.
fn program(record: &HostRecord) -> Option<String> {
    let conventional = record.requests.iter().filter(|request| !request.perforates);
    let shares: Vec<(&str, f64)> = conventional
        .filter_map(|request| Some((request.case.as_str(), request.shares.as_ref()?.large)))
        .collect();
    let (case, first) = shares.first()?;
    let size = bytes(record.request_bytes as f64);
    let mut text =
        format!("A program that touches {size} gets {} of it in 2MB pages {case}", percent(*first));
    let better = shares.iter().find(|(_, share)| share - first > SAME);
    if let Some((case, share)) = better {
        text += &format!(", and {} {case}", percent(*share));
    }
    Some(text + ".")
}

fn holes(record: &HostRecord) -> Option<String> {
    let holes = share(record, &[BlockReach::PerforableNow, BlockReach::Perforable])?;
    let stays = share(record, &[BlockReach::Neither, BlockReach::Reclaimable])?;
    let only = if holes < 0.02 { "only " } else { "" };
    Some(format!(
        "Perforated pages could cover {only}another {}, with holes where memory cannot be moved; {} \
         cannot become large pages of either kind.",
        percent(holes),
        percent(stays)
    ))
}

/// Returns sentences on the share of a process's memory that is in 2MB pages, and on the share that could be.
pub(super) fn of_process(record: &ProcessRecord) -> Vec<String> {
    let resident = record.totals.resident_bytes as f64;
    if resident <= 0.0 {
        return vec!["Nothing of it is in memory.".into()];
    }
    let totals = record.areas.iter().map(|area| &area.totals);
    let roomy = totals.filter(|area| area.mapped_bytes as f64 >= LARGE);
    let roomy: f64 = roomy.map(|area| area.resident_bytes as f64).sum();
    vec![format!(
        "{} of what it has in memory is mapped in 2MB pages; {} lies in areas of 2MB or more, which \
         could have some.",
        percent(record.totals.large_bytes as f64 / resident),
        percent(roomy / resident)
    )]
}

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
    let Some((whole, movable)) =
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
    let blocks = record.blocks.as_ref()?;
    let now = blocks.compactable_with_room as f64 / blocks.memory_blocks.max(1) as f64;
    let later = (movable - now >= SAME).then(|| {
        format!(
            ", and {} more if there were free memory to move its contents to",
            percent(movable - now)
        )
    });
    Some(format!(
        "{} of this memory is free in whole 2MB blocks{}; compaction could free another {}{}.",
        percent(whole),
        today.unwrap_or_default(),
        percent(now),
        later.unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostRecord {
        serde_json::from_str(text).unwrap()
    }

    fn blocks(counts: &str) -> HostRecord {
        host(&format!(
            r#"{{"blocks":{{"memory_blocks":1000,"compactable_with_room":300,"blocks":{{{counts}}}}}}}"#
        ))
    }

    #[test]
    fn blocks_are_free_compactable_or_large_already() {
        let text = |counts: &str| whole(&blocks(counts)).unwrap();
        let free = "25.0 % of this memory is free in whole 2MB blocks";
        assert_eq!(
            text(r#""whole":250,"compactable":300"#),
            format!("{free}; compaction could free another 30.0 %.")
        );
        assert_eq!(
            text(r#""whole":250,"compactable":500,"large":1"#),
            format!(
                "{free} (0.1 % is in 2MB pages already); compaction could free another 30.0 %, and \
                 20.0 % more if there were free memory to move its contents to."
            )
        );
    }

    /// Below 2 % of the memory it is "only" so much.
    #[test]
    fn perforated_pages_cover_what_is_perforable_now_or_later() {
        let text = |counts: &str| holes(&blocks(counts)).unwrap();
        let rest = "with holes where memory cannot be moved; 30.0 % cannot become large pages of either kind.";
        assert_eq!(
            text(r#""perforable_now":15,"perforable":5,"neither":200,"reclaimable":100"#),
            format!("Perforated pages could cover another 2.0 %, {rest}")
        );
        assert_eq!(
            text(r#""perforable_now":15,"perforable":4,"neither":200,"reclaimable":100"#),
            format!("Perforated pages could cover only another 1.9 %, {rest}")
        );
        assert_eq!(holes(&host("{}")), None);
    }

    /// A later case is named if it has more than half a percent more.
    #[test]
    fn a_program_gets_more_in_a_later_case() {
        let text = |later: f64| {
            let record = format!(
                r#"{{"request_bytes":1073741824,"requests":[
                {{"case":"perforating","perforates":true,"shares":{{"large":1.0}}}},
                {{"case":"out of memory","shares":null}},
                {{"case":"as it is","shares":{{"large":0.25}}}},
                {{"case":"after compaction","shares":{{"large":{later}}}}}]}}"#
            );
            program(&host(&record)).unwrap()
        };
        let first = "A program that touches 1.00 GB gets 25.0 % of it in 2MB pages as it is";
        assert_eq!(text(0.2549), format!("{first}."));
        assert_eq!(text(0.2551), format!("{first}, and 25.5 % after compaction."));
        assert_eq!(text(0.2), format!("{first}."));
        assert_eq!(program(&host("{}")), None);
    }

    /// Areas of 2MB can have a large page, smaller ones cannot.
    #[test]
    fn memory_of_a_process_lies_in_areas_with_room() {
        let text = |mapped: u64, resident: u64| {
            let record = format!(
                r#"{{"totals":{{"resident_bytes":{resident},"large_bytes":100}},"areas":[
                {{"mapped_bytes":{mapped},"resident_bytes":500}},{{"mapped_bytes":4096,"resident_bytes":500}}]}}"#
            );
            of_process(&serde_json::from_str(&record).unwrap()).join(" ")
        };
        let start = "10.0 % of what it has in memory is mapped in 2MB pages;";
        let end = "lies in areas of 2MB or more, which could have some.";
        assert_eq!(text(2 << 20, 1000), format!("{start} 50.0 % {end}"));
        assert_eq!(text((2 << 20) - 4096, 1000), format!("{start} 0.0 % {end}"));
        assert_eq!(text(2 << 20, 0), "Nothing of it is in memory.");
    }
}

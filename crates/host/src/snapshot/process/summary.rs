//! Sums over mappings, and statistics of contents.

use perforate_records::{ProcessArea, ProcessContents, ProcessTotals};

use crate::snapshot::PageContents;

/// Sums up the sizes of all mappings of a process. Leaves out sizes that could not be read for this process.
pub(super) fn add_up(
    areas: &mut [ProcessArea],
    has_frames: bool,
    has_flags: bool,
) -> ProcessTotals {
    let mut all = ProcessTotals::default();
    for totals in areas.iter_mut().map(|area| &mut area.totals) {
        all.mapped_bytes = all.mapped_bytes.saturating_add(totals.mapped_bytes);
        all.resident_bytes = all.resident_bytes.saturating_add(totals.resident_bytes);
        all.anonymous_bytes = all.anonymous_bytes.saturating_add(totals.anonymous_bytes);
        all.swapped_bytes = all.swapped_bytes.saturating_add(totals.swapped_bytes);
        all.large_bytes = all.large_bytes.saturating_add(totals.large_bytes);
        totals.sizes = totals.sizes.take().filter(|_| has_frames);
        totals.folio_bytes = totals.folio_bytes.filter(|_| has_flags);
        totals.merged_bytes = totals.merged_bytes.filter(|_| has_flags);
        for (label, bytes) in totals.sizes.iter().flatten() {
            *all.sizes.get_or_insert_default().entry(label.clone()).or_default() += bytes;
        }
        let add =
            |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0) + more).or(sum);
        all.folio_bytes = add(all.folio_bytes, totals.folio_bytes);
        all.merged_bytes = add(all.merged_bytes, totals.merged_bytes);
    }
    all
}

/// Note on a process that runs a virtual machine: the address of the guest's memory, and statistics of
/// its contents.
pub(super) fn guest_note(area: &ProcessArea, contents: Option<&ProcessContents>) -> String {
    let start = format!(
        "the process runs a virtual machine; its memory is taken to be the area at {}",
        area.start
    );
    match contents {
        Some(found) if found.pages_read > 0 => {
            let share = |pages: u64| 100.0 * pages as f64 / found.pages_read as f64;
            format!(
                "{start}: of {} pages read there {:.1} % are zero, {:.1} % have the content of \
                 another, and merging would save {:.1} %",
                found.pages_read,
                share(found.zero_pages),
                share(found.duplicate_pages),
                share(found.savable_pages)
            )
        }
        _ => start,
    }
}

/// Statistics of page contents; `unreadable` is the number of pages whose contents could not be
/// read.
pub(super) fn of_contents(contents: &PageContents, unreadable: u64) -> ProcessContents {
    let (duplicates, distinct, most) = contents.duplicates();
    let (pages, zero) = (contents.pages(), contents.zero_pages());
    let percent = |part: u64| (1000.0 * part as f64 / pages.max(1) as f64).floor() / 10.0;
    ProcessContents {
        pages_read: pages,
        pages_unreadable: unreadable,
        zero_pages: zero,
        duplicate_pages: duplicates,
        distinct_duplicates: distinct,
        most_copies: most,
        savable_pages: zero.saturating_sub(1) + duplicates.saturating_sub(distinct),
        sampled_one_in: contents.sampled_one_in(),
        spec: match distinct {
            0 => format!("zero={}%", percent(zero)),
            _ => format!(
                "zero={}%,duplicate={}%,distinct={distinct}",
                percent(zero),
                percent(duplicates.min(pages - zero))
            ),
        },
    }
}

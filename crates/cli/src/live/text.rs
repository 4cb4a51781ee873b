//! The text that `perforate experiment live` prints.

use perforate_host::live::{Outcome, Outlook};
use perforate_os::FreeMemory;

use crate::output::{COLUMNS, notes};

/// Settings that are printed; the line of JSON has all of them.
const SETTINGS: [&str; 5] = [
    "enabled",
    "defrag",
    "khugepaged/scan_sleep_millisecs",
    "khugepaged/pages_to_scan",
    "khugepaged/max_ptes_none",
];

/// The whole text.
pub fn text(outcome: &Outcome) -> String {
    let mut text = machine_text(outcome);
    text += &format!(
        "\nAsked for {} MB with MADV_HUGEPAGE, touched {} MB\n\n",
        outcome.asked_bytes >> 20,
        outcome.touched_bytes >> 20
    );
    text += &shares_text(outcome);
    if let Some(outlook) = &outcome.perforation {
        text += &blocks_text(outlook);
    }
    text += "\nP: 2GB on 12GB full of page cache, and again with part of it free (after the |); for \
             comparison\nonly, as that machine's memory had another past.\n";
    let assumptions = outcome.perforation.iter().flat_map(|outlook| &outlook.assumptions);
    let remarks: Vec<&String> = outcome.notes.iter().chain(assumptions).collect();
    if remarks.is_empty() { text } else { text + "\n" + notes(&remarks, COLUMNS).as_str() }
}

fn shares_text(outcome: &Outcome) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let regions = |of: fn(&Outlook) -> u64| {
        let bytes = outcome.perforation.as_ref().map(|outlook| (of(outlook) << 21) as f64);
        let share = bytes.map(|bytes| bytes / outcome.touched_bytes.max(1) as f64);
        share.map_or_else(|| "unknown".into(), percent)
    };
    let waited = format!("in 2MB pages, after {} s (P: over 100 s)", outcome.wait_seconds);
    let mut lines = vec![
        ("share of the memory touched", "here".into(), "P §III.C"),
        ("in 2MB pages, at once", percent(outcome.large_share_at_once), "2.5 | 49 %"),
        (&waited, percent(outcome.large_share_after_wait), "22 %"),
    ];
    if let Some(share) = outcome.large_share_after_collapse {
        lines.push(("in 2MB pages, after MADV_COLLAPSE", percent(share), "–"));
    }
    lines.extend([
        (
            "  what is not could be perforated, movable frames moved",
            regions(|outlook| outlook.regions_perforated_if_moved),
            "18 | 50 %",
        ),
        (
            "  what is not could be perforated, others' frames kept",
            regions(|outlook| outlook.regions_perforated_at_once),
            "–",
        ),
        (
            "  what is not could be in 2MB pages, movable frames moved",
            regions(|outlook| outlook.regions_whole_if_moved),
            "–",
        ),
    ]);
    let line = |(label, here, paper)| format!("{label:<58}{here:>14}{paper:>14}\n");
    lines.into_iter().map(line).collect()
}

fn machine_text(outcome: &Outcome) -> String {
    let mut text = format!("Linux {}\n", outcome.kernel);
    text += &outcome.amounts.map_or_else(
        || "memory unknown: /proc/meminfo cannot be read\n".into(),
        |amounts| {
            format!(
                "memory {} MB, free {} MB, available {} MB\n",
                amounts.total_bytes >> 20,
                amounts.free_bytes >> 20,
                amounts.available_bytes >> 20
            )
        },
    );
    let order = FreeMemory::LARGE_ORDER;
    text += &outcome.free.map_or_else(
        || "free memory by size: /proc/buddyinfo cannot be read\n".into(),
        |free| {
            format!(
                "free memory in pieces below 2MB: {:.1} % (Linux's unusable index)\n\
                 fragmentation index for 2MB: {}\n",
                f64::from(free.unusable_thousandths(order)) / 10.0,
                free.fragmentation_thousandths(order).map_or_else(
                    || "none, 2MB are free in one piece".into(),
                    |index| format!("{:.3}", index as f64 / 1000.0)
                )
            )
        },
    );
    text += "transparent large pages:";
    for name in SETTINGS {
        let value = outcome.transparent_hugepage.get(name).unwrap_or("unknown");
        let short = name.rsplit('/').next().unwrap_or(name);
        let separator =
            if name == "khugepaged/scan_sleep_millisecs" { "\n  khugepaged:" } else { "" };
        text += &format!("{separator} {short}={value}");
    }
    text + "\n"
}

fn blocks_text(outlook: &Outlook) -> String {
    let mut text =
        format!("\n{:<58}{:>14}{:>14}\n", "2MB blocks of this machine's memory", "blocks", "share");
    for (label, blocks) in [
        ("one 2MB page", outlook.blocks_large),
        ("all free, but for our own 4KB pages", outlook.blocks_free),
        ("whole, once what is movable is moved", outlook.blocks_whole_if_moved),
        (
            "perforated under the policy, once what is movable is moved",
            outlook.blocks_perforated_if_moved,
        ),
        ("too fragmented for the policy", outlook.blocks_too_fragmented),
    ] {
        let share = 100.0 * blocks as f64 / outlook.blocks.max(1) as f64;
        text += &format!("{label:<58}{blocks:>14}{share:>12.1} %\n");
    }
    text
}

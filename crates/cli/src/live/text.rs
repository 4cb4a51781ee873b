//! The text that `perforate experiment live` prints.

use perforate_host::live::{Before, Outcome, Outlook};
use perforate_os::{BlockReach, FreeMemory};

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
    let mut text = machine_text(&outcome.before);
    text += &format!(
        "\nAsked for {} MB with MADV_HUGEPAGE, touched {} MB\n\n",
        outcome.asked_bytes >> 20,
        outcome.touched_bytes >> 20
    );
    text += &shares_text(outcome);
    if let Some(outlook) = &outcome.outlook {
        text += &blocks_text(outlook);
    }
    text += "\nP: 2GB on 12GB full of page cache, and again with part of it free (after the |); for \
             comparison\nonly, as that machine's memory had another past.\n";
    let assumptions = outcome.outlook.iter().flat_map(|outlook| &outlook.assumptions);
    let remarks: Vec<&String> = outcome.notes.iter().chain(assumptions).collect();
    if remarks.is_empty() { text } else { text + "\n" + &notes(&remarks, COLUMNS) }
}

fn shares_text(outcome: &Outcome) -> String {
    let mut text =
        format!("{:<58}{:>14}{:>14}\n", "share of the memory touched", "here", "P §III.C");
    let mut line = |label: &str, here: String, paper: &str| {
        text += &format!("{label:<58}{here:>14}{paper:>14}\n");
    };
    let percent = |bytes| format!("{:.1} %", 100.0 * outcome.share(bytes));
    line("in 2MB pages, at once", percent(outcome.at_once.large_bytes), "2.5 | 49 %");
    let waited = format!("in 2MB pages, after {} s (P: over 100 s)", outcome.wait.as_secs());
    line(&waited, percent(outcome.after_wait.large_bytes), "22 %");
    if let Some(after) = outcome.after_collapse {
        line("in 2MB pages, after MADV_COLLAPSE", percent(after.large_bytes), "–");
    }
    let regions = |of: fn(&Outlook) -> u64| {
        let bytes = outcome.outlook.as_ref().map(|outlook| of(outlook) << 21);
        bytes.map_or_else(|| "unknown".into(), percent)
    };
    line(
        "  what is not could be perforated, movable frames moved",
        regions(Outlook::regions_if_moved),
        "18 | 50 %",
    );
    line(
        "  what is not could be perforated, others' frames kept",
        regions(Outlook::regions_at_once),
        "–",
    );
    line(
        "  what is not could be in 2MB pages, movable frames moved",
        regions(Outlook::regions_whole),
        "–",
    );
    text
}

fn machine_text(before: &Before) -> String {
    let mut text = format!("Linux {}\n", before.kernel);
    text += &before.amounts.map_or_else(
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
    text += &before.free.map_or_else(
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
        let value = before.settings.get(name).unwrap_or("unknown");
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
    let count = |reach| outlook.survey.count(reach);
    let mut line = |label: &str, blocks: u64| {
        let share = 100.0 * blocks as f64 / outlook.survey.memory_blocks.max(1) as f64;
        text += &format!("{label:<58}{blocks:>14}{share:>12.1} %\n");
    };
    line("one 2MB page", count(BlockReach::Large));
    line("all free, but for our own 4KB pages", count(BlockReach::Whole));
    line("whole, once what is movable is moved", count(BlockReach::Compactable));
    line(
        "perforated under the policy, once what is movable is moved",
        outlook.perforated_if_moved(),
    );
    line("too fragmented for the policy", outlook.too_fragmented());
    text
}

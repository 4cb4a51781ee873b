//! What `perforate experiment live` prints.

use perforate_os::{BlockReach, FreeMemory};
use perforate_report::text::{Column, columns};

use super::Found;
use super::outlook::Outlook;
use crate::output::{COLUMNS, notes};

/// Settings that are printed; all of them are in the JSON line.
const SETTINGS: [&str; 5] = [
    "enabled",
    "defrag",
    "khugepaged/scan_sleep_millisecs",
    "khugepaged/pages_to_scan",
    "khugepaged/max_ptes_none",
];

impl Found {
    pub(super) fn text(&self) -> String {
        let mut text = self.machine_text();
        text += &format!(
            "\nAsked for {} MB with MADV_HUGEPAGE, touched {} MB\n\n",
            self.asked_bytes >> 20,
            self.touched_bytes >> 20
        );
        text += &self.shares_text();
        if let Some(outlook) = &self.outlook {
            text += &blocks_text(outlook);
        }
        text += "\nP: 2GB on 12GB full of page cache, and again with part of it free (after the |); \
                 for comparison\nonly, as that machine's memory had another past.\n";
        let assumptions = self.outlook.iter().flat_map(|outlook| &outlook.assumptions);
        let said: Vec<String> = self.notes.iter().chain(assumptions).cloned().collect();
        if said.is_empty() { text } else { text + "\n" + &notes(&said, COLUMNS) }
    }

    fn shares_text(&self) -> String {
        let percent = |bytes| format!("{:.1} %", 100.0 * self.share(bytes));
        let regions = |of: fn(&Outlook) -> u64| {
            let bytes = self.outlook.as_ref().map(|outlook| of(outlook) << 21);
            bytes.map_or_else(|| "unknown".into(), percent)
        };
        let waited = format!("in 2MB pages, after {} s (P: over 100 s)", self.wait_seconds);
        let mut rows: Vec<(&str, String, &str)> = vec![
            ("in 2MB pages, at once", percent(self.at_once.large_bytes), "2.5 | 49 %"),
            (&waited, percent(self.after_wait.large_bytes), "22 %"),
        ];
        rows.extend(
            self.after_collapse.map(|after| {
                ("in 2MB pages, after MADV_COLLAPSE", percent(after.large_bytes), "–")
            }),
        );
        rows.extend([
            (
                "  what is not could be perforated, movable frames moved",
                regions(Outlook::regions_if_moved),
                "18 | 50 %",
            ),
            (
                "  what is not could be perforated, others' frames kept",
                regions(Outlook::regions_at_once),
                "–",
            ),
            (
                "  what is not could be in 2MB pages, movable frames moved",
                regions(Outlook::regions_whole),
                "–",
            ),
        ]);
        let names = rows.iter().map(|row| row.0.to_owned()).collect();
        let papers = rows.iter().map(|row| row.2.to_owned()).collect();
        let here = rows.iter().map(|row| row.1.clone()).collect();
        columns(
            &[
                Column::texts("share of the memory touched", names),
                Column::numbers("here", here),
                Column::numbers("P §III.C", papers),
            ],
            COLUMNS,
        )
    }

    fn machine_text(&self) -> String {
        let before = &self.before;
        let megabytes = |bytes: Option<u64>| {
            bytes.map_or_else(|| "unknown".into(), |bytes| format!("{} MB", bytes >> 20))
        };
        let mut text = format!("Linux {}\n", before.kernel);
        text += &format!(
            "memory {}, free {}, available {}\n",
            megabytes(before.amounts.total_bytes),
            megabytes(before.amounts.free_bytes),
            megabytes(before.amounts.available_bytes)
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
}

fn blocks_text(outlook: &Outlook) -> String {
    let count = |reach| outlook.survey.count(reach);
    let rows = [
        ("one 2MB page", count(BlockReach::Large)),
        ("all free, but for our own 4KB pages", count(BlockReach::Whole)),
        ("whole, once what is movable is moved", count(BlockReach::Compactable)),
        (
            "perforated under the policy, once what is movable is moved",
            outlook.perforated_if_moved(),
        ),
        ("too fragmented for the policy", outlook.neither()),
    ];
    let share = |blocks: u64| 100.0 * blocks as f64 / outlook.survey.memory_blocks.max(1) as f64;
    let names = rows.iter().map(|row| row.0.to_owned()).collect();
    let table = columns(
        &[
            Column::texts("2MB blocks of this machine's memory", names),
            Column::numbers("blocks", rows.iter().map(|row| row.1.to_string()).collect()),
            Column::numbers(
                "share",
                rows.iter().map(|row| format!("{:.1} %", share(row.1))).collect(),
            ),
        ],
        COLUMNS,
    );
    format!("\n{table}")
}

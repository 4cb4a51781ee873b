//! Risks of large pages, each with its evidence in this program and on this machine.

use perforate_advice::Analysis;
use perforate_advice::remedy::Surroundings;
use perforate_host::machine::{free_large_bytes, numa_nodes};
use perforate_records::AdviceRisk;
use perforate_report::more_memory;
use perforate_report::text::bytes;

use super::plan::Plan;
use super::runs::MOST;

/// Lifetime of an area, as a share of the instructions, below which it is short.
const SHORT: f64 = 0.1;
/// Additional memory in bytes from which it is a risk.
const LEAST_BLOAT: i64 = 1 << 20;

/// Figures of the recommended run.
pub struct Figures {
    /// Memory beyond that of the program as it is, in bytes.
    pub additional_bytes: i64,
    /// Speed over the program as it is, with the pages of the plan that can be had; 1 if that was not timed.
    pub speed: f64,
    /// Memory in large pages, in bytes.
    pub large_bytes: f64,
    /// Speed over the program as it is, and memory in large pages in bytes, in memory that is not fragmented; `None` if
    /// that was not timed.
    pub unfragmented: Option<(f64, f64)>,
    /// True if the simulated memory is that of this machine now.
    pub is_own_memory: bool,
}

/// Returns the risks of large pages as planned, those with the strongest evidence first.
pub fn risks(
    analysis: &Analysis,
    plan: &Plan,
    facts: &Surroundings,
    figures: &Figures,
) -> Vec<AdviceRisk> {
    let found = [
        copies(analysis, plan),
        contiguity(analysis, plan, facts, figures),
        bloat(facts, figures, plan.large_bytes(analysis) > 0),
        lifetime(analysis, plan),
        nodes(numa_nodes()),
    ];
    found.into_iter().flatten().collect()
}

fn risk(title: &str, evidence: String) -> Option<AdviceRisk> {
    Some(AdviceRisk { title: title.into(), evidence })
}

/// Copies after a fork. Since Linux 5.8, a write to a shared large page splits it, and copies 4KB.
fn copies(analysis: &Analysis, plan: &Plan) -> Option<AdviceRisk> {
    let advised = plan.areas(analysis);
    let copied: u64 = advised.map(|area| analysis.area_uses[area].pages.pages_copied).sum();
    if copied == 0 {
        return None;
    }
    risk(
        "Copies after fork",
        format!(
            "{copied} pages ({}) of this memory are written after a fork while shared. Linux splits a large \
             page at the first such write: the large pages are lost while the child lives",
            bytes(copied as f64 * 4096.0)
        ),
    )
}

fn contiguity(
    analysis: &Analysis,
    plan: &Plan,
    facts: &Surroundings,
    figures: &Figures,
) -> Option<AdviceRisk> {
    let wanted = plan.large_bytes(analysis) as f64;
    let had = figures.large_bytes.min(wanted);
    if wanted <= 0.0 || had >= MOST * wanted {
        return None;
    }
    if figures.unfragmented.is_some_and(|(_, most)| most <= figures.large_bytes) {
        return risk(
            "Not all of it gets large pages",
            format!(
                "of {} advised, at most {} are in large pages at one time. It is not for lack of them: memory that \
                 nothing has fragmented gives no more",
                bytes(wanted),
                bytes(had)
            ),
        );
    }
    let memory = match figures.is_own_memory {
        true => "this machine's memory, as it is now",
        false => "the simulated memory",
    };
    let free =
        free_large_bytes().filter(|_| figures.is_own_memory).map_or_else(String::new, |free| {
            format!(", which has {} free in blocks of 2MB", bytes(free as f64))
        });
    let defrag = match facts.settings.get("defrag").map(String::as_str) {
        Some(value @ ("always" | "madvise" | "defer+madvise")) => {
            format!("; with defrag={value} page faults of advised memory wait for compaction")
        }
        Some(value) => format!("; defrag is {value}: page faults do not wait for compaction"),
        None => String::new(),
    };
    let all = figures.unfragmented.map_or_else(String::new, |(speed, had)| {
        format!(
            ". In memory that nothing has fragmented, {} get them, and the program is {speed:.3}× as fast as it is \
             now{}",
            bytes(had),
            match speed > figures.speed {
                true => ": the bound of what MADV_COLLAPSE, khugepaged or a restart of the machine can bring",
                false => ": more of them bring nothing",
            }
        )
    });
    risk(
        "Not all of it can be had",
        format!(
            "of {} advised, {} get large pages at first touch in {memory}{free}{defrag}{all}",
            bytes(wanted),
            bytes(had)
        ),
    )
}

/// More memory. khugepaged adds to it where 2MB pages are recommended.
fn bloat(facts: &Surroundings, figures: &Figures, has_large: bool) -> Option<AdviceRisk> {
    if figures.additional_bytes < LEAST_BLOAT {
        return None;
    }
    let creep = match facts.settings.get("khugepaged/max_ptes_none").map(String::as_str) {
        Some(limit) if has_large && limit != "0" => {
            format!("; khugepaged (max_ptes_none={limit}) adds to it as time goes on")
        }
        _ => String::new(),
    };
    let more = more_memory(figures.additional_bytes as f64);
    risk("More memory", format!("{more} than now is resident{creep}"))
}

fn lifetime(analysis: &Analysis, plan: &Plan) -> Option<AdviceRisk> {
    let all = analysis.instructions.max(1) as f64;
    let is_short = |&area: &usize| {
        let lifetime = &analysis.areas[area].lifetime;
        lifetime.end.saturating_sub(lifetime.start) as f64 <= SHORT * all
    };
    let advised: Vec<usize> = plan.areas(analysis).collect();
    let short = advised.iter().filter(|area| is_short(area)).count();
    if short == 0 {
        return None;
    }
    risk(
        "Short lifetime",
        format!(
            "{short} of {} advised areas are mapped for less than a tenth of the run: clearing 2MB at a time may \
             cost more than it saves; a larger pool, mapped once, avoids it",
            advised.len()
        ),
    )
}

fn nodes(nodes: usize) -> Option<AdviceRisk> {
    if nodes < 2 {
        return None;
    }
    risk(
        "NUMA",
        format!(
            "this machine has {nodes} nodes: a large page lies on one of them, also where threads of several nodes \
             use its parts. The prediction has one node"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_are_a_risk() {
        assert!(nodes(1).is_none() && nodes(0).is_none());
        assert!(nodes(2).unwrap().evidence.contains("2 nodes"));
    }

    #[test]
    fn more_memory_is_a_risk_and_khugepaged_adds_to_it() {
        let figures = |additional_bytes| Figures {
            additional_bytes,
            large_bytes: 0.0,
            speed: 1.0,
            unfragmented: None,
            is_own_memory: false,
        };
        let facts = Surroundings {
            settings: [("khugepaged/max_ptes_none".to_owned(), "511".to_owned())].into(),
            ..Surroundings::default()
        };
        assert!(bloat(&facts, &figures(LEAST_BLOAT - 1), true).is_none());
        let text = bloat(&facts, &figures(38 << 20), true).unwrap().evidence;
        assert!(
            text.starts_with("38.0 MB more than now is resident")
                && text.contains("max_ptes_none=511"),
            "{text}"
        );
        let text = bloat(&facts, &figures(38 << 20), false).unwrap().evidence;
        assert!(!text.contains("khugepaged"), "{text}");
    }
}

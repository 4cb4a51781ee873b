//! `perforate experiment live`: the question of P §III.C to the machine we run on.

mod outlook;
mod text;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use perforate_capture::native::{
    Advice, Area, Headroom, LargePageSettings, MemoryLimit, bounded, first_to_be_killed,
};
use perforate_capture::proc::{self, MemoryAmounts, Residency};
use perforate_config::{Size, read};
use perforate_os::{FreeMemory, Perforated, PerforationOptions};
use perforate_sim::Progress;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Bar, print};
use outlook::Outlook;

/// Length of a 2MB page.
const LARGE_BYTES: u64 = 2 << 20;
/// Memory touched between two looks at what is left.
const STEP_BYTES: u64 = 64 << 20;
/// Ask this machine for memory in large pages (P §III.C).
#[derive(Args)]
#[command(after_help = "Examples:
  perforate experiment live                        4GB, or half of what is available
  perforate experiment live --size 512M --wait 5s
  perforate experiment live --wait 2m --collapse --json

Asks the kernel for anonymous memory with MADV_HUGEPAGE, touches all of it, and tells how much came
in 2MB pages, at once and after a wait. As root it also tells, from /proc/kpageflags, how much more
could be had as perforated pages. No setting of the system is changed. The memory is this process's
own and goes with it, also after Ctrl-C; when memory is short, this process is killed first.")]
pub struct LiveArguments {
    /// Memory to ask for; never more than half of what is available
    #[arg(long, value_name = "SIZE", default_value = "4G", allow_hyphen_values = true)]
    size: Size,
    /// How long to let khugepaged work before looking again: seconds, or with m minutes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    wait: u64,
    /// After the wait, ask the kernel to make 2MB pages now (MADV_COLLAPSE, Linux 6.1)
    #[arg(long)]
    collapse: bool,
    /// Policy for perforated pages, as elsewhere [default: P §III.C's,
    /// max-hole-share=25%,max-filter-bits=4]
    #[arg(long, value_name = "SPEC", value_parser = read::<PerforationOptions>)]
    perforation: Option<PerforationOptions>,
    /// Print the result as a JSON line and nothing else
    #[arg(long)]
    json: bool,
}

/// Seconds of a time such as `30`, `30s` or `2m`, a day at most.
fn seconds(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds.filter(|n| *n <= 86_400).ok_or_else(|| "expected a time such as 30s or 2m".into())
}

/// What the machine said of itself before.
pub(super) struct Before {
    pub(super) kernel: String,
    pub(super) settings: LargePageSettings,
    pub(super) amounts: MemoryAmounts,
    pub(super) free: Option<FreeMemory>,
}

/// What was found.
pub(super) struct Found {
    pub(super) before: Before,
    /// Memory asked for, and how much of it was touched.
    pub(super) asked_bytes: u64,
    pub(super) touched_bytes: u64,
    pub(super) wait_seconds: u64,
    pub(super) at_once: Residency,
    pub(super) after_wait: Residency,
    pub(super) after_collapse: Option<Residency>,
    /// At the end, where frames may be known.
    pub(super) outlook: Option<Outlook>,
    pub(super) notes: Vec<String>,
}

/// Runs the experiment.
pub fn live(arguments: &LiveArguments) -> Result<(), Failure> {
    let options = arguments.perforation.unwrap_or(PerforationOptions::SELECTIVE);
    let policy = Perforated::new(options).map_err(|error| error.under("perforation"))?;
    let before = Before::now();
    let mut notes = Vec::new();
    let bytes = allowed(arguments.size.bytes(), &mut notes)?;
    if first_to_be_killed().is_err() {
        notes.push("/proc/self/oom_score_adj cannot be written; others may be killed first".into());
    }
    let failed = |source| Failure::Machine { action: "asking for memory", source };
    let mut area = Area::new(bytes, Advice::Large).map_err(failed)?;
    let touched_bytes = touch(&mut area, &before.amounts, &mut notes);
    let look = |area: &Area| area.residency().map_err(failed);
    let at_once = look(&area)?;
    wait(arguments.wait);
    let after_wait = look(&area)?;
    let after_collapse = match arguments.collapse.then(|| area.collapse()) {
        None => None,
        Some(Ok(())) => Some(look(&area)?),
        Some(Err(error)) => {
            notes.push(format!("MADV_COLLAPSE: {error}; it is there since Linux 6.1"));
            None
        }
    };
    let last = after_collapse.unwrap_or(after_wait);
    let regions = (touched_bytes.saturating_sub(last.large_bytes)) / LARGE_BYTES;
    let outlook = match Outlook::now(&area, &policy, regions) {
        Ok(outlook) => Some(outlook),
        Err(problem) => {
            notes.push(format!(
                "how much more could be perforated needs root, who sees which frames are ours and \
                 what the others hold: {problem}"
            ));
            None
        }
    };
    drop(area);
    let found = Found {
        before,
        asked_bytes: bytes,
        touched_bytes,
        wait_seconds: arguments.wait,
        at_once,
        after_wait,
        after_collapse,
        outlook,
        notes,
    };
    if arguments.json {
        return print(&format!("{}\n", found.json()));
    }
    print(&found.text())
}

/// The part of the request that is safe.
fn allowed(wanted: u64, notes: &mut Vec<String>) -> Result<u64, Failure> {
    let Some(headroom) = Headroom::now() else {
        return Err(Failure::Machine {
            action: "/proc/meminfo: reading how much memory is available",
            source: io::ErrorKind::NotFound.into(),
        });
    };
    let what = match headroom.limit {
        MemoryLimit::Available => "the memory available",
        MemoryLimit::ControlGroup => "what the control group's limit leaves",
    };
    let Some(bytes) = bounded(wanted, headroom, LARGE_BYTES) else {
        return Err(Failure::Usage(format!(
            "--size: {wanted} bytes; expected at least one 2MB page, and at most half of {what} ({} \
             bytes)",
            headroom.bytes
        )));
    };
    if bytes < wanted / LARGE_BYTES * LARGE_BYTES {
        notes.push(format!(
            "{} MB were wanted; half of {what} is {} MB, and no more is asked for",
            wanted >> 20,
            bytes >> 20
        ));
    }
    Ok(bytes)
}

/// Touches the area from its start to its end; stops where less than a quarter of the memory that
/// was available at first is left, as somebody else then needs it. Returns how far it came.
fn touch(area: &mut Area, before: &MemoryAmounts, notes: &mut Vec<String>) -> u64 {
    let bar = Bar::of("touching", "MB");
    let total = area.bytes();
    let floor = before.available_bytes.unwrap_or(0) / 4;
    let mut done = 0;
    while done < total {
        if MemoryAmounts::now().available_bytes.is_some_and(|left| left < floor) {
            notes.push(format!(
                "stopped at {} MB: less than a quarter of the memory available at first was left",
                done >> 20
            ));
            break;
        }
        let end = (done + STEP_BYTES).min(total);
        area.touch(done..end);
        done = end;
        bar.show(Progress { done: done >> 20, total: Some(total >> 20) });
    }
    done
}

fn wait(seconds: u64) {
    let bar = Bar::of("waiting for khugepaged", "s");
    let started = Instant::now();
    while started.elapsed().as_secs() < seconds {
        bar.show(Progress { done: started.elapsed().as_secs(), total: Some(seconds) });
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Before {
    fn now() -> Self {
        Self {
            kernel: proc::kernel_release(Path::new("/proc")),
            settings: LargePageSettings::now(),
            amounts: MemoryAmounts::now(),
            free: proc::free_memory_now(),
        }
    }
}

impl Found {
    /// Share of the memory touched, 0–1.
    fn share(&self, bytes: u64) -> f64 {
        if self.touched_bytes == 0 {
            return 0.0;
        }
        bytes as f64 / self.touched_bytes as f64
    }

    fn json(&self) -> Value {
        let amounts = &self.before.amounts;
        let settings: serde_json::Map<String, Value> = self
            .before
            .settings
            .values
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        json!({
            "experiment": "live",
            "source": "P §III.C",
            "kernel": self.before.kernel,
            "transparent_hugepage": settings,
            "memory_bytes": amounts.total_bytes,
            "free_bytes_before": amounts.free_bytes,
            "available_bytes_before": amounts.available_bytes,
            "unusable_index_2m_before": self.before.free.map(|free| {
                f64::from(free.unusable_thousandths(FreeMemory::LARGE_ORDER)) / 1000.0
            }),
            "asked_bytes": self.asked_bytes,
            "touched_bytes": self.touched_bytes,
            "large_share_at_once": self.share(self.at_once.large_bytes),
            "wait_seconds": self.wait_seconds,
            "large_share_after_wait": self.share(self.after_wait.large_bytes),
            "large_share_after_collapse":
                self.after_collapse.map(|after| self.share(after.large_bytes)),
            "swapped_bytes": self.after_wait.swapped_bytes,
            "perforation": self.outlook.as_ref().map(Outlook::json),
            "notes": self.notes,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times() {
        assert_eq!(seconds("30"), Ok(30));
        assert_eq!(seconds("30s"), Ok(30));
        assert_eq!(seconds("2m"), Ok(120));
        for wrong in ["", "s", "-1", "1h", "1.5s", "86401", "99999999999999999999m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

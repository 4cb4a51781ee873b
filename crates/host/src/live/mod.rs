//! Asks the kernel for memory in large pages and reports how much it gave, as P §III.C did.

mod outlook;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use perforate_os::{FreeMemory, Policy};
use perforate_sim::Progress;
use serde::Serialize;

use crate::benchmark::AnonymousMemory;
use crate::machine::{Headroom, LargePageSettings, MemoryAmounts, MemoryLimit, bounded};
use crate::proc::free_memory_now;
use crate::process_settings::be_killed_first;
use crate::{HostError, Reporter, Residency, kernel_release};

pub use outlook::Outlook;

const LARGE_BYTES: u64 = 2 << 20;
/// Memory touched between two checks of the memory that is left.
const STEP_BYTES: u64 = 64 << 20;

/// A request for memory.
pub struct Request<'a> {
    /// Memory to ask for; bounded by half of what is available.
    pub bytes: u64,
    /// How long khugepaged may work before the second look.
    pub wait: Duration,
    /// After that, ask the kernel to make 2MB pages at once (MADV_COLLAPSE).
    pub collapse: bool,
    /// Policy for perforated pages.
    pub policy: &'a dyn Policy,
}

/// The machine before the request.
pub struct Before {
    /// Release of the kernel.
    pub kernel: String,
    /// Settings of large pages.
    pub settings: LargePageSettings,
    /// Amounts of memory, if they can be read.
    pub amounts: Option<MemoryAmounts>,
    /// Free memory by order, if it can be read.
    pub free: Option<FreeMemory>,
}

/// The answer to a request.
pub struct Outcome {
    /// The machine before the request.
    pub before: Before,
    /// Memory asked for.
    pub asked_bytes: u64,
    /// The part of it that was touched.
    pub touched_bytes: u64,
    /// The wait.
    pub wait: Duration,
    /// Residency after touching.
    pub at_once: Residency,
    /// Residency after the wait.
    pub after_wait: Residency,
    /// Residency after MADV_COLLAPSE, if that was wanted.
    pub after_collapse: Option<Residency>,
    /// Possible perforated pages at the end, if frames can be read.
    pub outlook: Option<Outlook>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Makes a request.
///
/// # Errors
/// If it is smaller than a large page, or the kernel refuses.
pub fn ask(request: &Request<'_>, reporter: &mut dyn Reporter) -> Result<Outcome, HostError> {
    let before = Before::now();
    let mut notes = Vec::new();
    let asked_bytes = allowed(request.bytes, &mut notes)?;
    if be_killed_first().is_err() {
        notes.push("/proc/self/oom_score_adj cannot be written; others may be killed first".into());
    }
    let failed = || HostError::system("asking for memory");
    let mut memory = AnonymousMemory::new(asked_bytes, true).map_err(failed())?;
    let touched_bytes = touch(&mut memory, before.amounts, &mut notes, reporter);
    let at_once = memory.residency().map_err(failed())?;
    wait(request.wait, reporter);
    let after_wait = memory.residency().map_err(failed())?;
    let mut after_collapse = None;
    if request.collapse {
        match memory.collapse() {
            Ok(()) => after_collapse = Some(memory.residency().map_err(failed())?),
            Err(error) => {
                notes.push(format!("MADV_COLLAPSE: {error}; it is there since Linux 6.1"))
            }
        }
    }
    let last = after_collapse.unwrap_or(after_wait);
    let small_regions = touched_bytes.saturating_sub(last.large_bytes) / LARGE_BYTES;
    let outlook = Outlook::now(&memory, request.policy, small_regions);
    let outlook = outlook.map_err(|problem| {
        notes.push(format!(
            "how much more could be perforated needs root, who sees which frames are ours and what \
             the others hold: {problem}"
        ));
    });
    Ok(Outcome {
        before,
        asked_bytes,
        touched_bytes,
        wait: request.wait,
        at_once,
        after_wait,
        after_collapse,
        outlook: outlook.ok(),
        notes,
    })
}

/// The part of a request that leaves half of the memory available to others.
fn allowed(wanted: u64, notes: &mut Vec<String>) -> Result<u64, HostError> {
    let Some(headroom) = Headroom::now() else {
        let failed = HostError::system("/proc/meminfo: reading how much memory is available");
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let limit = match headroom.limit {
        MemoryLimit::Available => "the memory available",
        MemoryLimit::ControlGroup => "what the control group's limit leaves",
    };
    let Some(bytes) = bounded(wanted, headroom, LARGE_BYTES) else {
        return Err(HostError::Size(format!(
            "{wanted} bytes; expected at least one 2MB page, and at most half of {limit} ({} bytes)",
            headroom.bytes
        )));
    };
    if bytes < wanted / LARGE_BYTES * LARGE_BYTES {
        notes.push(format!(
            "{} MB were wanted; half of {limit} is {} MB, and no more is asked for",
            wanted >> 20,
            bytes >> 20
        ));
    }
    Ok(bytes)
}

/// Touches the memory from start to end. Stops early if less than a quarter of the memory available
/// at first is left, as other programs need it then. Returns the touched bytes.
fn touch(
    memory: &mut AnonymousMemory,
    before: Option<MemoryAmounts>,
    notes: &mut Vec<String>,
    reporter: &mut dyn Reporter,
) -> u64 {
    reporter.stage("touching", "MB");
    let total = memory.bytes();
    let floor = before.map_or(0, |amounts| amounts.available_bytes / 4);
    let mut done = 0;
    while done < total {
        if MemoryAmounts::now().is_some_and(|left| left.available_bytes < floor) {
            notes.push(format!(
                "stopped at {} MB: less than a quarter of the memory available at first was left",
                done >> 20
            ));
            break;
        }
        let end = (done + STEP_BYTES).min(total);
        memory.touch(done..end);
        done = end;
        reporter.progress(Progress { done: done >> 20, total: Some(total >> 20) });
    }
    done
}

fn wait(length: Duration, reporter: &mut dyn Reporter) {
    reporter.stage("waiting for khugepaged", "s");
    let started = Instant::now();
    while let Some(left) = length.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
        let done = started.elapsed().as_secs();
        reporter.progress(Progress { done, total: Some(length.as_secs()) });
        std::thread::sleep(left.min(Duration::from_millis(200)));
    }
}

impl Before {
    fn now() -> Self {
        Self {
            kernel: kernel_release(Path::new("/proc")),
            settings: LargePageSettings::now(),
            amounts: MemoryAmounts::now(),
            free: free_memory_now(),
        }
    }
}

impl Outcome {
    /// Share of the touched memory, 0–1.
    pub fn share(&self, bytes: u64) -> f64 {
        if self.touched_bytes == 0 { 0.0 } else { bytes as f64 / self.touched_bytes as f64 }
    }

    /// The outcome as a line of JSON.
    pub fn json(&self) -> String {
        let Before { kernel, settings, amounts, free } = &self.before;
        let unusable = |free: FreeMemory| {
            f64::from(free.unusable_thousandths(FreeMemory::LARGE_ORDER)) / 1000.0
        };
        let record = Record {
            experiment: "live",
            source: "P §III.C",
            kernel,
            transparent_hugepage: settings,
            memory_bytes: amounts.map(|amounts| amounts.total_bytes),
            free_bytes_before: amounts.map(|amounts| amounts.free_bytes),
            available_bytes_before: amounts.map(|amounts| amounts.available_bytes),
            unusable_index_2m_before: free.map(unusable),
            asked_bytes: self.asked_bytes,
            touched_bytes: self.touched_bytes,
            large_share_at_once: self.share(self.at_once.large_bytes),
            wait_seconds: self.wait.as_secs(),
            large_share_after_wait: self.share(self.after_wait.large_bytes),
            large_share_after_collapse: self
                .after_collapse
                .map(|after| self.share(after.large_bytes)),
            swapped_bytes: self.after_wait.swapped_bytes,
            perforation: self.outlook.as_ref().map(Outlook::record),
            notes: &self.notes,
            version: env!("CARGO_PKG_VERSION"),
        };
        serde_json::to_string(&record).expect("outcomes are plain data")
    }
}

/// The line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    experiment: &'static str,
    source: &'static str,
    kernel: &'a str,
    transparent_hugepage: &'a LargePageSettings,
    memory_bytes: Option<u64>,
    free_bytes_before: Option<u64>,
    available_bytes_before: Option<u64>,
    unusable_index_2m_before: Option<f64>,
    asked_bytes: u64,
    touched_bytes: u64,
    large_share_at_once: f64,
    wait_seconds: u64,
    large_share_after_wait: f64,
    large_share_after_collapse: Option<f64>,
    swapped_bytes: u64,
    perforation: Option<outlook::Record<'a>>,
    notes: &'a [String],
    version: &'static str,
}

//! Requests memory in 2MB pages and reports how much the kernel gave, as in P §III.C.

mod outlook;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use perforate_config::Size;
use perforate_os::{FreeMemory, Policy};
use perforate_sim::Progress;
use serde::{Serialize, Serializer};

use crate::benchmark::AnonymousMemory;
use crate::machine::{Headroom, LargePageSettings, MemoryAmounts, MemoryLimit, bounded};
use crate::proc::{free_memory_now, kernel_release};
use crate::process_settings::be_killed_first;
use crate::{HostError, Reporter, Residency};

pub use outlook::Outlook;

const LARGE_BYTES: u64 = 2 << 20;
/// Bytes touched between two checks of the available memory.
const STEP_BYTES: u64 = 64 << 20;

/// Parameters of a request for memory.
pub struct Request<'a> {
    /// Bytes to request, at most half of the available memory.
    pub bytes: u64,
    /// Time for khugepaged to work before the second measurement.
    pub wait: Duration,
    /// True to ask the kernel for 2MB pages after the wait (MADV_COLLAPSE).
    pub collapse: bool,
    /// Policy for perforated pages.
    pub policy: &'a dyn Policy,
}

/// Result of a request. Serialized as a line of JSON.
#[derive(Serialize)]
pub struct Outcome {
    experiment: &'static str,
    source: &'static str,
    /// Release of the kernel.
    pub kernel: String,
    /// Settings of transparent huge pages.
    pub transparent_hugepage: LargePageSettings,
    /// Amounts of memory before the request, if they can be read.
    #[serde(flatten)]
    pub amounts: Option<MemoryAmounts>,
    /// Free memory by order before the request, if it can be read.
    #[serde(rename = "unusable_index_2m_before", serialize_with = "unusable_index")]
    pub free: Option<FreeMemory>,
    /// Bytes that were requested.
    pub asked_bytes: u64,
    /// Bytes of the request that were touched.
    pub touched_bytes: u64,
    /// Share of the touched memory in 2MB pages, 0–1, after touching.
    pub large_share_at_once: f64,
    /// Length of the wait in seconds.
    pub wait_seconds: u64,
    /// Share of the touched memory in 2MB pages after the wait, 0–1.
    pub large_share_after_wait: f64,
    /// Share of the touched memory in 2MB pages after MADV_COLLAPSE, 0–1; absent if it was not
    /// requested or failed.
    pub large_share_after_collapse: Option<f64>,
    /// Swapped-out bytes of the request after the wait.
    pub swapped_bytes: u64,
    /// Possible perforated pages at the end, if frames can be read.
    pub perforation: Option<Outlook>,
    /// Notes for the user.
    pub notes: Vec<String>,
    version: &'static str,
}

/// Share of free memory in pieces below 2MB, 0–1 (Linux's unusable index).
fn unusable_index<S: Serializer>(free: &Option<FreeMemory>, to: S) -> Result<S::Ok, S::Error> {
    let index = |free: &FreeMemory| free.unusable_thousandths(FreeMemory::LARGE_ORDER);
    free.as_ref().map(|free| f64::from(index(free)) / 1000.0).serialize(to)
}

/// Requests memory, touches it, and reports the share in 2MB pages.
///
/// # Errors
/// If the request is smaller than a 2MB page, or the kernel refuses.
pub fn ask(request: &Request<'_>, reporter: &mut dyn Reporter) -> Result<Outcome, HostError> {
    let (kernel, transparent_hugepage) =
        (kernel_release(Path::new("/proc")), LargePageSettings::now());
    let (amounts, free) = (MemoryAmounts::now(), free_memory_now());
    let mut notes = Vec::new();
    let asked_bytes = allowed(request.bytes, &mut notes)?;
    if be_killed_first().is_err() {
        notes.push("/proc/self/oom_score_adj cannot be written; others may be killed first".into());
    }
    let failed = || HostError::system("asking for memory");
    let mut memory = AnonymousMemory::new(asked_bytes, true).map_err(failed())?;
    let touched_bytes = touch(&mut memory, amounts, &mut notes, reporter);
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
    let outlook = Outlook::now(&memory, request.policy, small_regions).map_err(|problem| {
        notes.push(format!(
            "how much more could be perforated needs root, who sees which frames are ours and what \
             the others hold: {problem}"
        ));
    });
    let share = |residency: Residency| residency.large_bytes as f64 / touched_bytes.max(1) as f64;
    Ok(Outcome {
        experiment: "live",
        source: "P §III.C",
        kernel,
        transparent_hugepage,
        amounts,
        free,
        asked_bytes,
        touched_bytes,
        large_share_at_once: share(at_once),
        wait_seconds: request.wait.as_secs(),
        large_share_after_wait: share(after_wait),
        large_share_after_collapse: after_collapse.map(share),
        swapped_bytes: after_wait.swapped_bytes,
        perforation: outlook.ok(),
        notes,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Reduces a request so that half of the available memory is left for other programs.
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
            "expected at least one 2MB page and at most half of {limit} ({} MB), not {}",
            headroom.bytes >> 20,
            Size(wanted)
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

/// Touches the memory from start to end. Stops early if less than a quarter of the initially available
/// memory is left, because other programs need it. Returns the number of touched bytes.
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

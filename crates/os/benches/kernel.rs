//! Duration of the kernel's work in seconds, one JSON line for each case: `cargo bench -p
//! perforate-os --bench kernel`.
//!
//! - *populate*: 2GB in 4KB pages at once; *faults*: first touches of the same pages in scattered
//!   order.
//! - *segment*: a segment of 100GB in free memory; *compaction*: a segment of a quarter of the
//!   longest run that compaction can make in an aged memory of 16GB.

use std::time::Instant;

use perforate_os::{AgeingPreset, BasePages, Kernel, KernelConfig};
use perforate_schemes::segment::DirectSegments;
use perforate_types::{AccessKind, Backing, Permissions, ProgramEvent, SpaceId, VirtualAddress};

const GB: u64 = 1 << 30;
const SPACE: SpaceId = SpaceId(0);
const BASE: u64 = 1 << 40;
const PAGES: u64 = 2 * GB / 4096;

fn main() {
    populate();
    faults();
    segment();
    compaction();
}

fn populate() {
    let mut kernel = boot(KernelConfig::new(8 * GB));
    let seconds = timed(|| map(&mut kernel, 2 * GB, true));
    say("populate", seconds, serde_json::json!({"pages": PAGES}));
}

fn faults() {
    let mut kernel = boot(KernelConfig::new(8 * GB));
    map(&mut kernel, 2 * GB, false);
    let seconds = timed(|| {
        for number in 0..PAGES {
            kernel.updates().clear();
            // A permutation of the pages.
            let address = VirtualAddress::new(BASE + (number * 300_007 % PAGES) * 4096);
            let touched = kernel.fault(SPACE, address.page(), AccessKind::Write);
            touched.expect("there is room");
        }
    });
    say("faults", seconds, serde_json::json!({"pages": PAGES}));
}

fn segment() {
    let mut kernel = boot(KernelConfig::new(128 * GB));
    map(&mut kernel, 100 * GB, false);
    let seconds = timed(|| {
        kernel.create_segment(SPACE, None).expect("free memory");
    });
    say("segment", seconds, serde_json::json!({"bytes": 100 * GB}));
}

fn compaction() {
    let ageing = Some(AgeingPreset::KernelBuild.into());
    let mut kernel = boot(KernelConfig { age: ageing, ..KernelConfig::new(16 * GB) });
    let longest = [false, true].map(|compacts| kernel.longest_run_bytes(compacts));
    let bytes = (longest[1] / 4) & !4095;
    map(&mut kernel, bytes, false);
    let mut is_made = false;
    let seconds = timed(|| is_made = kernel.create_segment(SPACE, None).is_ok());
    let more = serde_json::json!({
        "bytes": bytes, "is_made": is_made, "frames_migrated": kernel.work().frames_migrated,
        "longest_free_run_bytes": longest[0], "longest_compacted_run_bytes": longest[1],
    });
    say("compaction", seconds, more);
}

fn boot(config: KernelConfig) -> Kernel {
    Kernel::new(config, Box::new(BasePages)).expect("it boots")
}

/// Maps anonymous memory at [`BASE`].
fn map(kernel: &mut Kernel, length: u64, populate: bool) {
    let map = ProgramEvent::Map {
        start: VirtualAddress::new(BASE),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate,
    };
    kernel.event(&map).expect("there is room");
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn say(case: &str, seconds: f64, more: serde_json::Value) {
    println!(
        "{}",
        serde_json::json!({"bench": "kernel", "case": case, "seconds": seconds, "work": more})
    );
}

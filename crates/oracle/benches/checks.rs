//! Measures the oracle's checks per second, at random pages of 2GB mapped with 4KB pages. Prints
//! one JSON line: `cargo bench -p perforate-oracle`.

use std::time::Instant;

use perforate_oracle::Oracle;
use perforate_types::{
    AccessKind, Frame, PageRun, Permissions, PhysicalAddress, SpaceId, Truth, VirtualAddress,
    VirtualPage,
};

const SPACE: SpaceId = SpaceId(0);
const PAGES: u64 = 524_288;
const CHECKS: u32 = 5_000_000;

fn main() {
    let mut oracle = Oracle::new();
    for number in 0..PAGES {
        // Frames are not consecutive, so every page has its own extent.
        let run = PageRun::new(SPACE, VirtualPage::new(number), 1);
        let (frame, permissions) = (Frame::new(number ^ 1), Permissions::READ_WRITE);
        oracle.apply(&Truth::Map { run, frame, permissions }).expect("the pages are free");
    }
    let mut random = 1_u64;
    let start = Instant::now();
    for _ in 0..CHECKS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let address = (random >> 33) % (PAGES * 4096);
        let got = Some(PhysicalAddress::new(address ^ 0x1000));
        let checked = oracle.check(SPACE, VirtualAddress::new(address), AccessKind::Read, got);
        checked.expect("the frame is the page's");
    }
    let rate = f64::from(CHECKS) / start.elapsed().as_secs_f64();
    println!("{{\"bench\":\"oracle\",\"pages\":{PAGES},\"checks_per_second\":{rate:.0}}}");
}

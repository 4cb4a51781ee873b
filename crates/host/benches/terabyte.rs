//! Benchmark: time to read, store and place a snapshot of 1TB of memory. Prints lines of JSON.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use perforate_host::snapshot::{HostFiles, read_host};
use perforate_os::{HostSnapshot, Kernel, KernelConfig, Thp};

const FREE: u64 = 1 << 10;
const CACHE: u64 = 1 << 3 | 1 << 5;
const PROGRAM: u64 = 1 << 5 | 1 << 12 | 1 << 14;
const SLAB: u64 = 1 << 7;
const PAGE_TABLE: u64 = 1 << 26;

/// Page flags of 1TB of memory, generated while they are read. The pattern differs from block to block.
struct Terabyte {
    frame: u64,
}

impl Terabyte {
    const FRAMES: u64 = 1 << 28;

    /// Flags of a frame: runs of 8 to 71 frames in one state; the length of the runs depends on the
    /// block.
    fn flags(frame: u64) -> u64 {
        let (block, index) = (frame / 512, frame % 512);
        let run = index / (8 + block.wrapping_mul(0x9e37_79b9) % 64);
        let flags = [FREE, PROGRAM, CACHE, SLAB, FREE, CACHE, PROGRAM, PAGE_TABLE];
        flags[((run ^ block) % 8) as usize]
    }
}

impl Read for Terabyte {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (buffer.len() as u64 / 8).min(Self::FRAMES - self.frame);
        for entry in buffer.as_chunks_mut::<8>().0.iter_mut().take(count as usize) {
            *entry = Self::flags(self.frame).to_le_bytes();
            self.frame += 1;
        }
        Ok(8 * count as usize)
    }
}

fn timed<T>(stage: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!("{{\"benchmark\":\"terabyte/{stage}\",\"seconds\":{seconds:.2}}}");
    result
}

fn main() {
    let files = HostFiles {
        flags: Some(Box::new(Terabyte { frame: 0 })),
        counts: Some(Box::new(Terabyte { frame: 0 })),
        ..HostFiles::default()
    };
    let snapshot = timed("read", || read_host(files, &mut |_, _| {}).expect("the flags are sound"));
    let mut file = Vec::new();
    timed("write", || snapshot.write_to(&mut file).expect("memory can be written"));
    println!("{{\"benchmark\":\"terabyte/file\",\"bytes\":{}}}", file.len());
    let again = timed("read-file", || HostSnapshot::read_from(&mut file.as_slice()));
    let snapshot = Arc::new(again.expect("the file was just written"));
    let config = KernelConfig { snapshot: Some(snapshot), ..KernelConfig::default() };
    let policy = Box::new(Thp::new("thp"));
    timed("place", || Kernel::new(config, policy).expect("the memory can be simulated"));
}

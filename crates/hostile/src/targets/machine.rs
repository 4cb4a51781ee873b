//! What the recorder gets from the emulator, and what the machine says of itself.

use perforate_capture::{hostile, native};

use super::{Target, each_line, target, told, with_file};

/// A process may have many images before the one that a record names.
const REPLAY_BYTES: usize = 64 << 20;

pub const TARGETS: &[Target] = &[
    target("recorder-replay", hostile::replay).with_memory(REPLAY_BYTES),
    target("recorder-maps", hostile::process_maps),
    target("recorder-program", |bytes| with_file(bytes, hostile::program_file)),
    target("recorder-region", |bytes| {
        each_line(bytes, |line| {
            if let Some(region) = told(line.parse::<perforate_capture::Region>()) {
                drop(region.to_string());
            }
        });
    }),
    target("native-smaps", |bytes| {
        for addresses in [0..u64::MAX, 0x7f00_0000_0000..0x7f00_0040_0000, 5..5] {
            native::parse_smaps(bytes, addresses);
        }
    }),
    target("native-meminfo", |bytes| {
        native::parse_meminfo(bytes);
    }),
    target("native-buddyinfo", |bytes| {
        native::parse_buddyinfo(bytes);
    }),
    target("native-cpuinfo", |bytes| drop(native::parse_cpuinfo(bytes))),
    target("native-cgroup", |bytes| drop(native::parse_cgroups(bytes))),
    target("native-status", hostile::allowed_processors),
    target("native-setting", |bytes| drop(native::chosen(bytes))),
    target("native-worker", |bytes| {
        each_line(bytes, |line| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            told(native::Job::parse(&words));
            hostile::worker_answer(line);
        });
    }),
    target("native-kpageflags", |mut bytes| {
        let ours = bytes.as_chunks::<8>().0.iter().map(|frame| u64::from_le_bytes(*frame));
        let ours = ours.take(16).collect();
        let memory = native::read_blocks(&mut bytes, ours).expect("memory can be read");
        for block in &memory.blocks {
            assert!(block.movable_frames() <= 512);
        }
    }),
    target("native-cpuid", |bytes| {
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let numbers: Vec<u32> = numbers.collect();
        let leaves = numbers.as_chunks::<4>().0;
        native::intel_tlbs(leaves);
        if let [first, second, huge, ..] = leaves {
            native::amd_tlbs(*first, *second, *huge);
        }
    }),
];

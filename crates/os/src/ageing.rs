//! Ageing: simulates the use of memory by other programs, the page cache and the kernel before the
//! simulated program starts. The fragmentation of memory results from this use, not from a random
//! draw.
//!
//! The workload resembles a build (P §III.C compiles the Linux kernel). Several compilers run at a
//! time, grow and exit. The files that they read and write stay in the page cache until memory is
//! short. Slab and kernel data are allocated in small pieces and live long. Equal seeds and memory
//! sizes give equal workloads. All numbers here are choices of this model, made once; none is
//! fitted to a result.

mod options;

use perforate_config::Share;
use perforate_types::Random;

use crate::memory::{FRAME_BYTES, OtherUse, PhysicalMemory};
use crate::{FreeMemory, OsError};
pub use options::{Ageing, AgeingPreset};

/// Number of the random-number stream that memory ageing uses.
const AGEING: u64 = 3;
/// Number of steps of the background workload between two checks of the option `target_unusable`, at which
/// ageing ends early.
const LOOK_EVERY: u64 = 4096;
/// Largest number of frames that a program of the background workload allocates at a time.
const GROWTH_FRAMES: u64 = 64;
/// Largest number of frames of a cached file; most files are much smaller.
const FILE_FRAMES: u64 = 256;

/// Parameters of the background workload that ages memory.
struct Usage {
    /// Number of frames allocated over the whole uptime, as a multiple of the frames of memory.
    churn: f64,
    /// Share of memory that kernel data may take.
    kernel_share: f64,
    /// Share of memory that slabs may take.
    slab_share: f64,
    /// Number of programs of the background workload that run at one time.
    programs: u64,
    /// Size of the largest program of the background workload, as a share of memory.
    program_share: f64,
}

impl AgeingPreset {
    const fn usage(self) -> Usage {
        match self {
            Self::DesktopDay => Usage {
                churn: 1.2,
                kernel_share: 0.01,
                slab_share: 0.02,
                programs: 4,
                program_share: 0.02,
            },
            Self::KernelBuild => Usage {
                churn: 4.0,
                kernel_share: 0.03,
                slab_share: 0.06,
                programs: 8,
                program_share: 0.01,
            },
            Self::Weeks => Usage {
                churn: 10.0,
                kernel_share: 0.05,
                slab_share: 0.12,
                programs: 8,
                program_share: 0.02,
            },
        }
    }
}

/// Parameters of the background workload that the option names as a preset. The option `slab_share`, if
/// given, replaces the preset's share.
fn usage(ageing: &Ageing) -> Usage {
    let preset = ageing.preset.usage();
    let slab_share = ageing.slab_share.map_or(preset.slab_share, Share::value);
    Usage { slab_share, ..preset }
}

/// Simulated program of the background workload that ages memory.
struct Program {
    /// Allocations of the program that it frees when it exits, by number ([`PhysicalMemory::add_other`]).
    pieces: Vec<u64>,
    frames: u64,
    /// Number of frames held at which the program stops growing and exits.
    full_frames: u64,
}

/// State of the background workload.
struct Uptime<'a> {
    memory: &'a mut PhysicalMemory,
    usage: Usage,
    /// Share of the cached file pages that are pinned and cannot be moved.
    pinned_share: f64,
    frames: u64,
    random: Random,
    programs: Vec<Program>,
    allocated_frames: u64,
    operations: u64,
}

/// Share of free memory that cannot serve 2MB allocations.
fn unusable(memory: &PhysicalMemory) -> f64 {
    let free = FreeMemory::of(memory.zones());
    f64::from(free.unusable_thousandths(FreeMemory::LARGE_ORDER)) / 1000.0
}

/// Amount of work that ageing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgeingOutcome {
    /// Number of frames that ageing allocated in total.
    pub allocated_frames: u64,
    /// Amount of work done, in units of one allocated block of frames or one freed frame.
    pub operations: u64,
}

/// Ages the memory by running the background workload of the preset.
///
/// # Errors
/// If the memory is too small for the programs of the preset.
pub(crate) fn age(
    memory: &mut PhysicalMemory,
    ageing: &Ageing,
    seed: u64,
) -> Result<AgeingOutcome, OsError> {
    let frames = memory.memory_bytes() / FRAME_BYTES;
    let random = Random::keyed(seed, AGEING, 0);
    let mut uptime = Uptime {
        memory,
        usage: usage(ageing),
        pinned_share: ageing.pinned_share.value(),
        frames,
        random,
        programs: Vec::new(),
        allocated_frames: 0,
        operations: 0,
    };
    uptime.run(ageing.target_unusable.map(Share::value))?;
    let outcome =
        AgeingOutcome { allocated_frames: uptime.allocated_frames, operations: uptime.operations };
    uptime.end();
    if let Some(share) = ageing.free_share {
        memory.drop_page_cache((share.value() * frames as f64) as u64);
    }
    Ok(outcome)
}

impl Uptime<'_> {
    fn run(&mut self, target: Option<f64>) -> Result<(), OsError> {
        let churn_frames = (self.usage.churn * self.frames as f64) as u64;
        let mut steps = 0;
        while self.allocated_frames < churn_frames {
            self.step()?;
            steps += 1;
            if let Some(target) = target
                && steps % LOOK_EVERY == 0
                && self.allocated_frames >= self.frames
                && unusable(self.memory) >= target
            {
                break;
            }
        }
        Ok(())
    }

    /// Ends all programs of the background workload. The files that they read and wrote stay cached.
    fn end(&mut self) {
        for program in std::mem::take(&mut self.programs) {
            self.exit(program);
        }
    }

    /// Performs one operation of the background workload, chosen at random with the frequencies of a build:
    /// grows a program, caches a file, or allocates slab or kernel data.
    fn step(&mut self) -> Result<(), OsError> {
        match self.random.below(16) {
            0..=6 => self.grow_program(),
            7..=11 => self.cache_file(),
            12..=14 => self.long_lived(OtherUse::Slab, self.usage.slab_share),
            _ => self.long_lived(OtherUse::Kernel, self.usage.kernel_share),
        }
    }

    fn add(&mut self, usage: OtherUse, pieces: u64, order: u32) -> Result<u64, OsError> {
        self.operations += pieces;
        self.allocated_frames += pieces << order;
        self.memory.add_other(usage, pieces, order)
    }

    fn remove(&mut self, number: u64) {
        self.operations += self.memory.remove_other(number);
    }

    fn grow_program(&mut self) -> Result<(), OsError> {
        if (self.programs.len() as u64) < self.usage.programs {
            let most = (self.usage.program_share * self.frames as f64) as u64;
            let full_frames = most / 4 + self.random.below(most.max(4) * 3 / 4);
            self.programs.push(Program { pieces: Vec::new(), frames: 0, full_frames });
        }
        let place = self.random.below(self.programs.len() as u64) as usize;
        let frames = 1 + self.random.below(GROWTH_FRAMES);
        let piece = self.add(OtherUse::Anonymous, frames, 0)?;
        let program = &mut self.programs[place];
        program.pieces.push(piece);
        program.frames += frames;
        if program.frames >= program.full_frames {
            let program = self.programs.swap_remove(place);
            self.exit(program);
        }
        Ok(())
    }

    fn exit(&mut self, program: Program) {
        program.pieces.into_iter().for_each(|piece| self.remove(piece));
    }

    /// Allocates page cache for a file of log-uniform size. A quarter of the calls then free the page
    /// cache of another random file.
    fn cache_file(&mut self) -> Result<(), OsError> {
        let largest = 1 + self.random.below(FILE_FRAMES.ilog2().into());
        let frames = 1 + self.random.below(1 << largest);
        let is_pinned = self.pinned_share > 0.0
            && self.random.below(1_000_000) < (self.pinned_share * 1e6) as u64;
        if is_pinned {
            self.add(OtherUse::Pinned, frames, 0)?;
            self.unpin();
        } else {
            self.add(OtherUse::PageCache, frames, 0)?;
        }
        if self.random.below(4) == 0 {
            self.remove_any(OtherUse::PageCache);
        }
        Ok(())
    }

    /// Unpins cached files until at most `pinned_share` of all cached frames is pinned. This is necessary
    /// because memory pressure frees only unpinned files.
    fn unpin(&mut self) {
        let frames = |memory: &PhysicalMemory, usage| memory.other_frames(usage) as f64;
        loop {
            let pinned = frames(self.memory, OtherUse::Pinned);
            let cached = pinned + frames(self.memory, OtherUse::PageCache);
            if pinned <= self.pinned_share * cached {
                return;
            }
            self.remove_any(OtherUse::Pinned);
        }
    }

    /// Allocates one block (order 0 to 3) of slab or kernel data. Frees random blocks of `usage` while they
    /// exceed `share` of memory.
    fn long_lived(&mut self, usage: OtherUse, share: f64) -> Result<(), OsError> {
        let order = self.random.below(4) as u32;
        self.add(usage, 1, order)?;
        while self.memory.other_frames(usage) as f64 > share * self.frames as f64 {
            self.remove_any(usage);
        }
        Ok(())
    }

    /// Frees a random allocation for `usage`, regardless of its age.
    fn remove_any(&mut self, usage: OtherUse) {
        let number = self.random.below(self.memory.next_other().max(1));
        if let Some(found) = self.memory.other_from(usage, number) {
            self.remove(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneLayout;
    use perforate_types::Frame;

    fn aged(text: &str, seed: u64) -> (PhysicalMemory, AgeingOutcome) {
        let mut memory = PhysicalMemory::new(256 << 20, ZoneLayout::Single).unwrap();
        let outcome = age(&mut memory, &perforate_config::read(text).unwrap(), seed).unwrap();
        (memory, outcome)
    }

    #[test]
    fn a_build_depletes_and_fragments_memory_and_no_frame_is_lost() {
        for preset in AgeingPreset::ALL {
            let (memory, outcome) = aged(&preset.to_string(), 1);
            let others: u64 =
                OtherUse::ALL.into_iter().map(|usage| memory.other_frames(usage)).sum();
            assert_eq!(memory.zones().free_frames() + others, 65_536, "{preset}");
            assert_eq!(memory.other_frames(OtherUse::Anonymous), 0, "programs have ended");
            assert!(outcome.allocated_frames as f64 >= preset.usage().churn * 65_536.0);
        }
        let [day, build, weeks] =
            ["desktop-day", "kernel-build", "weeks"].map(|preset| unusable(&aged(preset, 1).0));
        assert!(day < 0.5 && build > 0.5 && weeks >= build, "{day} {build} {weeks}");
        let (build, _) = aged("kernel-build", 1);
        assert!(build.pressure().page_cache_frames > 10_000, "{:?}", build.pressure());
    }

    #[test]
    fn pinned_files_are_a_share_of_the_page_cache_in_many_blocks() {
        // Number of 2MB blocks, of 128, in which a few frames cannot be moved.
        let spoilt = |memory: &PhysicalMemory| {
            let fixed = |block: u64| memory.contents(Frame::new(block << 9)).fixed.count();
            (0..128).filter(|&block| (1..128).contains(&fixed(block))).count()
        };
        let (pinned, _) = aged("kernel-build,pinned=10%", 1);
        let frames = |usage| pinned.other_frames(usage) as f64;
        let all = frames(OtherUse::Pinned) + frames(OtherUse::PageCache);
        let share = frames(OtherUse::Pinned) / all;
        assert!((0.05..=0.11).contains(&share), "{share}");
        let (clean, _) = aged("kernel-build", 1);
        assert!(spoilt(&pinned) > spoilt(&clean) + 30, "{} {}", spoilt(&pinned), spoilt(&clean));
        let (slabs, _) = aged("kernel-build,slab=15%", 1);
        let grown = slabs.other_frames(OtherUse::Slab) as f64 / 65_536.0;
        assert!((0.10..=0.15).contains(&grown), "{grown}");
    }

    #[test]
    fn the_same_seed_ages_alike() {
        let orders = |memory: &PhysicalMemory| -> Vec<u64> {
            (0..=10).map(|order| memory.zones().free_blocks(order)).collect()
        };
        let [first, again, other] = [1, 1, 2].map(|seed| orders(&aged("kernel-build", seed).0));
        assert_eq!(first, again);
        assert_ne!(first, other);
    }

    /// Work and free blocks by order after ageing 64MB, kept from an earlier run.
    #[test]
    fn ageing_does_the_same_work_as_ever() {
        let aged = |text: &str, seed| {
            let mut memory = PhysicalMemory::new(64 << 20, ZoneLayout::Single).unwrap();
            let ageing = perforate_config::read(text).unwrap();
            let outcome = age(&mut memory, &ageing, seed).unwrap();
            let blocks = std::array::from_fn(|order| memory.zones().free_blocks(order as u32));
            (outcome.allocated_frames, outcome.operations, blocks)
        };
        let found = [
            aged("kernel-build", 1),
            aged("kernel-build,pinned=10%", 1),
            aged("desktop-day,slab=15%,free=40%", 2),
            aged("weeks,unusable=10%,free=30%", 3),
        ];
        let expected = [
            (65_600, 107_594, [37, 58, 34, 14, 5, 4, 1, 0, 0, 0, 0]),
            (65_657, 107_897, [38, 30, 19, 17, 2, 4, 3, 0, 0, 0, 0]),
            (19_667, 32_041, [38, 21, 20, 17, 12, 4, 3, 2, 3, 2, 7]),
            (104_951, 170_843, [394, 369, 299, 184, 60, 6, 0, 0, 0, 0, 0]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn ageing_stops_at_its_target_and_leaves_what_is_asked_free() {
        let (_, whole) = aged("weeks", 3);
        let (memory, stopped) = aged("weeks,unusable=10%,free=30%", 3);
        assert!(stopped.allocated_frames < whole.allocated_frames);
        let free = memory.zones().free_frames();
        assert!((19_660..=20_000 + FILE_FRAMES).contains(&free), "{free}");
    }
}

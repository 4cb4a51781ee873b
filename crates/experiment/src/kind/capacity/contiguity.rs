//! Share of memory blocks without a retired frame (G §2.3, Fig. 3).

use perforate_config::{Share, Size};
use perforate_types::Random;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Bernoulli, Estimate, SAMPLES, Samples, Sampling, figures};
use crate::kind::{Measurement, Settings, Study};

/// Share of memory blocks without a retired frame. Subjects are sizes of blocks, 4K to 2M.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Contiguity {
    /// Share of retired frames.
    retired: Share,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for Contiguity {
    fn default() -> Self {
        Self { retired: Share::NONE, samples: SAMPLES }
    }
}

impl Study for Contiguity {
    const NAME: &'static str = "contiguity";
    type Settings = Self;

    fn read(settings: &Settings) -> Result<Self, String> {
        settings.read()
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        Block::parse(subject).map(|_| ())
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let (block, retired) = (Block::parse(subject)?, self.retired.value());
        let drawn =
            block.estimate(retired, Sampling::for_point(self.samples, seed, subject, retired));
        Ok(figures(Some(block.closed_form(retired)), drawn))
    }
}

/// An aligned block of `frames` 4KB frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    frames: u32,
}

impl Block {
    /// Block of physical memory that a 2MB page needs: 512 frames.
    pub const LARGE_PAGE: Self = Self { frames: 512 };

    fn parse(subject: &str) -> Result<Self, String> {
        let wrong = |problem: String| format!("block {subject:?}: {problem}");
        let bytes = subject.parse::<Size>().map_err(|error| wrong(error.to_string()))?.bytes();
        match bytes / 4096 {
            frames @ 1..=512 if bytes.is_power_of_two() => Ok(Self { frames: frames as u32 }),
            _ => Err(wrong("a block is a power of two from 4K to 2M".into())),
        }
    }

    /// Returns the probability that no frame of the block is retired, if each is with probability `retired`.
    pub fn closed_form(self, retired: f64) -> f64 {
        (1.0 - retired).powi(self.frames as i32)
    }

    /// Estimates the probability that no frame of the block is retired from random blocks.
    pub fn estimate(self, retired: f64, sampling: Sampling) -> Estimate {
        let frames = Bernoulli::new(retired);
        if self.frames >= 64 {
            let words = self.frames / 64;
            let whole =
                |random: &mut Random| u64::from((0..words).all(|_| frames.word(random) == 0));
            return sampling.average(sampling.samples, 1, || whole);
        }
        // A random word contains several independent blocks, but counts as one draw.
        let blocks = 64 / self.frames;
        let mask = u64::MAX >> (64 - self.frames);
        let whole = |random: &mut Random| {
            let retired = frames.word(random);
            let is_whole = |block: &u32| retired >> (block * self.frames) & mask == 0;
            (0..blocks).filter(is_whole).count() as u64
        };
        sampling.average(sampling.samples.div_ceil(blocks.into()), blocks.into(), || whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLING: Sampling = Sampling { samples: 200_000, seed: 3 };

    #[test]
    fn blocks_of_powers_of_two() {
        assert!(Block::parse("0K").is_err() && Block::parse("192K").is_err());
        assert!(Block::parse("4M").is_err() && Block::parse("2K").is_err());
        assert_eq!(Block { frames: 1 }.closed_form(0.25), 0.75);
        assert_eq!(Block { frames: 2 }.closed_form(0.25), 0.5625);
    }

    /// Estimates from random frames agree with the closed form.
    #[test]
    fn drawn_frames_agree_with_the_power() {
        for frames in [1, 8, 16, 32, 64, 512] {
            let block = Block { frames };
            for retired in [0.0, 0.002, 0.016, 0.061, 0.3, 1.0] {
                let drawn = block.estimate(retired, SAMPLING.of(frames.into(), retired));
                assert!(drawn.agrees_with(block.closed_form(retired)), "{frames} {retired}");
            }
        }
    }

    /// G-C2: the printed shares of retired frames at which 60 % of the blocks are contiguous, and the share
    /// for 2MB blocks.
    #[test]
    fn figure_3() {
        for (frames, threshold) in [(32, 0.016), (16, 0.031), (8, 0.061)] {
            let block = Block { frames };
            let exact = 1.0 - 0.6_f64.powf(1.0 / frames as f64);
            assert!((exact - threshold).abs() < 0.001, "{frames}: {exact}");
            assert!((block.closed_form(exact) - 0.6).abs() < 1e-12);
        }
        assert!(Block::LARGE_PAGE.closed_form(0.005) < 0.08);
    }
}

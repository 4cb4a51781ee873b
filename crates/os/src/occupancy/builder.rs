//! Builds an occupancy frame by frame, with bounded memory.

use super::{BLOCK_FRAMES, FrameState, Occupancy, Packed, Run, States};
use crate::OsError;

/// Number of 2MB blocks of the largest memory that can be simulated: 46 address bits.
const MOST_BLOCKS: u64 = 1 << (46 - 21);

/// Builder of an [`Occupancy`]: collects the states of frames from address 0 upwards.
#[derive(Debug)]
pub struct OccupancyBuilder {
    occupancy: Occupancy,
    open: Packed,
    /// Number of frames appended to the incomplete last 2MB block.
    filled: u64,
    /// Common state of the frames of the incomplete last 2MB block; `None` once they differ.
    uniform: Option<FrameState>,
}

impl Default for OccupancyBuilder {
    fn default() -> Self {
        Self {
            occupancy: Occupancy::default(),
            open: [0; BLOCK_FRAMES as usize / 2],
            filled: 0,
            uniform: None,
        }
    }
}

impl OccupancyBuilder {
    /// Number of frames appended so far, in all blocks.
    pub fn frames(&self) -> u64 {
        self.occupancy.blocks * BLOCK_FRAMES + self.filled
    }

    /// Appends one frame with this state.
    ///
    /// # Errors
    /// If the occupancy would exceed 64TB of addresses.
    #[inline]
    pub fn push(&mut self, state: FrameState) -> Result<(), OsError> {
        let index = self.filled as usize;
        if index == 0 {
            self.uniform = Some(state);
        } else if self.uniform != Some(state) {
            self.uniform = None;
        }
        let byte = &mut self.open[index / 2];
        *byte = if index.is_multiple_of(2) { state as u8 } else { *byte | (state as u8) << 4 };
        self.filled += 1;
        if self.filled == BLOCK_FRAMES { self.close() } else { Ok(()) }
    }

    /// Appends `frames` frames of the same state.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_run(&mut self, state: FrameState, frames: u64) -> Result<(), OsError> {
        let mut left = frames;
        while left > 0 && self.filled > 0 {
            self.push(state)?;
            left -= 1;
        }
        self.add(States::Uniform(state), left / BLOCK_FRAMES)?;
        (0..left % BLOCK_FRAMES).try_for_each(|_| self.push(state))
    }

    fn close(&mut self) -> Result<(), OsError> {
        self.filled = 0;
        match self.uniform {
            Some(state) => self.add(States::Uniform(state), 1),
            None => {
                let packed = self.open;
                self.push_mixed(&packed, 1)
            }
        }
    }

    /// Appends `blocks` 2MB blocks whose frames have the states `packed`, which may all be equal.
    pub(super) fn push_states(&mut self, packed: &Packed, blocks: u64) -> Result<(), OsError> {
        let first = packed[0];
        match FrameState::of_number(first & 15) {
            Some(state) if first >> 4 == first & 15 && packed.iter().all(|&byte| byte == first) => {
                self.add(States::Uniform(state), blocks)
            }
            _ => self.push_mixed(packed, blocks),
        }
    }

    /// Appends `blocks` 2MB blocks whose frames have the states `packed`, which are not all equal.
    pub(super) fn push_mixed(&mut self, packed: &Packed, blocks: u64) -> Result<(), OsError> {
        let last = self.occupancy.runs.last().map(|run| run.states);
        let states = match last {
            Some(known @ States::Mixed(place))
                if self.occupancy.mixed[place as usize] == *packed =>
            {
                known
            }
            _ => {
                // Indices are less than the number of blocks, which has 25 bits.
                self.occupancy.mixed.push(*packed);
                States::Mixed(self.occupancy.mixed.len() as u32 - 1)
            }
        };
        self.add(states, blocks)
    }

    /// Appends `blocks` whole 2MB blocks. The block before them must be complete.
    pub(super) fn add(&mut self, states: States, blocks: u64) -> Result<(), OsError> {
        let first = self.occupancy.blocks;
        if blocks > MOST_BLOCKS - first {
            return Err(OsError::InvalidSnapshot {
                place: format!("block {first}"),
                problem: "more than 64 TB of addresses".into(),
            });
        }
        if blocks == 0 {
            return Ok(());
        }
        self.occupancy.blocks += blocks;
        match states {
            States::Uniform(state) => {
                self.occupancy.frames[state as usize] += blocks * BLOCK_FRAMES
            }
            States::Mixed(place) => {
                for byte in &self.occupancy.mixed[place as usize] {
                    self.occupancy.frames[usize::from(byte & 15)] += blocks;
                    self.occupancy.frames[usize::from(byte >> 4)] += blocks;
                }
            }
        }
        match self.occupancy.runs.last_mut() {
            Some(last) if last.states == states => last.blocks += blocks,
            _ => self.occupancy.runs.push(Run { first, blocks, states }),
        }
        Ok(())
    }

    /// Completes the occupancy. The missing frames of the last 2MB block are absent.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<Occupancy, OsError> {
        while self.filled > 0 {
            self.push(FrameState::Absent)?;
        }
        Ok(self.occupancy)
    }
}

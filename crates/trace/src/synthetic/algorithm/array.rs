//! Arrays of the simulated program.
//!
//! A [`Place`] knows where elements lie and nothing of their values: for values that can be
//! computed whenever they are read. An [`Array`] keeps its values in host memory, in whatever type
//! holds them; what the program's elements take is the place's affair.

use perforate_types::AccessKind;

use super::code::{Block, Op, compare, conditional, integer, store};
use super::machine::Machine;
use crate::synthetic::source::PAGE_BYTES;

/// Bytes that the loop which clears an array writes at once: an SSE register.
const VECTOR_BYTES: u64 = 16;

/// The memory of the program, handed out array by array, each on pages of its own.
pub(super) struct Space {
    start: u64,
    end: u64,
}

impl Space {
    pub(super) fn new(start: u64) -> Self {
        Self { start, end: start }
    }

    pub(super) fn place(&mut self, count: u64, element_bytes: u64) -> Place {
        let start = self.end;
        self.end += (count * element_bytes).next_multiple_of(PAGE_BYTES);
        Place { start, element_bytes, count }
    }

    pub(super) fn array<T>(&mut self, values: Vec<T>, element_bytes: u64) -> Array<T> {
        Array { place: self.place(values.len() as u64, element_bytes), values }
    }

    /// Bytes handed out.
    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Where the elements of an array lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    start: u64,
    element_bytes: u64,
    count: u64,
}

impl Place {
    #[inline]
    fn access(&self, index: u64, machine: &mut Machine, kind: AccessKind) {
        debug_assert!(index < self.count);
        machine.access(self.start + index * self.element_bytes, self.element_bytes, kind);
    }

    /// A whole element is read.
    #[inline]
    pub(super) fn read(&self, index: u64, machine: &mut Machine) {
        self.access(index, machine, AccessKind::Read);
    }

    /// A whole element is written.
    #[inline]
    pub(super) fn write(&self, index: u64, machine: &mut Machine) {
        self.access(index, machine, AccessKind::Write);
    }

    /// Part of an element is read.
    #[inline]
    pub(super) fn read_part(&self, index: u64, offset: u64, bytes: u64, machine: &mut Machine) {
        debug_assert!(index < self.count && offset + bytes <= self.element_bytes);
        machine.access(self.start + index * self.element_bytes + offset, bytes, AccessKind::Read);
    }

    /// Part of an element is written.
    #[inline]
    pub(super) fn write_part(&self, index: u64, offset: u64, bytes: u64, machine: &mut Machine) {
        debug_assert!(index < self.count && offset + bytes <= self.element_bytes);
        machine.access(self.start + index * self.element_bytes + offset, bytes, AccessKind::Write);
    }
}

/// An array with its contents.
pub(super) struct Array<T> {
    place: Place,
    values: Vec<T>,
}

impl<T: Copy> Array<T> {
    #[inline]
    pub(super) fn load(&self, index: u64, machine: &mut Machine) -> T {
        self.place.read(index, machine);
        self.values[index as usize]
    }

    #[inline]
    pub(super) fn store(&mut self, index: u64, value: T, machine: &mut Machine) {
        self.place.write(index, machine);
        self.values[index as usize] = value;
    }

    /// The contents, without an access of the program.
    pub(super) fn values(&self) -> &[T] {
        &self.values
    }

    /// As [`Self::values`], to be changed.
    pub(super) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

const CURSOR: u8 = 60;
const PATTERN: u8 = 61;

/// The loop that fills an array: one vector per round.
pub(super) const FILL: &[Op] =
    &[store(&[PATTERN, CURSOR]), integer(CURSOR, &[CURSOR]), compare(&[CURSOR]), conditional()];

/// How far a loop over [`FILL`] is.
#[derive(Clone, Copy, Default)]
pub(super) struct Filling {
    offset: u64,
}

impl Filling {
    /// Runs one round of the loop in `block`; at the end of the array sets the contents to what
    /// `value` says for each index, starts over and returns true.
    pub(super) fn step<T: Copy>(
        &mut self,
        array: &mut Array<T>,
        block: Block,
        machine: &mut Machine,
        value: impl Fn(usize) -> T,
    ) -> bool {
        let bytes = array.place.count * array.place.element_bytes;
        let vector = VECTOR_BYTES.min(bytes - self.offset);
        machine.access(array.place.start + self.offset, vector, AccessKind::Write);
        self.offset += vector;
        let ends = self.offset == bytes;
        machine.run(block, !ends);
        if ends {
            self.offset = 0;
            for (index, element) in array.values.iter_mut().enumerate() {
                *element = value(index);
            }
        }
        ends
    }
}

//! The store as a process: what it asks of its memory, and a record of what it touched.
//!
//! Code, branches and their mispredictions are left out. Every access has [`OTHERS`] integer
//! instructions before it, but for those of a copy.

use perforate_types::ProgramEvent;

use super::touched::Touched;
use crate::program::{Tracer, Value};
use crate::synthetic::PAGE_BYTES;

/// Other instructions before each access: as many as our other workloads have, for want of a
/// source.
const OTHERS: u32 = 3;
/// Bytes of what look-ups read: a pointer.
const POINTER_BYTES: u64 = 8;
/// Bytes that a copy moves with one instruction, as memcpy with AVX2.
const VECTOR_BYTES: u64 = 32;

/// How values are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// One access for each page: more of them at once would hit the first-level TLB and change
    /// no count of what lies beyond it.
    Pages,
    /// A vector at a time.
    Vectors,
}

/// A process that is traced.
pub(super) struct Process<'a> {
    pub(super) tracer: &'a mut Tracer,
    pub(super) touched: Touched,
    pub(super) copying: Copying,
    /// The pointer that was read last.
    pointer: Value<()>,
    /// The data that were read last.
    data: Value<()>,
}

impl<'a> Process<'a> {
    pub(super) fn new(tracer: &'a mut Tracer) -> Self {
        let (pointer, data) = (Value::constant(()), Value::constant(()));
        let copying = Copying::Pages;
        Self { tracer, touched: Touched::default(), copying, pointer, data }
    }

    /// Asks the operating system for something.
    pub(super) fn event(&mut self, event: ProgramEvent) {
        if let ProgramEvent::Advise { start, length, .. } = event {
            self.touched.drop_range(start.value(), length);
        }
        self.tracer.event(event);
    }

    /// Reads a pointer, at the address of the one that was read last.
    #[inline]
    pub(super) fn read(&mut self, address: u64) {
        self.begin_access(address);
        self.pointer = self.tracer.load(address, pointer_bytes(address), self.pointer, ());
    }

    /// Writes the data that were read last.
    #[inline]
    pub(super) fn write(&mut self, address: u64) {
        self.begin_access(address);
        self.tracer.store(address, pointer_bytes(address), (), self.data);
    }

    #[inline]
    fn begin_access(&mut self, address: u64) {
        self.touched.add(address);
        self.tracer.compute(OTHERS, 1);
    }

    /// Writes `length` bytes: one access for each page.
    pub(super) fn write_all(&mut self, start: u64, length: u64) {
        pages(start, length).for_each(|address| self.write(address));
    }

    /// Reads as many.
    pub(super) fn read_all(&mut self, start: u64, length: u64) {
        pages(start, length).for_each(|address| self.read(address));
    }

    /// Copies `length` bytes.
    pub(super) fn copy(&mut self, from: u64, to: u64, length: u64) {
        if self.copying == Copying::Pages {
            self.read_all(from, length);
            return self.write_all(to, length);
        }
        for offset in (0..length).step_by(VECTOR_BYTES as usize) {
            let bytes = VECTOR_BYTES.min(length - offset);
            for (address, bytes) in in_pages(from + offset, bytes) {
                self.data = self.tracer.load(address, bytes, self.pointer, ());
            }
            for (address, bytes) in in_pages(to + offset, bytes) {
                self.tracer.store(address, bytes, (), self.data);
            }
        }
    }
}

/// What is accessed begins at a multiple of eight, but for names and values.
fn pointer_bytes(address: u64) -> u64 {
    (PAGE_BYTES - address % PAGE_BYTES).min(POINTER_BYTES)
}

/// The first byte, and the first of each page after it.
fn pages(start: u64, length: u64) -> impl Iterator<Item = u64> {
    let next = |&address: &u64| Some((address / PAGE_BYTES + 1) * PAGE_BYTES);
    std::iter::successors(Some(start), next).take_while(move |&address| address < start + length)
}

/// A vector, which may lie across two pages: address and bytes in each.
fn in_pages(start: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let in_first = length.min(PAGE_BYTES - start % PAGE_BYTES);
    [(start, in_first), (start + in_first, length - in_first)]
        .into_iter()
        .filter(|&(_, bytes)| bytes > 0)
}

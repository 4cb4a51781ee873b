//! The process that runs the store: its memory accesses, its requests to the operating system, and the set of
//! pages that it touched.
//!
//! Code, branches and mispredictions are omitted. Every access is preceded by [`OTHERS`] integer
//! instructions, except those of a copy.

use perforate_types::ProgramEvent;

use super::touched::Touched;
use crate::source::PAGE_BYTES;
use crate::traced::{Tracer, Value};

/// Number of other instructions before each access of the store: the default of the other workloads, because
/// no source gives a number.
const OTHERS: u32 = 3;
/// Bytes that an access of a look-up reads: a pointer.
const POINTER_BYTES: u64 = 8;
/// Bytes that an instruction of a copy moves, as memcpy with AVX2.
const VECTOR_BYTES: u64 = 32;

/// Granularity at which the store copies values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// One access per page of the value. Further accesses would hit the L1 TLB and not change counts beyond
    /// it.
    Pages,
    /// One access per vector of 32 bytes.
    Vectors,
}

/// Simulated process that runs the store.
pub(super) struct Process<'a> {
    pub(super) tracer: &'a mut Tracer,
    pub(super) touched: Touched,
    pub(super) copying: Copying,
    /// Pointer that the last read returned. The address of the next read depends on it.
    pointer: Value<()>,
    /// Value that the last read returned, which the next write stores.
    data: Value<()>,
}

impl<'a> Process<'a> {
    pub(super) fn new(tracer: &'a mut Tracer) -> Self {
        let (pointer, data) = (Value::constant(()), Value::constant(()));
        let copying = Copying::Pages;
        Self { tracer, touched: Touched::default(), copying, pointer, data }
    }

    /// Records a request of the process to the operating system.
    pub(super) fn event(&mut self, event: ProgramEvent) {
        if let ProgramEvent::Advise { start, length, .. } = event {
            self.touched.drop_range(start.value(), length);
        }
        self.tracer.event(event);
    }

    /// Records the process's read of a pointer at `address`, which depends on the pointer that it read last.
    #[inline]
    pub(super) fn read(&mut self, address: u64) {
        self.begin_access(address);
        self.pointer = self.tracer.load(address, pointer_bytes(address), self.pointer, ());
    }

    /// Records the process's write of the value that it read last.
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

    /// Records the process's writes of `length` bytes from address `start` on, one per page.
    pub(super) fn write_all(&mut self, start: u64, length: u64) {
        pages(start, length).for_each(|address| self.write(address));
    }

    /// Records the process's reads of `length` bytes from address `start` on, one per page.
    pub(super) fn read_all(&mut self, start: u64, length: u64) {
        pages(start, length).for_each(|address| self.read(address));
    }

    /// Records the process's copy of `length` bytes, at the granularity [`Self::copying`].
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

/// Number of bytes that an access to a pointer at `address` reads or writes: 8, or fewer up to the end of the
/// page. Only names and values are not aligned to 8 bytes.
fn pointer_bytes(address: u64) -> u64 {
    (PAGE_BYTES - address % PAGE_BYTES).min(POINTER_BYTES)
}

/// Addresses at which a pass over `length` bytes from `start` touches each page once: `start`, then the first
/// byte of each further page.
fn pages(start: u64, length: u64) -> impl Iterator<Item = u64> {
    let next = |&address: &u64| Some((address / PAGE_BYTES + 1) * PAGE_BYTES);
    std::iter::successors(Some(start), next).take_while(move |&address| address < start + length)
}

/// Splits an access of `length` bytes at page boundaries. Returns address and bytes in each page.
fn in_pages(start: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let in_first = length.min(PAGE_BYTES - start % PAGE_BYTES);
    [(start, in_first), (start + in_first, length - in_first)]
        .into_iter()
        .filter(|&(_, bytes)| bytes > 0)
}

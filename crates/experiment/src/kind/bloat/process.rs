//! The store as a simulated process, with a record of what it touched.

use perforate_sim::SimError;
use perforate_types::{AccessKind, ProgramEvent};

use super::super::timed_system::{OTHERS, Role, TimedSystem};
use super::program::{PAGE_BYTES, Program};
use super::touched::Touched;

/// Bytes of what look-ups read: a pointer.
const POINTER_BYTES: u16 = 8;
/// Bytes that a copy moves with one instruction, as memcpy with AVX2.
const VECTOR_BYTES: u64 = 32;

/// A simulated process.
pub struct Process {
    pub hardware: TimedSystem,
    pub touched: Touched,
}

impl Process {
    /// One end of a copied vector, which may lie across two pages.
    fn vector(&mut self, role: Role, start: u64, length: u64) -> Result<(), SimError> {
        let in_page = length.min(PAGE_BYTES - start % PAGE_BYTES);
        self.hardware.access(role, start, in_page as u16)?;
        match length - in_page {
            0 => Ok(()),
            rest => self.hardware.access(role, start + in_page, rest as u16),
        }
    }
}

impl Program for Process {
    fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        if let ProgramEvent::Advise { start, length, .. } = event {
            self.touched.drop_range(start.value(), *length);
        }
        self.hardware.system.event(event)
    }

    #[inline]
    fn access(&mut self, kind: AccessKind, address: u64) -> Result<(), SimError> {
        self.touched.add(address);
        self.hardware.compute(OTHERS);
        let role = if kind == AccessKind::Write { Role::Write } else { Role::Follow };
        // What is accessed begins at a multiple of eight, but for names and values.
        let in_page = (PAGE_BYTES - address % PAGE_BYTES).min(u64::from(POINTER_BYTES)) as u16;
        self.hardware.access(role, address, in_page)
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<(), SimError> {
        if !self.hardware.is_timed() {
            return self.copy_by_pages(from, to, length);
        }
        for offset in (0..length).step_by(VECTOR_BYTES as usize) {
            let bytes = VECTOR_BYTES.min(length - offset);
            self.vector(Role::Read, from + offset, bytes)?;
            self.vector(Role::Write, to + offset, bytes)?;
        }
        Ok(())
    }
}

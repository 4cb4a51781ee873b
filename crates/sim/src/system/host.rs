//! Host of a system: the hypervisor's actions and their counters.

use std::mem;

use perforate_mmu::{Dimension, Host, HostFault, MmuConfig, Nested, RegisteredRun, allow};
use perforate_os::{FaultOutcome, Hypervisor, Kernel, OsError, Span};
use perforate_schemes::Hardware;
use perforate_schemes::segment::DirectSegments;
use perforate_schemes::shadow::Shadow;
use perforate_types::{
    AccessKind, Counter, Counters, Frame, GuestFrame, PageSize, Prominence, VirtualPage,
};

use super::System;
use crate::exits::{Account, HostWork};
use crate::placed::SchemeSetup;
use crate::wiring::{Connections, Side};
use crate::{Composition, Machine, MemoryState, Scheme, SimError};

/// Names of kernel counters that results also have for the host.
const OF_HOST: [&str; 7] = [
    "page_table_bytes",
    "hole_bitmap_bytes",
    "mapped_bytes",
    "large_pages",
    "perforated_pages",
    "segment_pages",
    "segment_escaped_pages",
];

/// Returns the counter of the host's kernel that corresponds to `own`; `None` if results have none.
pub(crate) fn counter(own: &Counter) -> Option<Counter> {
    if !OF_HOST.contains(&&*own.id) {
        return None;
    }
    // The host's counter is one step less prominent than the guest's.
    let prominence = match own.prominence {
        Prominence::Main => Prominence::Table,
        _ => Prominence::Listed,
    };
    Some(Counter {
        id: format!("host_{}", own.id).into(),
        label: format!("host {}", own.label).into(),
        meaning: format!("Of the host: {}", own.meaning).into(),
        prominence,
        part: None,
        ..own.clone()
    })
}

/// Physical frame that backs a page of the guest's memory.
#[derive(Clone, Copy)]
struct Place {
    frame: Frame,
    allows_write: bool,
}

impl System {
    /// Sets the register with the physical address of the guest's hole bitmap (P §V). If the bitmap
    /// is not contiguous in the machine, the hypervisor moves it. The register is not set without
    /// contiguous memory, or if the host forbids the guest to write the bitmap; every read of the
    /// bitmap is then translated. A host with a direct segment translates the bitmap by its
    /// segment.
    pub(super) fn register_guest_bitmap(&mut self) -> Result<(), SimError> {
        let Some(bitmap) = self.kernel.hole_bitmap() else { return Ok(()) };
        let frames = self.kernel.end_frame().number();
        let pages = frames.div_ceil(8 * PageSize::Size4K.bytes());
        let first = GuestFrame::new(bitmap.page().number());
        let places: Vec<_> = (0..pages).map(|index| self.place_in_host(first.add(index))).collect();
        let is_writable = |place: &Place| place.allows_write;
        if !places.iter().flatten().all(is_writable) {
            return Ok(());
        }
        let start = places[0].map(|place| place.frame);
        let follows = |(index, place): (usize, &Option<Place>)| {
            place.map(|place| place.frame) == start.map(|start| start.add(index as u64))
        };
        let located = match start {
            Some(start) if places.iter().enumerate().all(follows) => Some(start),
            _ => {
                self.change_host(|host| Ok(host.back_contiguously(first..first.add(pages)).ok()))?
            }
        };
        if let Some(located) = located {
            self.mmu.set_register(RegisteredRun { first, pages, located });
        }
        Ok(())
    }

    /// Returns the physical frame to which the host has mapped a page of the guest's memory.
    fn place_in_host(&self, page: GuestFrame) -> Option<Place> {
        let reach = self.mmu.dimension().host()?.look_at(page)?;
        let frame = reach.frame_of(VirtualPage::new(page.number()));
        Some(Place { frame, allows_write: allow::permits(reach.allows, AccessKind::Write) })
    }

    /// Returns the hypervisor; `None` for native systems.
    pub fn hypervisor(&self) -> Option<&Hypervisor> {
        self.hypervisor.as_ref()
    }

    /// Returns the work of the host since measuring started, and the exits of the virtual machine;
    /// `None` for native systems.
    pub fn host_work(&self) -> Option<HostWork> {
        self.host_part(&(self.account() - self.measured_from))
    }

    /// Returns the host's work and the exits in `account`, to which it adds the exits that the
    /// guest's work caused under shadow paging; `None` for native systems.
    pub(super) fn host_part(&self, account: &Account) -> Option<HostWork> {
        let hypervisor = self.hypervisor.as_ref()?;
        let HostWork { exits, .. } = account.host;
        let exits = match hypervisor.shadow_tables() {
            Some(_) => exits.with_guest_work(&account.work),
            None => exits,
        };
        Some(HostWork { exits, ..account.host })
    }

    /// Records the counters of the host's kernel, under the guest's names with the prefix `host_`.
    /// `span` selects current values or peaks.
    pub(super) fn record_host(&self, span: Span, out: &mut Counters) {
        let Some(hypervisor) = &self.hypervisor else { return };
        let mut host = Counters::default();
        hypervisor.kernel().counters_of(span, &mut host);
        perforate_schemes::complete(&mut host);
        for name in OF_HOST {
            let value = host.get(name).expect("every kernel counts it");
            out.set(format!("host_{name}"), value as u64);
        }
    }

    /// Lets `act` change the virtual machine, then updates tables, TLBs and oracle.
    ///
    /// # Errors
    /// The host's kernel fails, or the oracle refuses an update.
    ///
    /// # Panics
    /// In a native system.
    pub fn change_host<T>(
        &mut self,
        act: impl FnOnce(&mut Hypervisor) -> Result<T, OsError>,
    ) -> Result<T, SimError> {
        let hypervisor = self.hypervisor.as_mut().expect("the system is virtualized");
        self.updates.clear();
        let several = self.hardware.are_several();
        let before = several.then(|| hypervisor.kernel().work());
        let outcome = act(hypervisor);
        mem::swap(hypervisor.kernel_mut().updates(), &mut self.updates);
        self.publish_host()?;
        if let Some(before) = before {
            self.send_shootdowns(before, true);
        }
        if self.mmu.take_moved_run() {
            self.register_guest_bitmap()?;
        }
        outcome.map_err(|source| self.host_failure(source))
    }

    pub(crate) fn host_failure(&self, source: OsError) -> SimError {
        let (scheme, instruction) = (self.scheme.clone(), self.instruction);
        SimError::HostOs { scheme, instruction, source }
    }

    /// Lets `act`, a thread of the host's kernel on another processor, change the virtual machine,
    /// then updates tables, TLBs and oracle. The work counts as background work.
    ///
    /// # Errors
    /// As [`Self::change_host`].
    pub fn change_host_in_background(
        &mut self,
        act: impl FnOnce(&mut Hypervisor) -> Result<(), OsError>,
    ) -> Result<(), SimError> {
        let work = |system: &Self| system.hypervisor().map(|host| host.kernel().work());
        let before = work(self).unwrap_or_default();
        let result = self.in_background(|system| system.change_host(act));
        let after = work(self).unwrap_or_default();
        self.host.background += self.apart_from_sent(after - before);
        result
    }

    /// Applies the updates of the host's kernel to tables, TLBs and oracle, in order.
    pub(super) fn publish_host(&mut self) -> Result<(), SimError> {
        (0..self.updates.len()).try_for_each(|index| self.publish_host_update(index))
    }

    fn publish_host_update(&mut self, index: usize) -> Result<(), SimError> {
        let update = &self.updates[index];
        if let Some(oracles) = &mut self.oracles {
            oracles.apply_host(update).map_err(|source| SimError::Oracle {
                scheme: self.scheme.clone(),
                seed: self.seed,
                instruction: self.instruction,
                source,
            })?;
        }
        self.connections.deliver(Side::Host, update, &mut self.mmu);
        self.follow_host(index);
        Ok(())
    }

    /// Lets the hypervisor serve a fault in the host's page tables. Returns true if the access may be
    /// retried, false if the host forbids it (mprotect of the virtual machine's memory; KVM returns EFAULT).
    /// A fault beyond the virtual machine's memory repeats until the access counts as stuck.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_host_fault(&mut self, fault: HostFault) -> Result<bool, SimError> {
        self.host.exits.nested_fault += 1;
        let backed = self.back_in_host(fault)?;
        let host = self.hypervisor.as_ref();
        let segment = host.and_then(|host| host.kernel().segment(host.space()));
        let has_segment = u64::from(segment.is_some_and(|segment| segment.is_active));
        self.host.segment_exits += has_segment;
        if backed.is_first {
            self.host.backing_exits += 1;
            self.host.backing_segment_exits += has_segment;
        }
        Ok(backed.is_allowed)
    }

    /// Lets the host's kernel back a page of the guest's memory. Counts an access that the kernel refuses.
    pub(crate) fn back_in_host(&mut self, fault: HostFault) -> Result<Backed, SimError> {
        let (outcome, is_first) = self.backing(|host| host.fault(fault.page, fault.kind))?;
        let exists = self.hypervisor.as_ref().is_some_and(|host| host.has_memory(fault.page));
        let refused = exists && outcome == FaultOutcome::Segfault;
        self.refused += u64::from(refused);
        Ok(Backed { is_allowed: !refused, is_first })
    }

    /// Lets `act` back memory of the guest. Returns its outcome, and true if this was the first backing: it
    /// read nothing from swap, copied no frames, and no kernel thread did it. Counts the work of first backings.
    pub(super) fn backing<T>(
        &mut self,
        act: impl FnOnce(&mut Hypervisor) -> Result<T, OsError>,
    ) -> Result<(T, bool), SimError> {
        let before = self.account().host.work;
        let outcome = self.change_host(act)?;
        let work = self.account().host.work - before;
        let is_first =
            work.pages_swapped_in == 0 && work.frames_copied == 0 && !self.hardware.is_background;
        if is_first {
            self.host.backing += work;
        }
        Ok((outcome, is_first))
    }
}

/// Outcome of an access to memory that the host had to back.
pub(crate) struct Backed {
    /// True if the host's kernel allows the access.
    pub is_allowed: bool,
    /// True if the memory had never been backed.
    is_first: bool,
}

/// Creates a hypervisor with its memory; `None` for native schemes.
pub(super) fn hypervisor(
    composition: &Composition,
    guest: &Kernel,
    (machine, memory): (&Machine, &MemoryState),
    seed: u64,
) -> Result<Option<Hypervisor>, OsError> {
    let Some(host) = composition.host else { return Ok(None) };
    // The host's memory has another seed, so its fragmentation differs from the guest's.
    let slots = guest.memory_slots();
    let guest_pages = slots.last().map_or(0, |slot| slot.end.number());
    let kernel = host.host_kernel(machine, &memory.host(), !seed, guest_pages)?;
    let hypervisor = Hypervisor::new(kernel, &slots)?;
    Ok(Some(match host.shadow_paging {
        true => hypervisor.with_shadow_paging(guest.tables()),
        false => hypervisor,
    }))
}

/// Returns the configuration of the memory-management unit, including the TLB coalescing of the
/// schemes.
pub(super) fn mmu(composition: &Composition, machine: &Machine) -> MmuConfig {
    let mut config = machine.mmu();
    composition.configure_coalescing(&mut config.tlb);
    config
}

/// Creates the page tables: native ones, or the guest's combined with the host's.
pub(super) fn dimension(
    composition: &Composition,
    (kernel, hypervisor): (&Kernel, Option<&Hypervisor>),
    machine: &Machine,
    check: bool,
    connections: &mut Connections,
) -> Box<dyn Dimension> {
    let made = |scheme: &Scheme, kernel| {
        let (tlb, escape_filter) = (&machine.tlb, machine.virtualization.escape_filter());
        (scheme.dimension)(&Hardware { scheme, kernel, tlb, escape_filter })
    };
    let own = made(composition.own, kernel);
    let own = connections.tables(Side::Own, own);
    let (Some(scheme), Some(hypervisor)) = (composition.host, hypervisor) else { return own };
    let host = made(scheme, hypervisor.kernel());
    let host = connections.tables(Side::Host, host);
    let mut host = Host::new(&machine.mmu(), host, hypervisor.space());
    if check {
        host.note_located();
    }
    if scheme.shadow_paging {
        return Box::new(Shadow::new(own, host));
    }
    Box::new(Nested::new(own, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_host_follow_the_guests() {
        let mut found = Vec::new();
        for own in crate::counters() {
            let Some(host) = counter(&own) else {
                assert!(!OF_HOST.contains(&&*own.id), "{}", own.id);
                continue;
            };
            assert_eq!(host.id, format!("host_{}", own.id));
            assert_eq!(host.label, format!("host {}", own.label));
            assert_eq!(host.meaning, format!("Of the host: {}", own.meaning));
            assert!(host.part.is_none() && host.group == own.group && host.unit == own.unit);
            let is_in_tables = own.prominence == Prominence::Main;
            assert_eq!(host.prominence == Prominence::Table, is_in_tables, "{}", own.id);
            assert!(host.prominence != Prominence::Main);
            found.push(own.id.to_string());
        }
        found.sort();
        let mut expected = OF_HOST.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

//! Ballooning: a guest kernel gives up frames, and its host drops them from the guest's memory.

use crate::machine::{BASE, MB, Machine, populate};
use perforate_config::Size;
use perforate_os::KernelConfig;
use perforate_types::{Advice, Frame, ProgramEvent, VirtualAddress};

const PAGE: u64 = 4096;
const GUEST: u64 = 32 * MB;

/// A host with one guest, whose 32MB of memory lie at [`BASE`].
fn host(policy: &str) -> Machine {
    let mut host = Machine::new(policy, 128 * MB);
    host.event(populate(BASE, GUEST));
    assert_eq!(host.counter("large_pages"), 16);
    host
}

fn address(frame: &Frame) -> u64 {
    BASE + frame.number() * PAGE
}

fn drop_frames(host: &mut Machine, frames: &[Frame]) {
    for frame in frames {
        let start = VirtualAddress::new(address(frame));
        host.event(ProgramEvent::Advise { start, length: PAGE, advice: Advice::DontNeed });
    }
}

#[test]
fn the_host_punches_where_it_would_split() {
    for (policy, large, perforated, base) in [("thp", 15, 0, 509), ("perforated", 15, 1, 0)] {
        let mut guest = Machine::new("thp", GUEST);
        let mut host = host(policy);
        let free = host.counter("free_bytes");
        let taken = guest.act(|kernel| Ok(kernel.inflate_balloon(3))).unwrap();
        assert_eq!((taken.len(), guest.kernel.balloon_bytes()), (3, 3 * PAGE));
        guest.assert_memory_adds_up();
        drop_frames(&mut host, &taken);
        let counts = ["large_pages", "perforated_pages", "base_pages"].map(|n| host.counter(n));
        assert_eq!(counts, [large, perforated, base], "{policy}");
        // A split takes a node for the 4KB pages; a perforated page takes one for its holes.
        assert_eq!(host.counter("free_bytes"), free + 3 * PAGE - PAGE);
        // After deflation, the frames fault in again; the perforated page is whole then.
        assert_eq!(guest.kernel.deflate_balloon(5), taken);
        assert_eq!(guest.kernel.balloon_bytes(), 0);
        for frame in &taken {
            host.write(address(frame));
        }
        assert_eq!(host.counter("perforated_pages"), 0);
        assert_eq!(host.counter("large_pages"), if policy == "thp" { 15 } else { 16 });
        host.assert_memory_adds_up();
        guest.assert_memory_adds_up();
    }
}

#[test]
fn the_balloon_takes_what_there_is_and_no_more() {
    let mut guest = Machine::new("base-pages", 4 * MB);
    let taken = guest.act(|kernel| Ok(kernel.inflate_balloon(5000))).unwrap();
    assert_eq!(taken.len() as u64 * PAGE, 4 * MB);
    assert_eq!(guest.counter("free_bytes"), 0);
    guest.assert_memory_adds_up();
}

#[test]
fn the_balloon_swaps_programs_out() {
    let config = KernelConfig { swap: Size(8 * MB), ..KernelConfig::new(4 * MB) };
    let mut guest = Machine::configured("base-pages", config);
    guest.event(populate(BASE, 3 * MB));
    let taken = guest.act(|kernel| Ok(kernel.inflate_balloon(600))).unwrap();
    assert_eq!(taken.len(), 600);
    assert!(guest.counter("swapped_bytes") > MB);
    guest.assert_memory_adds_up();
}

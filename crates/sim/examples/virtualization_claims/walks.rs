//! References and checks of a walk (D Fig. 2, Table II), counted in cold walks on a machine that
//! caches nothing of them.

use perforate_mmu::{TlbGeometry, WalkCacheConfig};
use perforate_sim::{Composition, Machine, MemoryState, SimError, System, SystemOptions};
use perforate_types::{AccessKind, Backing, Permissions, ProgramEvent, Purpose, VirtualAddress};

const START: u64 = 0x7f00_0000_0000;

/// Mode, scheme, and D Table II's references and checks.
const MODES: &[(&str, &str, u64, u64)] = &[
    ("native, 4K", "4k", 4, 0),
    ("native direct segment", "segment", 0, 1),
    ("base virtualized, 4K+4K", "4k+4k", 24, 0),
    ("Dual Direct", "segment+segment", 0, 1),
    ("VMM Direct", "4k+segment", 4, 5),
    ("Guest Direct", "segment+4k", 4, 1),
];

/// Scheme of a page size, its label, and the entries of its walk.
const SIZES: [(&str, &str, u64); 3] = [("4k", "4K", 4), ("thp", "2M", 3), ("1g", "1G", 2)];

/// What a cold walk did.
struct Walk {
    guest_references: u64,
    host_references: u64,
    checks: u64,
}

/// Prints the tables.
///
/// # Errors
/// As [`System`]'s.
pub fn print() -> Result<(), SimError> {
    println!("References and checks of a cold walk without walk caches (D-C1)\n");
    println!(
        "{:<26}{:<17}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}",
        "mode", "scheme", "guest", "host", "all", "D", "checks", "D"
    );
    for &(mode, scheme, references, checks) in MODES {
        let walk = cold_walk(scheme)?;
        println!(
            "{mode:<26}{scheme:<17}{:>8}{:>8}{:>8}{references:>8}{:>9}{checks:>8}",
            walk.guest_references,
            walk.host_references,
            walk.guest_references + walk.host_references,
            walk.checks
        );
    }
    println!(
        "\nPage sizes of guest (rows) and host (columns): references, (g+1)(h+1)−1 in brackets"
    );
    println!("\n{:<8}{:>12}{:>12}{:>12}", "", "4K", "2M", "1G");
    for (guest, label, g) in SIZES {
        let mut row = format!("{label:<8}");
        for (host, _, h) in SIZES {
            let walk = cold_walk(&format!("{guest}+{host}"))?;
            let all = walk.guest_references + walk.host_references;
            row += &format!("{:>12}", format!("{all} ({})", (g + 1) * (h + 1) - 1));
        }
        println!("{row}");
    }
    println!();
    Ok(())
}

fn without_caches() -> Result<Machine, SimError> {
    let mut machine = Machine::load(Machine::DEFAULT)?;
    let none = WalkCacheConfig { level4_entries: 0, level3_entries: 0, level2_entries: 0 };
    machine.walk_cache = none;
    machine.virtualization.host_walk_cache = Some(none);
    machine.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 0 });
    Ok(machine)
}

fn cold_walk(scheme: &str) -> Result<Walk, SimError> {
    let memory = MemoryState::parse(Some("8G"), None, None)?;
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    let composition = Composition::find(scheme)?;
    let mut system = System::new(&without_caches()?, composition, &memory, 1, options)?;
    system.event(&ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: 4 << 30,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    })?;
    let address = VirtualAddress::new(START + (1 << 30) + 0x12_3456);
    system.translate(AccessKind::Write, address)?;
    system.mmu_mut().flush();
    system.translate(AccessKind::Write, address)?;
    let (guest, host) = system.steps().reads().split_at(Purpose::HostPage as usize);
    let sum = |reads: &[u8]| reads.iter().map(|&count| u64::from(count)).sum();
    Ok(Walk {
        guest_references: sum(guest),
        host_references: sum(host),
        checks: system.steps().checks().into(),
    })
}

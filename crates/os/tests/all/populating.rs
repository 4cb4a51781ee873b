//! Memory that is populated at once has what its pages would have if each was populated alone: the fast path for
//! the pages of a 2MB region against the general path.

use crate::machine::{BASE, MB, Machine, fork, map, map_shared, unmap};
use perforate_config::{Size, read};
use perforate_kept::TextHash;
use perforate_os::{KernelConfig, Work, ZoneLayout};
use perforate_types::{AccessKind, Advice, ProgramEvent, VirtualAddress};
use proptest::prelude::*;
use proptest::sample::select;

const PAGE: u64 = 4096;
const SPAN: u64 = 16 * MB;

#[derive(Clone, Debug)]
enum Action {
    Event(ProgramEvent),
    Populate(u64, u64, Advice),
    Access(u64, AccessKind),
    /// Takes memory away by inflating the balloon by this number of frames.
    Balloon(u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let pages = SPAN / PAGE;
    prop_oneof![
        2 => (0..pages, 1..1500u64).prop_map(|(first, count)| (BASE + first * PAGE, count * PAGE)),
        1 => (0..8u64, 1..4u64).prop_map(|(first, count)| (BASE + first * 2 * MB, count * 2 * MB)),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let advice =
        select(vec![Advice::DontNeed, Advice::HugePage, Advice::NoHugePage, Advice::PageSize(4)]);
    let advised = (range(), advice).prop_map(|((start, length), advice)| ProgramEvent::Advise {
        start: VirtualAddress::new(start),
        length,
        advice,
    });
    let populating = select(vec![Advice::POPULATE_READ, Advice::POPULATE_WRITE]);
    let access = (0..SPAN / PAGE, select(vec![AccessKind::Read, AccessKind::Write]));
    prop_oneof![
        4 => (range(), populating).prop_map(|((start, length), advice)| Action::Populate(start, length, advice)),
        2 => range().prop_map(|(start, length)| Action::Event(map(start, length))),
        1 => range().prop_map(|(start, length)| Action::Event(map_shared(start, length))),
        1 => range().prop_map(|(start, length)| Action::Event(unmap(start, length))),
        1 => advised.prop_map(Action::Event),
        1 => Just(Action::Event(fork(1))),
        2 => access.prop_map(|(page, kind)| Action::Access(BASE + page * PAGE, kind)),
        1 => (0..9000u64).prop_map(Action::Balloon),
    ]
}

/// Carries out an action. Memory may be out; then the rest of a populated range is left alone.
fn act(machine: &mut Machine, action: &Action, is_at_once: bool) {
    match *action {
        Action::Event(ref event) => {
            let _ = machine.act(|kernel| kernel.event(event));
        }
        Action::Populate(start, length, advice) => {
            let step = if is_at_once { length } else { PAGE };
            let mut starts = (start..start + length).step_by(step as usize);
            let populate = |start| {
                let (start, length) = (VirtualAddress::new(start), step);
                let event = ProgramEvent::Advise { start, length, advice };
                machine.act(|kernel| kernel.event(&event))
            };
            let _ = starts.try_for_each(populate);
        }
        Action::Access(address, kind) => {
            let page = VirtualAddress::new(address).page();
            let space = machine.kernel.current();
            let _ = machine.act(|kernel| kernel.fault(space, page, kind));
        }
        Action::Balloon(frames) => {
            let _ = machine.act(|kernel| Ok(kernel.inflate_balloon(frames)));
        }
    }
}

/// Hash of the kernel's state, and its work without what depends on the number of calls.
fn state(machine: &mut Machine) -> (TextHash, Work) {
    machine.history = TextHash::default();
    machine.add_state_to_history();
    let work = Work {
        memory_calls: 0,
        shootdown_batches: 0,
        entries_invalidated: 0,
        spaces_flushed: 0,
        ..machine.kernel.work()
    };
    (machine.history, work)
}

/// Policies, each with fragmentation that a part of its memory has.
const SYSTEMS: [(&str, &str); 8] = [
    ("base-pages", "none"),
    ("base-pages", "portion=50%,holes=25%,clustered"),
    ("base-pages", "portion=50%,holes=25%,clustered,unallocated"),
    ("thp", "portion=60%,holes=25%,dispersed"),
    ("thp-madvise", "portion=60%,holes=25%,clustered"),
    ("huge-1g", "none"),
    ("mthp:64K", "none"),
    ("perforated", "portion=50%,holes=25%,clustered"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn memory_populated_at_once_is_as_if_page_by_page(
        actions in prop::collection::vec(action(), 1..14),
        are_zones in any::<bool>(),
        swap in select(vec![0, 8 * MB]),
    ) {
        for (policy, fragmentation) in SYSTEMS {
            let machine = || {
                let fragmentation = (fragmentation != "none").then(|| read(fragmentation).unwrap());
                let zones = if are_zones { ZoneLayout::X86 } else { ZoneLayout::Single };
                Machine::configured(policy, KernelConfig { fragmentation, zones, swap: Size(swap), ..KernelConfig::new(48 * MB) })
            };
            let (mut at_once, mut one_by_one) = (machine(), machine());
            for (number, action) in actions.iter().enumerate() {
                act(&mut at_once, action, true);
                act(&mut one_by_one, action, false);
                prop_assert_eq!(
                    state(&mut at_once),
                    state(&mut one_by_one),
                    "{} with {}, after action {}: {:?}", policy, fragmentation, number, action
                );
            }
        }
    }
}

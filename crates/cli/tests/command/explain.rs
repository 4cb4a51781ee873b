//! `perforate explain`: the seven cases of P §IV.D, with their cycles worked out by hand.

use crate::place::Place;

/// Case and cycles (data caches empty, warm) of every translation printed.
fn cases(text: &str) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    let mut case = String::new();
    for line in text.lines() {
        if let Some(start) = line.find("case ") {
            case = line[start..].to_owned();
        }
        if let Some(figures) = line.trim().strip_prefix("all together") {
            let figures: Vec<u64> =
                figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
            found.push((case.clone(), figures[0], figures[1]));
        }
    }
    found
}

/// Table II and gem5: a look-up of the second-level TLB takes 9 cycles, one of the walk caches 1, a
/// read that misses the walkers' own cache (2) and hits the L2 cache (20) has its data 4 later.
const TLB: u64 = 9;
const WALK_CACHE: u64 = 1;
const READ: u64 = 2 + 20 + 4;

/// Lines of the help that begin like a command, without the remarks beside them.
#[test]
fn the_examples_of_the_help_show_translations() {
    let place = Place::new();
    let help = place.succeeds(&["explain", "--help"]);
    let examples: Vec<Vec<&str>> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  perforate ")?.split("   ").next())
        .map(|command| command.split_whitespace().collect())
        .collect();
    assert!(examples.len() > 2, "{help}");
    for example in examples {
        let text = place.succeeds(&example);
        assert!(!text.contains("nothing is mapped") && !cases(&text).is_empty(), "{example:?}");
    }
}

#[test]
fn seven_cases_by_hand() {
    let place = Place::new();
    let text = place.succeeds(&["explain"]);
    let cases = cases(&text);
    let walk = TLB + WALK_CACHE + 3 * READ; // levels 4, 3 and 2: the page is a large one
    let bitmap_read = TLB + READ;
    for (name, warm) in [
        ("case 1, ", TLB),
        ("case 2, ", TLB),
        ("case 3, ", TLB + TLB),
        ("case 4, ", TLB + TLB + WALK_CACHE + READ), // the walk cache has the shadow entry
        ("case 5, ", TLB + bitmap_read),
        ("case 6, ", TLB + bitmap_read + WALK_CACHE + READ),
        ("case 7, a walk finds the page, then case 2", walk),
        ("case 7, a walk finds the page, then case 5", walk + bitmap_read),
        // The shadow entry is no more in the walk cache than its page was: two reads to the hole.
        ("case 7, a walk finds the page, then case 6", walk + bitmap_read + WALK_CACHE + 2 * READ),
    ] {
        let mut of_case = cases.iter().filter(|(case, ..)| case.starts_with(name)).peekable();
        assert!(of_case.peek().is_some(), "{name} is not in\n{text}");
        for (case, _, cycles) in of_case {
            assert_eq!(*cycles, warm, "{case}");
        }
    }
    assert_eq!(TLB + TLB + WALK_CACHE + READ, 45);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// G Table 4: a second-level look-up takes 7 cycles, an entry 5 and its load, which is 8 from the L2
/// and nothing from the walk caches, a selection 3. Superpages come first, then a page of another kind.
#[test]
fn gap_tolerant_superpages_by_hand() {
    let place = Place::new();
    let (tlb, cached, read, selection) = (7, 5, 5 + 8, 3);
    for (scheme, label) in
        [("gt-pde-4m", "GT-PDE-4MB"), ("gt-pde-1m", "GT-PDE-1MB"), ("p-gt-pde-2m", "P-GT-PDE-2MB")]
    {
        let text = place.succeeds(&["explain", "--scheme", scheme, "--machine", "gtsm-table4"]);
        let found: Vec<u64> = cases(&text).into_iter().map(|(_, _, warm)| warm).collect();
        let superpage = [tlb + 3 * read + selection, tlb, tlb + cached + selection];
        let page = [tlb + 4 * read, tlb];
        assert_eq!(found, [&superpage[..], &page].concat(), "{text}");
        assert!(text.contains(&format!(": {label}, ")), "{text}");
        assert!(text.contains("selection 00000000ffffffff: block ") || scheme.starts_with('p'));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

/// Every read costs memory time where the caches are empty: two cache look-ups (2 and 20 cycles) and
/// what they take on the way back (29 and 4), controller 40, activation 28, column 28, burst 7 at
/// 2 GHz; an open row saves the activation, another open row in the bank adds a precharge of 28.
#[test]
fn empty_data_caches_cost_memory_reads() {
    let place = Place::new();
    let (open_row, idle_bank, conflict) = (130, 158, 186);
    let text = place.succeeds(&["explain", "--scheme", "4k"]);
    let reads: Vec<u64> = text
        .lines()
        .filter(|line| line.contains("-level") || line.contains("level-"))
        .filter_map(|line| line.split_whitespace().rev().nth(1)?.parse().ok())
        .collect();
    assert_eq!(reads.len(), 4, "{text}");
    assert!(reads.iter().all(|read| [open_row, idle_bank, conflict].contains(read)), "{text}");
    assert_eq!(reads[0], idle_bank, "the first read finds all banks idle");
    let (_, empty, warm) = cases(&text)[0].clone();
    assert_eq!(empty, TLB + WALK_CACHE + reads.iter().sum::<u64>());
    assert_eq!(warm, TLB + WALK_CACHE + 4 * READ);
}

/// The hardware walks tables of the host's, whose entries lead to the machine's frames.
#[test]
fn shadow_tables_are_walked_in_one_dimension() {
    let place = Place::new();
    let small = ["explain", "--workload", "random:size=64M", "--memory", "256M"];
    let explain = |scheme: &'static str| {
        place.succeeds(&[&small[..], &["--instructions", "20000", "--scheme", scheme]].concat())
    };
    let text = explain("4k+shadow-4k");
    assert_eq!(text.matches("level-4 entry").count(), 1, "{text}");
    assert!(text.contains("4KB page at 0x") && !text.contains("nested"), "{text}");
    let text = explain("4k+4k");
    assert!(text.contains("nested TLB") && text.contains("host's level-4 entry"), "{text}");
}

/// Telling addresses are those of the guest's mechanism; each entry says what it is made of.
#[test]
fn shadow_entries_say_what_they_are_made_of() {
    let place = Place::new();
    let small = ["explain", "--workload", "random:size=128M", "--memory", "1G"];
    for (scheme, origins) in [
        (
            "perforated+shadow-thp",
            &[
                "the guest's perforated page over a 2MB page",
                "a hole in the guest's perforated page over a 2MB page",
            ][..],
        ),
        ("gt-pde-4m+shadow-4k", &["the guest's gap-tolerant superpage over a 4KB page"]),
        ("segment+shadow-4k", &["the guest's direct segment over a 4KB page"]),
        ("thp+shadow-thp", &["the guest's 2MB page over a 2MB page"]),
    ] {
        let arguments = ["--instructions", "20000", "--fragmentation"];
        let fragmentation =
            if scheme.starts_with('p') { "portion=50%,holes=25%,clustered" } else { "none" };
        let arguments = [&small[..], &arguments, &[fragmentation, "--scheme", scheme]].concat();
        let text = place.succeeds(&arguments);
        for origin in origins {
            assert!(text.contains(&format!("made of {origin} of the host")), "{origin}: {text}");
        }
        assert!(!text.contains("nested") && !text.contains("bitmap"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn an_address_given_and_one_that_is_not_mapped() {
    let place = Place::new();
    let text = place.succeeds(&["explain", "0x7eff80000000", "4096", "--scheme", "ideal"]);
    assert!(text.contains("0x7eff80000000 lies at 0x"), "{text}");
    assert!(text.contains("2MB page at 0x"), "{text}");
    assert!(
        text.contains("0x1000: nothing is mapped there, and an access would be a page fault"),
        "{text}"
    );
    let nothing = place.succeeds(&["explain", "--instructions", "0"]);
    assert!(nothing.contains("No address to explain"), "{nothing}");
}

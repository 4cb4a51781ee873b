//! Names that there are not: the nearest that there is, whatever its letters.

use crate::place::Place;

#[test]
fn names_on_the_command_line() {
    let place = Place::new();
    for (options, expected) in [
        (&["RANDOM"][..], "did you mean random?"),
        (&["stroe:keys=5"], "did you mean store?"),
        (&["champsm:some.trace"], "did you mean champsim:some.trace?"),
        (&["random:SIZE=1G"], "did you mean size?"),
        (&["random", "--scheme", "4K"], "did you mean 4k?"),
        (&["random", "--machine", "ICE-LAKE-SP"], "did you mean ice-lake-sp?"),
        (&["random", "--machine", "HOST"], "did you mean host?"),
        (&["random", "--set", "tlb.l2.entires=3"], "did you mean tlb.l2.entries?"),
        (&["random", "--set", "TLB.L2.ENTRIES=3"], "did you mean tlb.l2.entries?"),
        (&["random", "--set", "Walkers=3"], "did you mean walker.walkers?"),
        (&["random", "--set", "cache.l1d.size=1B"], "did you mean cache.l1d.size_bytes?"),
    ] {
        place.fails(&[&["run"], options].concat(), 2, expected);
    }
    for (vary, expected) in [
        ("DEFRAG=never,always", "did you mean defrag?"),
        ("memroy=1G,2G", "did you mean memory?"),
        ("tlb.l2.entires=1,2", "did you mean tlb.l2.entries?"),
    ] {
        place.fails(&["compare", "random", "--vary", vary], 2, expected);
    }
    place.fails(&["experiment", "run", "Perforated/Fig7"], 2, "did you mean perforated/fig7?");
    place.write("half.csv", "mmap,-1,0,67108864\n");
    place.fails(&["experiment", "run", "half.csv"], 2, "a file with an experiment is named *.toml");
    place.fails(&["experiment", "list", "perforatd"], 2, "did you mean perforated?");
}

#[test]
fn words_and_keys_of_options() {
    let place = Place::new();
    for (option, expected) in [
        ("--defrag=alwyas", "or always, not \"alwyas\"; did you mean always?"),
        ("--defrag=DEFER", "did you mean defer?"),
        ("--compaction=backgroud", "did you mean background?"),
        ("--khugepaged=evry=5", "did you mean every?"),
        ("--khugepaged=max-ptes-nome=5", "did you mean max-ptes-none?"),
        ("--fragmentation=portion=50%,holes=25%,Clusterd", "did you mean clustered?"),
        ("--age=Weks", "did you mean weeks?"),
        ("--zones=X86", "did you mean x86?"),
        ("--faulty=unifrom=1%", "did you mean uniform?"),
        ("--perforation=holes=eagr", "did you mean eager?"),
        ("--modes=compte", "did you mean compute?"),
    ] {
        place.fails(&["run", "random", option], 2, expected);
    }
}

/// The parser of the command line says it in lines of its own.
#[test]
fn options_and_fixed_words() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["run", "--shceme", "4k"][..], "--scheme"),
        (&["run", "--host-memroy", "1G"], "--host-memory"),
        (&["cmpare"], "compare"),
        (&["list", "countres"], "counters"),
        (&["trace", "convert", "random", "-o", "x", "--to", "champsmi"], "champsim"),
    ] {
        let outcome = place.run(arguments);
        let tip = outcome.err.lines().find(|line| line.contains("tip: ")).unwrap_or_default();
        assert!(outcome.code == Some(2) && tip.contains(expected), "{}", outcome.err);
    }
    assert!(place.succeeds(&["list", "Counters"]).contains("walks"));
}

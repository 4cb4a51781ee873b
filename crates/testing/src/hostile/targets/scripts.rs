//! Targets for policy scripts: script files, and generated scripts. Generated statements grow,
//! loop, nest and sort data, and are such that most scripts compile.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::sequences::{Bytes, Choices};
use perforate_script::{
    AreaFacts, BlockFacts, Purpose, RegionFacts, Script, ScriptError, VictimFacts, WayFacts,
};

use super::{Target, target, told, with_file};
use crate::hostile::target::Seeds;

/// Longest permitted duration of two rounds of calls to a script. The script engine's limits on
/// operations and sizes must keep it; the engine's time limit for one call is longer.
const MOST_TIME: Duration = Duration::from_secs(8);
/// Largest number of statements in a generated block.
const MOST_STATEMENTS: u64 = 12;
/// Largest nesting depth of generated blocks.
const MOST_DEPTH: usize = 4;

pub const TARGETS: &[Target] = &[
    target("policy-file", |bytes| {
        with_file(bytes, |path| {
            if let Some(script) = told(Script::read(path)) {
                ask(&script);
            }
        });
    })
    .with_seeds(Seeds::Folder("examples/policies")),
    target("policy-composed", |bytes| {
        let text = composed(&mut Bytes::new(bytes));
        if let Some(script) = told(Script::compile("composed", &text)) {
            ask(&script);
        }
    }),
];

/// Calls every policy function of a script twice, and asserts that both calls return equal answers.
fn ask(script: &Script) {
    let answers = || {
        [
            answer(script.order_for(AREA, Purpose::Fault, &[0, 9, 18])),
            answer(script.order_for(AREA, Purpose::Khugepaged, &[0, 9])),
            answer(script.with_holes(BLOCK)),
            answer(script.promote(REGION, &[WAY])),
            answer(script.patch(1)),
            answer(script.demote(BLOCK)),
            answer(script.reclaim(VICTIM)),
        ]
    };
    let start = Instant::now();
    assert_eq!(answers(), answers());
    assert!(start.elapsed() < MOST_TIME, "slow answers");
}

/// Formats a script's answer; returns `None` for an error, which must be one line.
fn answer<T: Debug>(outcome: Result<T, ScriptError>) -> Option<String> {
    told(outcome).map(|answer| format!("{answer:?}"))
}

/// Generates a script by choices that an input's bytes determine. There are few variable names, so
/// that statements affect each other. A type error ends a function early.
fn composed(choices: &mut Bytes<'_>) -> String {
    let mut text = String::new();
    for question in ["order_for(area, kind, orders)", "promote(area, orders)", "patch(kind)"] {
        text += &format!(
            "fn {question} {{ let a = [1, 2, 3]; let s = \"abc\"; let n = 3; let f = |x| x; {} 9 }}\n",
            statements(choices, 0)
        );
    }
    // Statements outside of functions run once.
    text + format!("let a = [1]; let s = \"\"; let n = 0; {}", statements(choices, 0)).as_str()
}

fn statements(choices: &mut Bytes<'_>, depth: usize) -> String {
    let count = 1 + choices.below(MOST_STATEMENTS >> (2 * depth).min(3));
    (0..count).map(|_| statement(choices, depth)).collect()
}

fn statement(choices: &mut Bytes<'_>, depth: usize) -> String {
    let of = |choices: &mut Bytes<'_>, all: &[&str]| {
        all[choices.below(all.len() as u64) as usize].to_owned()
    };
    if depth < MOST_DEPTH && choices.one_in(3) {
        let head = of(
            choices,
            &[
                "for i in 0..100000",
                "for i in a",
                "for i in s",
                "for i in range(0, 9000000000000000000, 3)",
                "while n < 5000",
                "loop",
                "if n % 2 == 0",
                "switch n",
                "try",
            ],
        );
        let inner = statements(choices, depth + 1);
        return match head.as_str() {
            "switch n" => format!("switch n {{ 0..50 => {{ {inner} }}, _ => 1 }};\n"),
            "try" => format!("try {{ {inner} }} catch {{ n += 1; }}\n"),
            head => format!("{head} {{ n += 1; {inner} }}\n"),
        };
    }
    let act = of(
        choices,
        &[
            "a += a; ",
            "a.push(a); ",
            "a.push(VALUE); ",
            "a = [a, a, VALUE]; ",
            "a[0] = VALUE; ",
            "a[-1] += VALUE; ",
            "a.insert(VALUE, VALUE); ",
            "a.pad(VALUE, VALUE); ",
            "a.append(a); ",
            "a.splice(0, 1, a); ",
            "a = a.extract(VALUE, VALUE); ",
            "a = a.map(|x| VALUE); ",
            "a = a.zip(a, |x, y| [x, y]); ",
            "a.sort(); ",
            "a.sort(|x, y| x * 7919 % 5 - 2); ",
            "a.sort(|x, y| y.to_string().len() - n); ",
            "a.dedup(); ",
            "a.retain(|x| x != 2); ",
            "a = a.order_by(|x, y| x < y); ",
            "n = a.reduce(|sum, x| sum + x, VALUE); ",
            "n = a.index_of(VALUE); ",
            "n = a.len(); ",
            "a == a; ",
            "a.drain(|x| x == VALUE); ",
            "a.shift(); ",
            "a.truncate(VALUE); ",
            "a.chop(VALUE); ",
            "a.reverse(); ",
            "a.for_each(|x| this += x); ",
            "s += s; ",
            "s += VALUE; ",
            "s = `${s}${a}`; ",
            "s = a.to_string(); ",
            "s = a.to_debug(); ",
            "s[0] = 'é'; ",
            "s = n.to_binary(); ",
            "n = n * VALUE; ",
            "n = n << VALUE; ",
            "n = n ** VALUE; ",
            "n += 1; ",
            "n.bits.len(); ",
            "f = |x| VALUE; ",
            "n = f.call(VALUE); ",
            "a.push(f); ",
            "s = f.name; ",
            "n = order_for(VALUE, n, orders); ",
            "n = patch(VALUE); ",
            "n = area.VALUE; ",
            "a = orders; ",
            "return VALUE; ",
            "throw VALUE; ",
            "break; ",
            "const n = VALUE; ",
            "let b = VALUE; ",
            "let m = #{a: VALUE}; ",
            "f = f.curry(VALUE); ",
            "n.is_shared(); ",
            "type_of(VALUE); ",
            "a = (0..VALUE).start; ",
        ],
    );
    let values = [
        "0",
        "1",
        "-1",
        "9",
        "n",
        "s",
        "a",
        "f",
        "1000000000",
        "9223372036854775807",
        "1.5e300",
        "'x'",
        "true",
    ];
    act.split_inclusive("VALUE")
        .map(|part| match part.strip_suffix("VALUE") {
            Some(part) => part.to_owned() + of(choices, &values).as_str(),
            None => part.to_owned(),
        })
        .collect()
}

const AREA: AreaFacts = AreaFacts {
    address: 0x7000_0020_0000,
    start: 0x7000_0000_0000,
    length: 2 << 30,
    kind: "anonymous",
    advice: "hugepage",
    shared: false,
    writable: true,
    executable: false,
    memory_bytes: 4 << 30,
    free_bytes: 1 << 30,
    free_blocks: 17,
};
const BLOCK: BlockFacts = BlockFacts { holes: 77, regions_with_holes: 3, aged: true };
const REGION: RegionFacts = RegionFacts { pages_present: 500, pages_absent: 12, pages_shared: 1 };
const WAY: WayFacts = WayFacts {
    name: "collapse",
    frames_copied: 500,
    frames_migrated: 3,
    frames_zeroed: 12,
    holes: 0,
};
const VICTIM: VictimFacts = VictimFacts {
    address: 0x7000_0020_0000,
    pages_present: 512,
    large: true,
    holes: 0,
    advice: "none",
};

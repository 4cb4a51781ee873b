//! Records of made-up experiments, with every form of chart and axis, and the edge cases.

use serde_json::{Value, json};

/// Records of one experiment, written line by line.
pub struct Records {
    name: String,
    lines: Vec<String>,
}

impl Records {
    /// An experiment whose first record has these fields besides its name.
    pub fn new(name: &str, fields: Value) -> Self {
        let mut header = json!({
            "record": "experiment", "experiment": name, "title": format!("Title of {name}"),
            "source": "X §1", "notes": [], "axis_label": "", "axis_form": "number", "curves": [],
            "charts": [], "seeds": 1, "seed": 1, "quick": false, "stand_ins": [],
            "warmup": null, "config": {"name": name}, "version": "9.9",
        });
        merge(&mut header, fields);
        Self { name: name.into(), lines: vec![header.to_string()] }
    }

    fn add(mut self, record: &str, fields: Value) -> Self {
        let mut line = json!({"record": record, "experiment": self.name});
        merge(&mut line, fields);
        self.lines.push(line.to_string());
        self
    }

    pub fn point(self, fields: Value) -> Self {
        let mut all = json!({"on_axis": true});
        merge(&mut all, fields);
        self.add("point", all)
    }

    pub fn claim(self, id: &str, verdict: &str, fields: Value) -> Self {
        let mut all = json!({
            "id": id, "statement": format!("Statement of {id}"), "source": "X §2",
            "kind": "number", "curve": "a", "show": "gain", "paper": 1.594, "relation": "=",
            "ours": 1.553, "verdict": verdict, "note": null, "explanation": null,
        });
        merge(&mut all, fields);
        self.add("claim", all)
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

fn merge(into: &mut Value, fields: Value) {
    let (Value::Object(into), Value::Object(fields)) = (into, fields) else {
        panic!("records are objects")
    };
    into.extend(fields);
}

fn curves(names: &[&str], show: &str) -> Value {
    names.iter().map(|name| json!({"name": name, "label": name, "show": show})).collect()
}

/// Lines over a share with intervals, and one claim of each verdict and a range.
pub fn lines() -> Records {
    let names = ["4k", "thp", "perforated", "perforated-dispersed"];
    let mut records = Records::new(
        "perforated/fig7",
        json!({
            "title": "Speed over the share of holes", "axis_label": "holes", "axis_form": "share",
            "curves": curves(&names, "gain"), "seeds": 3, "seed": 7, "notes": ["A note."],
            "warmup": "10M instructions, found from misses",
            "charts": [{"title": "Gain over 4KB pages", "form": "lines",
                "value_label": "speed gained over 4KB pages", "curves": names}],
        }),
    );
    for (number, name) in names.into_iter().enumerate() {
        for step in 0..=9 {
            let x = f64::from(step) / 10.0;
            let value = 1.0 + number as f64 * (0.8 - x) / 2.0;
            // A point of a claim that is not on the axis is on the line, too.
            records = records.point(json!({
                "curve": name, "x": x, "on_axis": step != 3, "value": value, "low": value - 0.04,
                "high": value + 0.06, "confidence": 0.75, "runs": 3,
            }));
        }
    }
    records
        .claim("P-C7", "reproduced", json!({"ours_low": 1.54, "ours_high": 1.561}))
        .claim("P-C7", "reproduced", json!({"paper": 1.2, "relation": "≥"}))
        .claim("P-C8", "same_direction", json!({"paper": 1.0, "relation": "≤", "note": "Noted."}))
        .claim("P-C9", "not_reproduced", json!({"explanation": "Memory is faster here."}))
        .claim(
            "P-C11",
            "reproduced",
            json!({"show": "percent", "relation": "range", "paper": 0.932, "paper_high": 0.999,
                "ours": null, "ours_least": 0.94, "ours_greatest": 0.995}),
        )
}

/// Bars over named places with intervals, a missing value, losses, and stand-ins.
pub fn bars() -> Records {
    let names = ["4k+4k", "2m+2m", "vmm-direct"];
    let places = [["gups", "GUPS"], ["mcf", "mcf → route"], ["graph", "graph500"]];
    let mut records = Records::new(
        "direct/fig11",
        json!({
            "title": "Overhead of virtualization", "axis_label": "workload",
            "axis_form": "places", "places": places, "curves": curves(&names, "gain"),
            "seeds": 5, "stand_ins": [["mcf", "a route planner"], ["omnetpp", "an event queue"]],
            "charts": [{"title": "Overhead", "form": "bars", "value_label": "overhead",
                "curves": names}],
        }),
    );
    for (row, [place, _]) in places.into_iter().enumerate() {
        for (column, name) in names.into_iter().enumerate() {
            let value = 1.3 + row as f64 * 0.4 - column as f64 * 0.35;
            let value = (row != 1 || column != 1).then_some(value);
            records = records.point(json!({
                "curve": name, "place": place, "value": value,
                "low": value.map(|value| value - 0.05), "high": value.map(|value| value + 0.03),
                "confidence": 0.9375, "runs": 5,
            }));
        }
    }
    records.claim("D-C2", "not_reproduced", json!({"ours": null, "explanation": ""})).claim(
        "D-C3",
        "reproduced",
        json!({"show": "ratio", "paper": 3.6, "ours": 3.5}),
    )
}

/// Stacks of plain numbers, and lines over sizes that span many powers.
pub fn stacks() -> Records {
    let names = ["tables", "bitmap", "shadow"];
    let mut records = Records::new(
        "gtsm/table1",
        json!({
            "title": "Memory for translation", "axis_label": "memory in MB",
            "curves": curves(&names, "number"),
            "charts": [
                {"title": "Page tables", "form": "stacked", "value_label": "KB", "curves": names},
                {"title": "Over sizes", "form": "lines", "value_label": "KB", "curves": names},
            ],
        }),
    );
    for (number, name) in names.into_iter().enumerate() {
        for power in 6..=13 {
            let x = 2f64.powi(power);
            let value = x * [2.0, 0.25, 0.004][number];
            records = records.point(json!({"curve": name, "x": x, "value": value, "runs": 1}));
        }
    }
    records.claim(
        "G-C1",
        "reproduced",
        json!({"show": "number", "paper": 2_097_152, "ours": 2_097_152, "kind": "closed-form"}),
    )
}

/// A chart of each form whose titles have letters that mean something in expressions.
pub fn odd_labels() -> Records {
    let odd = "a\\\"b\\' + \u{2028} ${c} \\u{41} \\";
    let names = ["2m", "4k"];
    let charts = ["lines", "bars", "stacked"]
        .map(|form| json!({"title": odd, "form": form, "value_label": odd, "curves": names}));
    let mut records = Records::new(
        "gtsm/odd",
        json!({"title": odd, "axis_label": odd, "curves": curves(&names, "number"), "charts": charts}),
    );
    for name in names {
        for x in [64.0, 128.0] {
            records =
                records.point(json!({"curve": name, "x": x, "value": x, "low": x, "high": x}));
        }
    }
    records
}

/// Two charts, each with a curve labelled `entries`: `size` in the first, and `other` in the second.
pub fn same_labels(other: &str) -> Records {
    let mut curves = vec![("size", "entries"), ("reach", "reach"), ("x", "x")];
    if other != "size" {
        curves.push((other, "entries"));
    }
    let headers: Vec<Value> = curves
        .iter()
        .map(|(name, label)| json!({"name": name, "label": label, "show": "number"}))
        .collect();
    let chart = |title: &str, curves: [&str; 2]| json!({"title": title, "form": "lines", "value_label": "", "curves": curves});
    let mut records = Records::new(
        "gtsm/labels",
        json!({
            "axis_label": "x", "curves": headers,
            "charts": [chart("First", ["size", "reach"]), chart("Second", [other, "x"])],
        }),
    );
    for (number, (name, _)) in curves.into_iter().enumerate() {
        for x in [1.0, 2.0, 3.0] {
            let value = x * (number + 1) as f64;
            records = records.point(json!({"curve": name, "x": x, "value": value}));
        }
    }
    records
}

/// Closed forms beside draws; one of them disagrees.
pub fn closed_forms() -> Records {
    let mut records = Records::new(
        "gtsm/fig3",
        json!({
            "title": "Blocks without a retired frame", "axis_label": "retired frames",
            "axis_form": "share", "curves": curves(&["2m"], "percent"),
            "charts": [{"title": "Blocks", "form": "lines", "value_label": "share", "curves": ["2m"]}],
        }),
    );
    for (x, value) in [(0.0, 1.0), (0.01, 0.25), (0.02, 0.001)] {
        records = records.point(json!({
            "curve": "2m", "x": x, "value": value, "drawn": value, "drawn_half_width_95": 0.001,
            "draws": 2_000_000, "agrees": x < 0.02,
        }));
    }
    records
}

/// Lines of so many points that these have no shapes.
pub fn dense() -> Records {
    let names = ["2m", "4k"];
    let mut records = Records::new(
        "gtsm/usable",
        json!({
            "title": "Usable memory", "axis_label": "retired frames", "axis_form": "share",
            "curves": curves(&names, "percent"),
            "charts": [{"title": "Usable", "form": "lines", "value_label": "share", "curves": names}],
        }),
    );
    for (number, name) in names.into_iter().enumerate() {
        for step in 0..=40 {
            let x = f64::from(step) / 100.0;
            let value = (1.0 - x).powi(1 + 2 * number as i32);
            records = records.point(json!({"curve": name, "x": x, "value": value}));
        }
    }
    records
}

/// Twenty curves over 25 places with long labels, as bars and as lines.
pub fn many() -> Records {
    let names: Vec<String> = (0..20).map(|index| format!("design-{index}")).collect();
    let places: Vec<[String; 2]> = (0..25)
        .map(|index| [format!("p{index}"), format!("a workload with a long name {index}")])
        .collect();
    let label = |name: &String| format!("{name} with dispersed unallocated holes");
    let headers: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "label": label(name), "show": "ratio"}))
        .collect();
    let chart = |form: &str| {
        json!({"title": format!("Everything as {form}"), "form": form, "value_label": "speed",
            "curves": names})
    };
    let mut records = Records::new(
        "perforated/many",
        json!({
            "title": "Twenty designs", "axis_label": "workload", "axis_form": "places",
            "places": places, "curves": headers,
            "charts": [chart("bars"), chart("lines"), chart("stacked")],
        }),
    );
    for (row, [place, _]) in places.iter().enumerate() {
        for (column, name) in names.iter().enumerate() {
            let value = 1.0 + (row * 7 + column * 3 % 11) as f64 / 50.0;
            records = records.point(json!({"curve": name, "place": place, "value": value}));
        }
    }
    records
}

/// An experiment of which nothing was measured.
pub fn empty() -> Records {
    Records::new(
        "direct/empty",
        json!({
            "axis_form": "places", "places": [["a", "A"]], "curves": curves(&["a"], "ratio"),
            "charts": [{"title": "Nothing", "form": "bars", "value_label": "", "curves": ["a"]}],
        }),
    )
    .claim("D-C9", "not_reproduced", json!({"ours": null, "paper": null, "show": "number"}))
}

/// Runs of seven guests on seven hosts and natively, two seeds each.
pub fn pairs() -> String {
    let names = ["4k", "thp", "1g", "perforated", "perforated-naive", "ideal", "segment"];
    let run = |scheme: String, pair: Option<(&str, &str)>, cycles: usize, seed: usize| {
        let counters = json!({"walks": 12 + seed, "l2_tlb_mpki": 15.25, "walk_cycles": 5,
            "references_per_walk": 4.0, "walk_references_level1": 12});
        let (guest, host) = pair.unzip();
        json!({"scheme": scheme, "guest": guest, "host": host, "workload": "w", "machine": "m",
            "seed": seed, "instructions": 1000, "cycles": cycles,
            "ipc": 1000.0 / cycles as f64, "counters": counters})
        .to_string()
    };
    let mut lines = Vec::new();
    for (seed, (index, guest)) in
        (0..2).flat_map(|seed| names.iter().enumerate().map(move |one| (seed, one)))
    {
        lines.push(run((*guest).to_owned(), None, 1500 + 10 * index, seed));
        for (column, host) in names.iter().enumerate() {
            let cycles = 2000 + 100 * index + 37 * column + 11 * seed;
            lines.push(run(format!("{guest}+{host}"), Some((*guest, *host)), cycles, seed));
        }
    }
    lines.join("\n")
}

/// An experiment with joint readings of two papers. Of paper P, `P-C1` follows the walkers, `P-C2` holds without
/// the prefetcher, `P-C3` never holds with `P-C1`, and `P-C4` holds in no reading. Of paper G nothing is open.
pub fn joint() -> String {
    let readings: Vec<[usize; 3]> =
        (0..40).map(|number| [number % 3, number / 3 % 2, number * 7 / 2 % 4]).collect();
    let values = ["", "walkers = 2", "walkers = 4"];
    let changed = |reading: &[usize; 3]| {
        let names =
            ["page walkers", "prefetcher", "a choice whose name is too long for half a line"];
        let changed = names.into_iter().zip(reading).filter(|(_, value)| **value > 0);
        let value = |name: &str, value: usize| match name {
            "page walkers" => values[value].to_owned(),
            _ => format!("value {value}"),
        };
        let changed = changed.map(|(name, number)| (name.to_owned(), json!(value(name, *number))));
        Value::Object(changed.collect())
    };
    let claim = |id: &str, holds: &dyn Fn(&[usize; 3]) -> bool| {
        let ours =
            |reading: &[usize; 3]| (reading[2] < 3).then_some(1.5 + reading[0] as f64 / 10.0);
        json!({
            "experiment": "perforated/fig7", "id": id, "statement": format!("Statement of {id}"),
            "verdict": "reproduced", "kind": "number", "show": "gain", "paper": 1.5, "relation": "=",
            "ours_in": readings.iter().map(ours).collect::<Vec<_>>(),
            "holds_in": readings.iter().map(holds).collect::<Vec<_>>(),
        })
    };
    let choice = |name: &str, values: &[&str]| json!({"name": name, "reason": "No source.", "values": values});
    let paper = json!({
        "record": "joint", "paper": "P", "quick": true,
        "choices": [
            choice("page walkers", &values[1..]),
            choice("prefetcher", &["value 1"]),
            choice("a choice whose name is too long for half a line", &["value 1", "value 2", "value 3"]),
        ],
        "readings": readings.iter().map(changed).collect::<Vec<Value>>(),
        "claims": [
            claim("P-C1", &|reading| reading[0] == 2),
            claim("P-C2", &|reading| reading[1] == 0),
            claim("P-C3", &|reading| reading[0] == 0),
            claim("P-C4", &|_| false),
            claim("P-C5", &|_| true),
            claim("P-C6", &|reading| reading[0] == 2 && reading[1] == 0),
        ],
    });
    let other = json!({
        "record": "joint", "paper": "G", "quick": true, "choices": [], "readings": [{}],
        "claims": [{"id": "G-C1", "statement": "s", "verdict": "reproduced", "holds_in": [true]}],
    });
    format!("{}\n{paper}\n{other}", lines().text())
}

/// Joint readings in which more choices matter, and more pairs of claims exclude each other, than are listed.
pub fn many_readings() -> String {
    const CHOICES: usize = 10;
    let bits = |reading: usize| (reading as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let is_set = |reading: usize, choice: usize| bits(reading) >> choice & 1 == 1;
    let name = |choice: usize| format!("choice {choice}");
    let readings = (0..100).map(|reading| -> Value {
        let changed = (0..CHOICES).filter(|choice| is_set(reading, *choice));
        changed.map(|choice| (name(choice), json!("on"))).collect()
    });
    let choices = (0..CHOICES)
        .map(|choice| json!({"name": name(choice), "reason": "No source.", "values": ["on"]}));
    // Of each choice, two claims hold with it and one without it.
    let claims = (0..3 * CHOICES).map(|number| {
        let (choice, is_with) = (number / 3, number % 3 > 0);
        let holds = (0..100).map(|reading| is_set(reading, choice) == is_with);
        json!({"id": format!("M-C{number}"), "statement": "s", "verdict": "reproduced",
            "holds_in": holds.collect::<Vec<_>>()})
    });
    json!({"record": "joint", "paper": "M", "quick": false, "choices": choices.collect::<Vec<_>>(),
        "readings": readings.collect::<Vec<_>>(), "claims": claims.collect::<Vec<_>>()})
    .to_string()
}

/// Claims whose values depend on what a paper leaves open: on two parameters, and on none.
pub fn left_open() -> Records {
    let places = [["gups", "GUPS"], ["mcf", "mcf"]];
    let mut records = Records::new(
        "perforated/open",
        json!({
            "title": "Left open", "axis_label": "workload", "axis_form": "places", "places": places,
            "curves": curves(&["a"], "gain"),
            "charts": [{"title": "Gain", "form": "bars", "value_label": "gain", "curves": ["a"]}],
        }),
    );
    for [place, _] in places {
        records = records.point(json!({
            "curve": "a", "place": place, "value": 1.5, "low": 1.25, "high": 1.75, "runs": 2,
        }));
    }
    let part =
        |name: &str, values: Value| json!({"name": name, "reason": "No source.", "values": values});
    let range = |reading: &str, parts: &[Value]| {
        json!({"unstated": {"default": 1.5, "least": 1.25, "greatest": 1.75, "variants": 43,
            "reproduced": 7, "reading": reading, "parts": parts}})
    };
    let decisive = [
        part("MSHRs", json!([["8", 1.25], ["32", 1.625]])),
        part("walkers", json!([["2", 1.625], ["4", null]])),
        part("prefetcher", json!([["none", 1.4375]])),
        part("no matter", json!([["1", 1.5]])),
    ];
    records
        .claim("P-C1", "not_reproduced", range("inside_the_range", &decisive))
        .claim("P-C2", "not_reproduced", range("in_none", &decisive[3..]))
        .claim("P-C3", "reproduced", range("at_the_default", &decisive[1..]))
}

/// Lines over numbers with claims about single points: a number, a bound, and a number that depends on what is
/// left open.
pub fn claimed_lines() -> Records {
    let names = ["2m", "4k"];
    let mut records = Records::new(
        "perforated/claimed",
        json!({
            "title": "Claims on lines", "axis_label": "memory in GB", "curves": curves(&names, "ratio"),
            "charts": [{"title": "Speed", "form": "lines", "value_label": "speed", "curves": names}],
        }),
    );
    for (number, name) in names.into_iter().enumerate() {
        for x in [1.0, 2.0, 4.0] {
            let value = 1.0 + (number + 1) as f64 * x / 8.0;
            records = records.point(json!({"curve": name, "x": x, "value": value}));
        }
    }
    let claim = |curve: &str, x: f64, paper: f64| json!({"curve": curve, "x": x, "show": "ratio", "paper": paper, "ours": paper + 0.125});
    let mut bound = claim("4k", 4.0, 1.75);
    merge(&mut bound, json!({"relation": "≥"}));
    let mut open = claim("2m", 4.0, 1.25);
    merge(
        &mut open,
        json!({"unstated": {"default": 1.375, "least": 1.25, "greatest": 1.5, "variants": 3,
            "reproduced": 1, "reading": "inside_the_range", "parts": []}}),
    );
    records
        .claim("P-C1", "reproduced", claim("2m", 2.0, 1.125))
        .claim("P-C2", "reproduced", bound)
        .claim("P-C3", "not_reproduced", open)
}

/// Curves without charts of their own, over places and over numbers, in several notations.
pub fn undrawn(name: &str, are_places: bool) -> Records {
    let places = [["gups", "GUPS"], ["mcf", "mcf"], ["tree", "a tree"]];
    let form =
        if are_places { json!({"axis_form": "places", "places": places}) } else { json!({}) };
    let shown = [("a", "gain"), ("b", "percent"), ("c", "ratio"), ("d", "number")];
    let curves = shown.map(|(name, show)| json!({"name": name, "label": name, "show": show}));
    let mut fields = json!({"title": "Without charts", "curves": curves});
    merge(&mut fields, form);
    let mut records = Records::new(name, fields);
    for (column, (curve, _)) in shown.into_iter().enumerate() {
        for (row, [place, _]) in places.into_iter().enumerate() {
            let value = 0.5 + (row + 4 * column) as f64 / 8.0;
            let at = if are_places { json!({"place": place}) } else { json!({"x": (row + 1) * 3}) };
            let mut point = json!({"curve": curve, "value": value, "drawn": value + 0.01,
                "drawn_half_width_95": 0.02, "draws": 1000 + row, "agrees": row != column});
            merge(&mut point, at);
            records = records.point(point);
        }
    }
    let explained = json!({"explanation": " Memory is faster. ", "tested_by": "perforated/fig7", "note": " Noted."});
    let bare = json!({"explanation": "Nobody knows.", "note": "  "});
    records.claim("G-C1", "not_reproduced", explained).claim("G-C2", "same_direction", bare)
}

/// Two charts of bars on one axis of values, with claims about single bars.
pub fn claimed_bars() -> Records {
    let (names, places) = (["a", "b", "c"], [["gups", "GUPS"], ["mcf", "mcf"]]);
    let chart = |title: &str, curves: &[&str]| json!({"title": title, "form": "bars", "value_label": "speed", "curves": curves});
    let mut records = Records::new(
        "direct/claimed",
        json!({
            "title": "Claims on bars", "axis_label": "workload", "axis_form": "places", "places": places,
            "curves": curves(&names, "ratio"), "charts": [chart("First", &names[..2]), chart("Second", &names[2..])],
        }),
    );
    for (column, curve) in names.into_iter().enumerate() {
        for (row, [place, _]) in places.into_iter().enumerate() {
            let value = 1.0 + (row + 2 * column) as f64 / 10.0;
            records = records.point(json!({"curve": curve, "place": place, "value": value,
                "low": value - 0.1, "high": value + 0.2, "runs": 3}));
        }
    }
    for (number, curve) in names.into_iter().enumerate() {
        for (place, relation) in [("gups", "="), ("mcf", ["=", "≥", "≤"][number])] {
            let paper = 1.05 + number as f64 / 5.0;
            let claim = json!({"curve": curve, "place": place, "show": "ratio", "paper": paper,
                "relation": relation, "ours": 1.0 + number as f64 / 4.0, "ours_low": 0.9});
            records = records.claim(&format!("D-C{number}{relation}{place}"), "reproduced", claim);
        }
    }
    // Numbers over several powers, of which one is not above 0.
    for number in 0..7 {
        let ours = if number == 6 { 0.0 } else { 10_f64.powi(number) };
        let claim =
            json!({"curve": "a", "show": "number", "paper": 9_f64.powi(number), "ours": ours});
        records = records.claim(&format!("D-N{number}"), "same_direction", claim);
    }
    records
}

/// Bars beside published ranges of several places, and beside a published mean.
pub fn ranges() -> Records {
    let names = ["gain", "share"];
    let curves = curves(&names, "gain");
    let mut made = Records::new(
        "mine/ranges",
        json!({
            "axis_label": "program", "axis_form": "places", "curves": curves,
            "places": [["mcf", "mcf"], ["xz", "xz"], ["other", "other"]],
            "charts": [
                {"title": "Gains", "form": "bars", "value_label": "more", "curves": ["gain"]},
                {"title": "Shares", "form": "bars", "value_label": "of all", "curves": ["share"]},
            ],
        }),
    );
    for place in ["mcf", "xz", "other"] {
        for curve in names {
            made = made.point(json!({"curve": curve, "place": place, "value": 1.05, "runs": 1}));
        }
    }
    made.claim(
        "P-1",
        "reproduced",
        json!({"curve": "gain", "relation": "range", "paper": 1.02,
            "paper_high": 1.115, "over": "every", "places": ["mcf", "xz"], "ours": 1.05}),
    )
    .claim(
        "P-2",
        "reproduced",
        json!({"curve": "share", "paper": 1.062, "over": "mean",
            "ours": 1.05}),
    )
}

/// Experiments of odd labels, open choices, claims on single points, and without charts, as one results file.
pub fn others() -> String {
    let records = [
        odd_labels(),
        left_open(),
        claimed_lines(),
        claimed_bars(),
        ranges(),
        undrawn("gtsm/places", true),
        undrawn("gtsm/numbers", false),
    ];
    records.map(|records| records.text()).join("\n")
}

/// All experiments above as one results file.
pub fn all() -> String {
    let records = [lines(), bars(), stacks(), closed_forms(), dense(), many(), empty()];
    records.map(|records| records.text()).join("\n")
}

//! Experiments on the page and in the terminal.

mod document;

use document::{check, check_geometry, figure, legend, text};
use perforate_report::{
    ExperimentResult, ReportOptions, Tally, experiments_html, experiments_table, read_experiments,
};

/// Two curves of three points, one of which lies there for a claim; one point disagrees.
fn sample() -> Vec<ExperimentResult> {
    read_experiments(&sample_lines().join("\n")).unwrap()
}

fn sample_lines() -> Vec<String> {
    let mut lines = vec![
        r#"{"record":"experiment","experiment":"a/b","title":"Blocks <whole>","source":"X §1","axis_label":"retired","value_label":"blocks","curves":[["2m","2MB page"],["p-gt-pde-2m","P-GT-PDE-2MB"]],"samples":2000000,"seed":7,"notes":["A note."],"config":{"k":1},"version":"9.9"}"#
            .to_owned(),
    ];
    for (curve, closed_form, agrees) in [("2m", "0.25", "false"), ("p-gt-pde-2m", "null", "null")] {
        for (x, on_axis) in [(0.0, true), (0.014, false), (0.02, true)] {
            lines.push(format!(
                r#"{{"record":"point","experiment":"a/b","curve":"{curve}","x":{x},"on_axis":{on_axis},"closed_form":{closed_form},"sampled":0.5,"half_width_95":0.001,"draws":10,"agrees":{agrees}}}"#
            ));
        }
    }
    for (verdict, relation) in
        [("reproduced", "="), ("same_direction", "≤"), ("not_reproduced", "≥")]
    {
        lines.push(format!(
            r#"{{"record":"claim","experiment":"a/b","id":"C<1>","statement":"It holds","source":"X §2","paper":0.5,"relation":"{relation}","ours":0.25,"verdict":"{verdict}"}}"#
        ));
    }
    lines
}

/// Another experiment over the same axis, and one over another.
#[test]
fn experiments_with_one_axis_stand_side_by_side() {
    let lines = sample_lines().join("\n");
    let same = lines.replace("\"a/b\"", "\"a/c\"");
    let other = lines.replace("\"a/b\"", "\"a/d\"").replace("\"retired\"", "\"usable\"");
    let results = read_experiments(&[lines, same, other].join("\n")).unwrap();
    let options = ReportOptions { title: "T".into(), command: "perforate experiment".into() };
    let page = experiments_html(&results, &options);
    check(&page, |document| {
        check_geometry(document);
        for name in ["a-b", "a-c"] {
            figure(document, &format!("{name}-beside-chart"));
            figure(document, &format!("{name}-chart"));
        }
        assert!(text(document.root()).contains("Side by side, over retired"));
    });
    assert_eq!(page.matches("id=\"a-d-beside").count(), 0);
    assert_eq!(experiments_html(&sample(), &options).matches("Side by side").count(), 0);
}

#[test]
fn a_table_for_the_terminal() {
    let text = experiments_table(&sample(), 100);
    assert!(text.contains("a/b: Blocks <whole> (X §1)"), "{text}");
    assert!(text.contains("average of 2.00M draws"), "{text}");
    assert!(text.contains("   2.00   25.000≠ 50.000±0.100        –  50.000±0.100"), "{text}");
    assert!(!text.contains("1.40"), "points of claims are no rows: {text}");
    assert!(text.contains("agrees with the closed form at 0 of 3 points"), "{text}");
    assert!(text.contains("1 reproduced, 1 same direction, 1 not reproduced"), "{text}");
    assert!(text.contains("paper ≤ 50.00 %    ours 25.00 %    same direction"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let tally = Tally { reproduced: 1, same_direction: 1, not_reproduced: 1 };
    assert_eq!(sample()[0].tally(), tally);
}

#[test]
fn a_page_with_a_chart_and_claims() {
    let options = ReportOptions { title: "T".into(), command: "perforate experiment".into() };
    let page = experiments_html(&sample(), &options);
    assert_eq!(page, experiments_html(&sample(), &options));
    check(&page, |document| {
        check_geometry(document);
        let chart = figure(document, "a-b-chart");
        assert_eq!(legend(chart), ["2MB page", "P-GT-PDE-2MB"]);
        let marks = chart.descendants().filter(|node| node.attribute("class") == Some("mark"));
        assert_eq!(marks.count(), 6, "points of claims are on the curve too");
        let words = text(document.root());
        for word in ["Blocks <whole>", "C<1>", "not reproduced", "A note.", "version 9.9"] {
            assert!(words.contains(word), "{word}");
        }
    });
}

//! Comparison of the measured runs with the designs of D Table IV.

use super::{Design, Measured, Runs, Shares, overhead};

/// Figures of one design: measured in a run, or predicted by a linear model.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the design.
    pub design: &'static str,
    /// True if the figures come from a run of the design, not from a model.
    pub is_measured: bool,
    /// Number of cycles spent in page walks.
    pub walk_cycles: f64,
    /// Walk cycles divided by the cycles of the whole native run.
    pub share_of_native: f64,
    /// Address-translation overhead (D §VIII); `None` if walks take all of the ideal run's time.
    pub overhead: Option<f64>,
}

/// Figures of all designs, with notes for readers.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Measured runs, followed by the designs of D Table IV.
    pub rows: Vec<Row>,
    /// Notes on the assumptions of the models.
    pub notes: Vec<String>,
}

/// Predicts the figures of all designs. The execution time of a predicted design is T_2Mideal plus its walk
/// cycles.
pub fn predict(runs: &Runs, shares: &Shares) -> Prediction {
    let ideal = runs.ideal_cycles();
    let share_of_native = |walk_cycles: f64| walk_cycles / runs.native.cycles;
    let measured = |design, run: &Measured| Row {
        design,
        is_measured: true,
        walk_cycles: run.walk_cycles,
        share_of_native: share_of_native(run.walk_cycles),
        overhead: ideal.map(|ideal| overhead(run.cycles, ideal)),
    };
    let mut rows = vec![measured("native (4K)", &runs.native)];
    rows.extend(runs.native_2m.iter().map(|run| measured("native (2M)", run)));
    rows.push(measured("virtualized (4K+4K)", &runs.virtualized));
    let costs = runs.costs();
    rows.extend(Design::ALL.map(|design| {
        let walk_cycles = design.walk_cycles(&costs, shares);
        Row {
            design: design.name(),
            is_measured: false,
            walk_cycles,
            share_of_native: share_of_native(walk_cycles),
            overhead: ideal.map(|ideal| overhead(ideal + walk_cycles, ideal)),
        }
    }));
    Prediction { rows, notes: notes(runs, shares) }
}

fn percent(share: f64) -> String {
    format!("{:.4}", share * 100.0).trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
}

fn notes(runs: &Runs, shares: &Shares) -> Vec<String> {
    let costs = runs.costs();
    let mut notes = vec![format!(
        "walk cycles per miss: {:.1} native (C_n), {:.1} virtualized (C_v); native misses (M_n): \
         {:.0}",
        costs.native_cycles, costs.virtualized_cycles, costs.native_misses
    )];
    notes.push(format!(
        "misses in segments: native {}, VMM {}, guest {}, both {}",
        percent(shares.segment()),
        percent(shares.vmm()),
        percent(shares.guest()),
        percent(shares.both())
    ));
    if runs.native.misses > 0.0 {
        notes.push(format!(
            "every model takes the native misses (D Table IV); the virtualized run had {:.2} times \
             as many, as nested entries may share the TLB",
            runs.virtualized.misses / runs.native.misses
        ));
    }
    notes.push(match (runs.ideal_cycles(), runs.native_2m) {
        (None, _) => "no overhead: the walks take as long as the run that should be the ideal, so \
                      they overlap too much to be subtracted"
            .into(),
        (_, Some(_)) => {
            "overhead is over the native 2M run less its walk cycles (D §VIII); models \
                         add their walk cycles to that"
                .into()
        }
        (_, None) => {
            "overhead is over the native 4K run less its walk cycles, for want of a native \
                      2M run (D §VIII)"
                .into()
        }
    });
    notes.push(
        "a check of a segment takes one cycle: 5 in VMM Direct, 1 in Guest Direct (D §VII); faster \
         TLB hits and fewer entries in the TLB are left out, and walks that overlap with other work \
         count in full"
            .into(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cycles: f64, misses: f64, walk_cycles: f64) -> Measured {
        Measured { cycles, misses, walk_cycles }
    }

    /// T_2Mideal = 1050 − 50 = 1000; C_n = 280/7 = 40, C_v = 1000/10 = 100, M_n = 7.
    #[test]
    fn worked_by_hand() {
        let runs = Runs {
            native: run(1_280.0, 7.0, 280.0),
            virtualized: run(2_130.0, 10.0, 1_000.0),
            native_2m: Some(run(1_050.0, 2.0, 50.0)),
        };
        let shares = Shares::new(1.0, None, None, None).unwrap();
        let prediction = predict(&runs, &shares);
        let row = |design: &str| {
            let found = prediction.rows.iter().find(|row| row.design.contains(design)).unwrap();
            let thousandths = |value: f64| (value * 1000.0).round();
            (found.is_measured, found.walk_cycles, found.overhead.map(thousandths))
        };
        assert_eq!(row("(4K)"), (true, 280.0, Some(280.0)));
        assert_eq!(row("(2M)"), (true, 50.0, Some(50.0)));
        assert_eq!(row("(4K+4K)"), (true, 1_000.0, Some(1_130.0)));
        assert_eq!(row("(DS)"), (false, 0.0, Some(0.0)));
        assert_eq!(row("(DD)"), (false, 0.0, Some(0.0)));
        // 45 × 7 and 41 × 7, relative to 1000.
        assert_eq!(row("VD"), (false, 315.0, Some(315.0)));
        assert_eq!(row("GD"), (false, 287.0, Some(287.0)));
        assert_eq!(prediction.rows[0].share_of_native, 280.0 / 1_280.0);
        assert!(prediction.notes.iter().any(|note| note.contains("1.43 times")));
    }

    #[test]
    fn no_overhead_where_walks_take_everything() {
        let native = run(100.0, 5.0, 100.0);
        let runs = Runs { native, virtualized: native, native_2m: None };
        let prediction = predict(&runs, &Shares::new(0.5, None, None, None).unwrap());
        assert!(prediction.rows.iter().all(|row| row.overhead.is_none()));
        assert!(prediction.notes.iter().any(|note| note.starts_with("no overhead")));
    }
}

//! How cost grows as work grows: instructions per second and memory of this process against the size
//! of the data, the number of schemes, of address spaces, and the length of the run.
//!
//! `cargo bench -p perforate-sim --bench scaling [-- data|schemes|spaces|length] [--svg FILE]` prints a
//! JSON line for each point and then the slope of each series: the exponent *e* of the power law
//! *x*ᵉ that fits it best. Every point runs in a process of its own, so that its memory is its own.

mod figure;
mod point;

use std::process::{Command, ExitCode};

use point::{Axis, Measured, Point};

fn main() -> ExitCode {
    let mut arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [point, text] = arguments.as_slice()
        && point == "--point"
    {
        let point: Point = serde_json::from_str(text).expect("a point as main writes it");
        println!("{}", serde_json::to_string(&point.measure()).expect("numbers"));
        return ExitCode::SUCCESS;
    }
    let svg = arguments.iter().position(|argument| argument == "--svg").map(|place| {
        let mut words = arguments.drain(place..).skip(1);
        words.next().expect("--svg wants a file")
    });
    let mut all: Vec<(Point, Measured)> = Vec::new();
    for axis in Axis::ALL {
        if !arguments.is_empty() && !arguments.iter().any(|name| name == axis.name()) {
            continue;
        }
        for point in axis.points() {
            match measured_alone(&point) {
                Some(measured) => all.push((point, measured)),
                None => return ExitCode::FAILURE,
            }
        }
    }
    for (axis, series) in series(&all) {
        let points = of(&all, axis, &series);
        let slope = |value: fn(&Measured) -> f64| {
            slope(points.iter().map(|(point, measured)| (point.x as f64, value(measured))))
        };
        println!(
            "{}",
            serde_json::json!({
                "axis": axis.name(),
                "series": series,
                "slope_of_instructions_per_second": slope(|it| it.instructions_per_second),
                "slope_of_memory": slope(|it| it.resident_bytes),
            })
        );
    }
    if let Some(path) = svg {
        figure::draw(path.as_ref(), &all).expect("the figure can be written");
    }
    ExitCode::SUCCESS
}

/// Measures a point in another process, and prints it.
fn measured_alone(point: &Point) -> Option<Measured> {
    let text = serde_json::to_string(point).expect("a point");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args(["--point", &text]).output().expect("it starts");
    let Ok(measured) = serde_json::from_slice::<Measured>(&output.stdout) else {
        eprintln!("{text}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    println!("{}", serde_json::json!({ "point": point, "measured": measured }));
    Some(measured)
}

/// Every series that there is, in order.
fn series(all: &[(Point, Measured)]) -> Vec<(Axis, String)> {
    let mut series: Vec<(Axis, String)> = Vec::new();
    for (point, _) in all {
        let one = (point.axis, point.series.clone());
        if !series.contains(&one) {
            series.push(one);
        }
    }
    series
}

/// The points of a series.
fn of<'a>(all: &'a [(Point, Measured)], axis: Axis, series: &str) -> Vec<&'a (Point, Measured)> {
    all.iter().filter(|(point, _)| point.axis == axis && point.series == series).collect()
}

/// The exponent of the power law that fits best: the slope of a straight line through logarithms.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let points: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let products = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>();
    let squares = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum::<f64>();
    (products / squares * 1000.0).round() / 1000.0
}

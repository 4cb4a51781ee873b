//! Measures how costs grow: instructions per second and memory of this process against the size of
//! the data, the number of schemes, the number of address spaces, and the length of the run.
//!
//! `cargo bench -p perforate-sim --bench scaling [-- data|schemes|spaces|length] [--svg FILE]` prints a
//! JSON line for each point, and then the slope of each series: the exponent *e* of the power law *x*ᵉ
//! that fits best. Every point runs in its own process, so that its memory is separate. `--points FILE`
//! reads the points from the output of an earlier run.

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
    let svg = value_of("--svg", &mut arguments);
    let all = match value_of("--points", &mut arguments) {
        Some(file) => Some(points_of(&file)),
        None => measure_all(&arguments),
    };
    let Some(all) = all else { return ExitCode::FAILURE };
    for (axis, series) in series(&all) {
        let points = series_points(&all, axis, &series);
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

/// Removes an option and its value from the arguments, and returns the value; `None` if the option
/// is missing.
fn value_of(option: &str, arguments: &mut Vec<String>) -> Option<String> {
    let place = arguments.iter().position(|argument| argument == option)?;
    let value = arguments.drain(place..(place + 2).min(arguments.len())).nth(1);
    Some(value.unwrap_or_else(|| panic!("{option} wants a file")))
}

/// A line of output: a point and its measurements.
#[derive(serde::Serialize, serde::Deserialize)]
struct Line {
    point: Point,
    measured: Measured,
}

/// Reads the points from the output of an earlier run.
fn points_of(file: &str) -> Vec<(Point, Measured)> {
    let text = std::fs::read_to_string(file).expect("a file with what an earlier run printed");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    lines.map(|Line { point, measured }| (point, measured)).collect()
}

/// Measures the named axes, or all axes without names; `None` if a measurement fails.
fn measure_all(names: &[String]) -> Option<Vec<(Point, Measured)>> {
    let is_wanted = |axis: &Axis| names.is_empty() || names.iter().any(|it| it == axis.name());
    let points = Axis::ALL.into_iter().filter(is_wanted).flat_map(Axis::points);
    points.map(|point| measured_alone(&point).map(|measured| (point, measured))).collect()
}

/// Measures a point in another process, and prints the line.
fn measured_alone(point: &Point) -> Option<Measured> {
    let text = serde_json::to_string(point).expect("a point");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args(["--point", &text]).output().expect("it starts");
    let Ok(measured) = serde_json::from_slice::<Measured>(&output.stdout) else {
        eprintln!("{text}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    let line = Line { point: point.clone(), measured };
    println!("{}", serde_json::to_string(&line).expect("numbers"));
    Some(measured)
}

/// Returns all series, in the order of their first points.
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

/// Returns the points of one series of an axis.
fn series_points<'a>(
    all: &'a [(Point, Measured)],
    axis: Axis,
    series: &str,
) -> Vec<&'a (Point, Measured)> {
    all.iter().filter(|(point, _)| point.axis == axis && point.series == series).collect()
}

/// Returns the exponent of the best-fitting power law, which is the slope of a straight line
/// through the logarithms.
fn slope(points: impl Iterator<Item = (f64, f64)>) -> f64 {
    let points: Vec<(f64, f64)> = points.map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let products = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>();
    let squares = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum::<f64>();
    (products / squares * 1000.0).round() / 1000.0
}

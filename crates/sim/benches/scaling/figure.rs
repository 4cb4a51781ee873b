//! Figure of all points, with one column per axis: instructions per second in the upper row, memory
//! in the lower.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::point::{Axis, Measured, Point};
use crate::{series, series_points};

/// Size of one diagram in pixels.
const WIDTH: u32 = 360;
const HEIGHT: u32 = 300;
/// Colours of the series of an axis, distinguishable by colour-blind readers (Okabe and Ito 2008).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

/// A measured quantity: title, value and range of its axis.
struct Quantity {
    title: &'static str,
    value: fn(&Measured) -> f64,
    /// Limits of the vertical axis.
    range: (f64, f64),
}

/// Draws all points as an SVG file.
pub fn draw(path: &Path, all: &[(Point, Measured)]) -> Result<(), Box<dyn Error>> {
    let axes: Vec<Axis> =
        Axis::ALL.into_iter().filter(|axis| all.iter().any(|it| it.0.axis == *axis)).collect();
    let size = (WIDTH * axes.len() as u32, 2 * HEIGHT);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let quantities = [
        Quantity {
            title: "instructions per second",
            value: |measured| measured.instructions_per_second,
            range: (2e4, 1e9),
        },
        Quantity {
            title: "memory of the simulator, bytes",
            value: |measured| measured.resident_bytes,
            range: (4e6, 3e10),
        },
    ];
    let areas = root.split_evenly((2, axes.len()));
    for (index, area) in areas.iter().enumerate() {
        let (quantity, axis) = (&quantities[index / axes.len()], axes[index % axes.len()]);
        let xs = all.iter().filter(|it| it.0.axis == axis).map(|it| it.0.x as f64);
        let (low, high) = xs.fold((f64::MAX, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(quantity.title, ("sans-serif", 14))
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(
                (low..high).log_scale(),
                (quantity.range.0..quantity.range.1).log_scale(),
            )?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(axis.title())
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .x_labels(5)
            .y_labels(5)
            .draw()?;
        let names = series(all).into_iter().filter(|(of, _)| *of == axis);
        for ((_, name), colour) in names.zip(COLOURS) {
            let points = series_points(all, axis, &name);
            let points: Vec<(f64, f64)> =
                points.iter().map(|it| (it.0.x as f64, (quantity.value)(&it.1))).collect();
            let line = LineSeries::new(points, colour.stroke_width(2)).point_size(3);
            chart.draw_series(line)?.label(name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 15, y)], colour.stroke_width(2))
            });
        }
        if index < axes.len() {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerLeft)
                .background_style(WHITE.mix(0.8))
                .label_font(("sans-serif", 12))
                .draw()?;
        }
    }
    root.present()?;
    Ok(())
}

/// Formats a number with at most four characters.
fn short(number: f64) -> String {
    let letters = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let letter = letters.into_iter().find(|(size, _)| number >= *size);
    letter.map_or(format!("{number:.0}"), |(size, letter)| format!("{:.0}{letter}", number / size))
}

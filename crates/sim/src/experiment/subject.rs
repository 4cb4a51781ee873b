//! What an experiment measures: one variant for each kind.

use serde::{Deserialize, Serialize};

use super::ExperimentOptions;
use super::curve::{Curve, Point};
use super::simulation::FaultyMemory;
use crate::capacity::{Contiguity, Design, Estimate, Sampling, Validity};
use crate::{Progress, parse_size};

/// What is measured, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Subject {
    /// Probability that a block of memory has no retired frame, over the share of these.
    CapacityContiguity {
        /// Sizes of blocks.
        blocks: Vec<String>,
    },
    /// Probability that a slice can hold a superpage, and the share of memory that these are, over
    /// the share of usable B-blocks.
    CapacityValidity {
        /// Usable B-blocks that a slice must have, 32 or more.
        thresholds: Vec<u32>,
    },
    /// Share of memory in large mappings, over the share of retired frames.
    CapacityShare {
        /// Ways to map memory ([`Design`]).
        designs: Vec<String>,
        /// Usable B-blocks that a slice must have, 32 or more.
        threshold: u32,
    },
    /// A figure of simulated runs, over the share of retired frames.
    FaultyMemory(FaultyMemory),
}

/// A curve before it is measured: its name, its label, and how its value at a place is had.
struct Plan {
    name: String,
    label: String,
    value: Box<dyn Fn(f64, Sampling) -> (Option<f64>, Estimate)>,
}

impl Subject {
    /// What the values are.
    pub fn value_label(&self) -> &'static str {
        match self {
            Self::CapacityContiguity { .. } => "blocks that are contiguous",
            Self::CapacityValidity { .. } => "slices, memory",
            Self::CapacityShare { .. } => "memory in large mappings",
            Self::FaultyMemory(runs) => runs.value_label(),
        }
    }

    /// Names and labels of the curves.
    ///
    /// # Errors
    /// The key that is wrong, and what would be right.
    pub fn curves(&self) -> Result<Vec<(String, String)>, String> {
        if let Self::FaultyMemory(runs) = self {
            return runs.curves();
        }
        Ok(self.plans()?.into_iter().map(|plan| (plan.name, plan.label)).collect())
    }

    /// Whether draws are whole runs, of which there are few.
    pub(super) fn draws_runs(&self) -> bool {
        matches!(self, Self::FaultyMemory(_))
    }

    /// Most draws for each point.
    pub(super) fn most_samples(&self) -> u64 {
        if self.draws_runs() { FaultyMemory::MOST_RUNS } else { ExperimentOptions::MOST_SAMPLES }
    }

    /// Measures all curves at these places.
    ///
    /// # Errors
    /// As [`Subject::curves`].
    pub fn measure(
        &self,
        places: &[f64],
        sampling: Sampling,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Curve>, String> {
        if let Self::FaultyMemory(runs) = self {
            return runs.measure(places, sampling, progress);
        }
        let plans = self.plans()?;
        let total = Some((plans.len() * places.len()) as u64);
        let mut done = 0;
        let mut curves = Vec::new();
        for (number, plan) in (0..).zip(plans) {
            let mut points = Vec::new();
            for &x in places {
                progress(Progress { done, total });
                let (closed_form, sampled) = (plan.value)(x, sampling.of(number, x));
                points.push(Point { x, closed_form, sampled: Some(sampled) });
                done += 1;
            }
            curves.push(Curve { name: plan.name, label: plan.label, points });
        }
        progress(Progress { done, total });
        Ok(curves)
    }

    fn plans(&self) -> Result<Vec<Plan>, String> {
        let plans: Vec<Plan> = match self {
            Self::CapacityContiguity { blocks } => {
                blocks.iter().map(|size| contiguity(size)).collect::<Result<_, _>>()?
            }
            Self::CapacityValidity { thresholds } => {
                let plans = thresholds.iter().map(|&threshold| validity(threshold));
                plans.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Self::CapacityShare { designs, threshold } => {
                check_threshold("subject.threshold", *threshold)?;
                let plans = designs.iter().map(|design| share(design, *threshold));
                plans.collect::<Result<_, _>>()?
            }
            Self::FaultyMemory(_) => Vec::new(),
        };
        if plans.is_empty() {
            return Err("subject: there is nothing to measure".into());
        }
        Ok(plans)
    }
}

fn contiguity(size: &str) -> Result<Plan, String> {
    let bytes = parse_size("subject.blocks", size).map_err(|error| error.to_string())?;
    let frames = if bytes % 4096 == 0 { bytes / 4096 } else { 0 };
    let block = Contiguity::new(frames)
        .map_err(|problem| format!("subject.blocks has {size:?}: {problem}"))?;
    Ok(Plan {
        name: size.into(),
        label: format!("{}B", size.trim_end_matches(['B', 'b'])),
        value: Box::new(move |x, sampling| {
            (Some(block.closed_form(x)), block.estimate(x, sampling))
        }),
    })
}

fn check_threshold(key: &str, threshold: u32) -> Result<(), String> {
    match threshold {
        32..=64 => Ok(()),
        _ => Err(format!("{key} has {threshold}; a superpage takes 32 of the 64 B-blocks")),
    }
}

fn validity(threshold: u32) -> Result<[Plan; 2], String> {
    check_threshold("subject.thresholds", threshold)?;
    let slices = Validity { threshold };
    Ok([
        Plan {
            name: format!("valid-{threshold}"),
            label: format!("valid, ≥ {threshold} of 64"),
            value: Box::new(move |x, sampling| {
                (Some(slices.closed_form(x)), slices.estimate(x, sampling))
            }),
        },
        Plan {
            name: format!("memory-{threshold}"),
            label: format!("memory, ≥ {threshold} of 64"),
            // A superpage is half of its slice.
            value: Box::new(move |x, sampling| {
                let drawn = slices.estimate(x, sampling);
                let (mean, half_width_95) = (drawn.mean / 2.0, drawn.half_width_95 / 2.0);
                let half = Estimate { mean, half_width_95, ..drawn };
                (Some(slices.closed_form(x) / 2.0), half)
            }),
        },
    ])
}

fn share(design: &str, threshold: u32) -> Result<Plan, String> {
    let design = Design::parse(design).map_err(|problem| format!("subject.designs: {problem}"))?;
    Ok(Plan {
        name: design.to_string(),
        label: design.label(),
        value: Box::new(move |x, sampling| {
            (design.closed_form(x, threshold), design.estimate(x, threshold, sampling))
        }),
    })
}

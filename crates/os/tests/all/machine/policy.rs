//! Policies by name, with options where a test wants some: `perforated:holes=lazy`.

use perforate_config::{ConfigError, read};
use perforate_os::{BasePages, Huge1G, Policy, Thp};
use perforate_schemes::gap_tolerant::GapTolerant;
use perforate_schemes::perforated::Perforated;
use perforate_schemes::segment::SegmentPolicy;
use serde::de::DeserializeOwned;

pub fn policy(text: &str) -> Box<dyn Policy> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let options = if options.is_empty() { "default" } else { options };
    match name {
        "base-pages" => Box::new(BasePages),
        "thp" => Box::new(Thp::new("thp")),
        "ideal" => Box::new(Thp::new("ideal")),
        "thp-madvise" => Box::new(Thp { needs_advice: true, ..Thp::new("thp-madvise") }),
        "huge-1g" => Box::new(Huge1G),
        "perforated" => made(options, Perforated::new),
        "gap-tolerant" => made(options, GapTolerant::new),
        "segment" => made(options, SegmentPolicy::new),
        _ => panic!("no policy {text}"),
    }
}

fn made<O: DeserializeOwned, P: Policy + 'static>(
    options: &str,
    make: fn(O) -> Result<P, ConfigError>,
) -> Box<dyn Policy> {
    Box::new(read(options).and_then(make).expect(options))
}

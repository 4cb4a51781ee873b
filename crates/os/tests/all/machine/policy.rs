//! Policies by name, with options: `perforated:holes=lazy`.

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
        "perforated" => read_policy(options, Perforated::new),
        "gap-tolerant" => read_policy(options, GapTolerant::new),
        "segment" => read_policy(options, SegmentPolicy::new),
        _ => panic!("no policy {text}"),
    }
}

fn read_policy<O: DeserializeOwned, P: Policy + 'static>(
    options: &str,
    make: fn(O) -> Result<P, ConfigError>,
) -> Box<dyn Policy> {
    Box::new(read(options).and_then(make).expect(options))
}

//! Policies by name, with options: `perforated:holes=lazy`.

use std::any::Any;

use perforate_config::{ConfigError, read};
use perforate_os::{BasePages, Huge1G, HugePageRule, Mthp, PageLayout, Policy, Thp};
use perforate_schemes::gap_tolerant::GapTolerant;
use perforate_schemes::perforated::Perforated;
use perforate_schemes::segment::SegmentPolicy;
use perforate_types::PageSize;
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
        "laid-out-over-1g" => Box::new(LaidOutOver1G::new()),
        "mthp" => Box::new(Mthp { name: "mthp", sizes: read(options).expect(options) }),
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

/// A layout with one 2MB page, at 1GB, and 1GB pages wherever else one fits.
struct LaidOutOver1G {
    layout: PageLayout,
}

impl LaidOutOver1G {
    fn new() -> Self {
        let start = PageSize::Size1G.bytes();
        let range = start..start + PageSize::Size2M.bytes();
        Self { layout: PageLayout::new([(range, PageSize::Size2M)]) }
    }
}

impl Policy for LaidOutOver1G {
    fn name(&self) -> &'static str {
        "laid-out-over-1g"
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.layout, &HugePageRule]
    }
}

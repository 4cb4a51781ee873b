//! Options of a made-up policy, read and written in all ways.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    /// All together.
    Clustered,
    /// Anywhere.
    Dispersed,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Policy {
    /// Blocks with less than
    /// this share.
    ///
    /// The paper uses 25 %.
    max_share: Share,
    /// Filter bits
    bits: Count<0, 8>,
    /// Least size
    min: Size,
    /// First address
    base: Option<Address>,
    /// Where holes lie
    #[serde(alias = "clustered", alias = "dispersed")]
    shape: Shape,
    /// Moves things
    compact: bool,
    /// Price of a hole
    cost: f64,
    /// Period
    every: Count,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_share: Share::WHOLE,
            bits: Count::new(8),
            min: Size(64 << 20),
            base: None,
            shape: Shape::Clustered,
            compact: false,
            cost: 2.0,
            every: Count::new(1_000_000),
        }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Memory {
    memory: Size,
    #[serde(default)]
    policy: Option<Policy>,
    #[serde(default)]
    host: Option<Box<Memory>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Faults {
    None,
    Uniform(Share),
}

#[test]
fn lists_are_read() {
    let policy: Policy =
        read("max-share=25%, bits=4,dispersed,compact,min=1G,base=0x1000,cost=1.5,every=2e6")
            .unwrap();
    let expected = Policy {
        max_share: Share::percent(25),
        bits: Count::new(4),
        min: Size(1 << 30),
        base: Some(Address(0x1000)),
        shape: Shape::Dispersed,
        compact: true,
        cost: 1.5,
        every: Count::new(2_000_000),
    };
    assert_eq!(policy, expected);
    assert_eq!(read("default"), Ok(Policy::default()));
    assert_eq!(
        read("max_share=0.25").map(|policy: Policy| policy.max_share),
        Ok(Share::percent(25))
    );
    assert_eq!(read::<Option<Policy>>("none"), Ok(None));
    assert_eq!(read("uniform=5%"), Ok(Faults::Uniform(Share::percent(5))));
    assert_eq!(read("none"), Ok(Faults::None));
}

#[test]
fn what_is_written_can_be_read() {
    let text =
        "max-share=25%,bits=4,min=1G,base=0x1000,shape=dispersed,compact=yes,cost=1.5,every=7";
    let policy: Policy = read(text).unwrap();
    assert_eq!(write(&policy), text);
    assert_eq!(
        write_changed(&policy, &Policy { bits: Count::new(4), ..Policy::default() }),
        "max-share=25%,min=1G,base=0x1000,shape=dispersed,compact=yes,cost=1.5,every=7"
    );
    assert_eq!(write(&Shape::Dispersed), "dispersed");
}

#[test]
fn mistakes_say_where_and_what_would_be_right() {
    for (text, problem) in [
        ("max-shore=25%", "there is no \"max-shore\"; did you mean max-share?"),
        ("scattered", "there is no \"scattered\"; there are max-share, bits,"),
        ("bits=9", "bits: is at most 8, not 9"),
        ("bits=many", "bits: expected a whole number such as 5000, 10M or 2e6, not \"many\""),
        ("bits", "bits: has no value; write bits=…"),
        ("bits=1,bits=2", "bits is given twice"),
        ("clustered,dispersed", "shape is given twice"),
        ("shape=round", "shape: expected clustered or dispersed, not \"round\""),
        ("compact=maybe", "compact: expected yes or no, not \"maybe\""),
        ("min=64", "min: 64 has no unit: 64M or 64G?"),
        ("max-share=101%", "max-share: expected a share from 0% to 100%, not \"101%\""),
        ("cost=inf", "cost: expected a number, not \"inf\""),
        ("bits=1,,", "there is no \"\""),
        ("", "is empty; write default"),
    ] {
        let error = read::<Policy>(text).expect_err(text).to_string();
        assert!(error.starts_with(problem), "{error}");
    }
    let error = read::<Faults>("row=1%").unwrap_err().to_string();
    assert_eq!(error, "expected none or uniform, not \"row\"");
    assert!(read::<Faults>("uniform").unwrap_err().to_string().contains("has no value"));
}

#[test]
fn options_can_be_replaced() {
    let mut given: OptionTexts = [("max-share", "10%"), ("bits", "3")].into_iter().collect();
    given.replace("max_share", "20%");
    given.replace("every", "7");
    let policy: Policy = given.read().unwrap();
    assert_eq!((policy.max_share, policy.bits.get()), (Share::percent(20), 3));
    assert_eq!(policy.every.get(), 7);
}

#[test]
fn options_come_one_by_one_and_in_groups() {
    let given: OptionTexts =
        [("memory", "16G"), ("host-memory", "20G"), ("host-policy", "bits=3"), ("seed", "7")]
            .into_iter()
            .collect();
    let mut given = given.grouped("host");
    assert!(given.contains("host") && !given.contains("host-memory"));
    let memory: Memory = given.take().unwrap();
    let host = memory.host.unwrap();
    assert_eq!((memory.memory, host.memory), (Size(16 << 30), Size(20 << 30)));
    assert_eq!(host.policy.unwrap().bits.get(), 3);
    let error = given.read::<Memory>().unwrap_err().to_string();
    assert_eq!(error, "there is no \"seed\"; there are memory, policy, host");

    let given: OptionTexts = [("memory", "1G"), ("host-policy", "bits=x")].into_iter().collect();
    let error = given.grouped("host").read::<Memory>().unwrap_err();
    assert_eq!(error.path().collect::<Vec<_>>(), ["host", "policy", "bits"]);
    let error = OptionTexts::default().read::<Memory>().unwrap_err().to_string();
    assert_eq!(error, "memory is missing");
}

/// Values in a file may also be truth values, and numbers for types that need no unit.
#[test]
fn files_are_read_by_the_same_types() {
    let json = r#"{"max_share": 0.25, "bits": 4, "min": "1G", "compact": true, "every": "2M"}"#;
    let policy: Policy = serde_json::from_str(json).unwrap();
    assert_eq!((policy.max_share, policy.bits.get()), (Share::percent(25), 4));
    assert_eq!((policy.min, policy.every), (Size(1 << 30), Count::new(2_000_000)));
    let error = serde_json::from_str::<Policy>(r#"{"min": 64}"#).unwrap_err().to_string();
    assert!(error.contains("64 has no unit: 64M or 64G?"), "{error}");
}

#[test]
fn changes_are_put_over_other_options() {
    let changes: Changes<Policy> = "min=1G,max-share=0.5".parse().unwrap();
    assert_eq!(changes.to_string(), "min=1G,max-share=50%");
    let base = Policy { bits: Count::new(4), min: Size(1 << 20), ..Policy::default() };
    let merged = changes.over(&base).unwrap();
    assert_eq!(merged, Policy { max_share: Share::percent(50), min: Size(1 << 30), ..base });
    assert_eq!(serde_json::to_string(&changes).unwrap(), "\"min=1G,max-share=50%\"");
    // An option that is given counts as changed, even if its value is the default.
    let changes: Changes<Policy> = "min=64M".parse().unwrap();
    assert_eq!(changes.over(&merged).unwrap().min, Size(64 << 20));
    let error = "mim=1G".parse::<Changes<Policy>>().unwrap_err().to_string();
    assert_eq!(error, "there is no \"mim\"; did you mean min?");
}

#[test]
fn lists_come_from_the_struct() {
    let keys = keys::<Policy>();
    let line = |key: &Key| format!("{}={} [{}] {}", key.name, key.form, key.default, key.help);
    assert_eq!(
        keys.iter().map(line).collect::<Vec<_>>(),
        [
            "max-share=S% [100%] Blocks with less than this share",
            "bits=0-8 [8] Filter bits",
            "min=SIZE [64M] Least size",
            "base=ADDRESS [none] First address",
            "shape=clustered|dispersed [clustered] Where holes lie",
            "compact=yes|no [no] Moves things",
            "cost=N [2] Price of a hole",
            "every=N [1000000] Period",
        ]
    );
    let words = words_of::<Shape>().into_iter().map(|word| (word.name, word.help));
    let shapes = [("clustered", "All together"), ("dispersed", "Anywhere")];
    let shapes = shapes.map(|(name, help)| (name.to_owned(), help.to_owned()));
    assert_eq!(words.collect::<Vec<_>>(), shapes);
    let names = super::keys::<Memory>().into_iter().map(|key| (key.name, key.form));
    let forms = [("memory", "SIZE"), ("policy", "KEY=VALUE,…"), ("host", "")];
    assert_eq!(names.collect::<Vec<_>>(), forms.map(|(name, form)| (name.into(), form.into())));
}

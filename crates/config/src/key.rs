//! Descriptions of options for lists and help.

use std::borrow::Cow;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Address, Section, Share, Size, option_texts, words};

/// Description of an option, for lists and help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the option in files and on the command line.
    pub name: String,
    /// Form of the option's values: `SIZE`, `S%`, `eager|lazy`. It comes from the type, or from the
    /// field (`#[schemars(extend("form" = "FILE"))]`).
    pub form: String,
    /// Default value as text; empty if the option is required or its default has no text.
    pub default: String,
    /// Effect of the option: the doc comment of the field.
    pub help: String,
    /// Effect of the option in one line: from the row of the option's table, or a copy of `help`.
    pub brief: String,
    /// Section of the help; `None` if the option's struct is not a [`Table`](crate::Table).
    pub section: Option<Section>,
    /// True if only `--help` shows the option, and `-h` does not.
    pub is_rare: bool,
    /// True if only the system that runs the program has the option, and not the host of a virtual machine.
    pub is_guest_only: bool,
}

/// Word that selects an enum variant in option texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Name of the variant as written in options.
    pub name: String,
    /// Meaning of the variant: its doc comment.
    pub help: String,
}

/// Words that select the variants of an enum, in the order of the variants.
pub fn words_of<T: JsonSchema>() -> Vec<Word> {
    let schema = SchemaSettings::default().into_generator().into_root_schema_for::<T>();
    let variants = alternatives(schema.as_value()).into_iter().flatten();
    let word = |variant: &Value| {
        let name = variant.get("const")?.as_str()?.to_owned();
        Some(Word { name, help: help(variant) })
    };
    variants.filter_map(word).collect()
}

/// Descriptions of the options of a struct, in the order of its fields.
pub fn keys<T: JsonSchema + DeserializeOwned>() -> Vec<Key> {
    let key = |(name, property): (String, Value)| {
        let said = |of: &str| property.get(of).and_then(Value::as_str).map(str::to_owned);
        let help = help(&property);
        Key {
            name: words::kebab(&name),
            form: said("form").unwrap_or_else(|| form(&property).into_owned()),
            default: property
                .get("default")
                .map_or(String::new(), |value| text_of(value, &property)),
            brief: help.clone(),
            help,
            section: None,
            is_rare: false,
            is_guest_only: false,
        }
    };
    properties::<T>().into_iter().map(key).collect()
}

/// Names and JSON schemas of a struct's fields, in their order.
pub(crate) fn properties<T: JsonSchema + DeserializeOwned>() -> Vec<(String, Value)> {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    // Aliases of fields are not properties.
    let fields = option_texts::fields::<T>().iter();
    fields.filter_map(|name| Some(((*name).to_owned(), properties.get(*name)?.clone()))).collect()
}

/// First paragraph of a field's doc comment, without the full stop.
fn help(property: &Value) -> String {
    let comment = property.get("description").and_then(Value::as_str).unwrap_or_default();
    let first = comment.split("\n\n").next().unwrap_or_default();
    first.replace('\n', " ").trim_end_matches('.').to_owned()
}

/// JSON schemas of the variants of an enum, or of an optional value.
fn alternatives(property: &Value) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().find_map(|key| property.get(key)?.as_array())
}

fn form(property: &Value) -> Cow<'static, str> {
    let number = |key: &str| property.get(key).and_then(Value::as_u64);
    let words = listed_words(property);
    if !words.is_empty() {
        return words.join("|").into();
    }
    if let Some(of) = alternatives(property) {
        let forms = of.iter().map(form).filter(|form| !form.is_empty());
        return forms.collect::<Vec<_>>().join("|").into();
    }
    match property.get("format").and_then(Value::as_str) {
        Some("size") => {
            return match (number("minimum"), number("maximum")) {
                (Some(least), Some(most)) => format!("{}-{}", Size(least), Size(most)).into(),
                _ => "SIZE".into(),
            };
        }
        Some("share") => return "S%".into(),
        Some("address") => return "ADDRESS".into(),
        Some("count") => {
            return match (number("minimum"), number("maximum")) {
                (Some(least), Some(most)) if most < u64::MAX => format!("{least}-{most}").into(),
                _ => "N".into(),
            };
        }
        _ => {}
    }
    let has_type = |name: &str| match property.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(all)) => all.iter().any(|one| one == name),
        _ => false,
    };
    match () {
        () if has_type("boolean") => "yes|no",
        () if has_type("integer") || has_type("number") => "N",
        () if has_type("object") => "KEY=VALUE,…",
        () if has_type("string") => "TEXT",
        () => "",
    }
    .into()
}

/// Words that a JSON schema lists: all words of an enum whose variants have no comments (key `enum`),
/// or the word of a single variant (key `const`).
fn listed_words(property: &Value) -> Vec<&str> {
    let listed = property.get("enum").and_then(Value::as_array);
    let mut words: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
    words.extend(property.get("const").and_then(Value::as_str));
    words
}

/// Text of an option's value, in the unit that its JSON schema names.
pub(crate) fn text_of(value: &Value, property: &Value) -> String {
    let unit = property.get("format").and_then(Value::as_str);
    match value {
        Value::Null => "none".into(),
        Value::Bool(truth) => if *truth { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (unit, number.as_u64(), number.as_f64()) {
            (Some("size"), Some(bytes), _) => Size(bytes).to_string(),
            (Some("address"), Some(address), _) => Address(address).to_string(),
            (Some("share"), _, Some(share)) => Share::from_number(share).to_string(),
            (_, None, Some(number)) => number.to_string(),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => String::new(),
    }
}

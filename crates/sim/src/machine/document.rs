//! Values in a TOML document, by dotted key: `tlb.l2.entries`.

use std::ops::Range;

use toml_edit::{Decor, Document, InlineTable, Item, Table, TableLike, Value};

/// A value in a document, with its key and its comment.
pub(super) struct Leaf {
    /// Dotted key, such as `tlb.l2.entries`.
    pub key: String,
    /// Value at that key.
    pub value: Value,
    /// Comment after the value, without the `#`.
    pub comment: String,
}

/// Returns all values in a table and its inner tables. Each value of an inline table is a separate
/// leaf, with the comment after the closing brace. Empty tables and arrays of tables are leaves as
/// well.
pub(super) fn leaves(table: &dyn TableLike) -> Vec<Leaf> {
    let mut found = Vec::new();
    add_leaves(table, "", "", &mut found);
    found
}

fn add_leaves(table: &dyn TableLike, path: &str, comment: &str, found: &mut Vec<Leaf>) {
    for (name, item) in table.iter() {
        let key = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let own = item.as_value().map(comment_after).unwrap_or_default();
        let comment = if own.is_empty() { comment } else { own };
        match item.as_table_like().filter(|inner| !inner.is_empty()) {
            Some(inner) => add_leaves(inner, &key, comment, found),
            None => found.extend(item.clone().into_value().ok().map(|value| {
                let comment = comment.to_owned();
                Leaf { key, value, comment }
            })),
        }
    }
}

fn comment_after(value: &Value) -> &str {
    let suffix = value.decor().suffix().and_then(|suffix| suffix.as_str()).unwrap_or("");
    suffix.trim().trim_start_matches('#').trim()
}

/// Finds the item at a dotted key; `None` if there is none.
pub(super) fn find<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a Item> {
    match key.split_once('.') {
        None => table.get(key),
        Some((section, rest)) => find(table.get(section)?.as_table_like()?, rest),
    }
}

/// Returns the comment after the value at `key`, which names the source of the value. Empty if
/// there is none.
pub(super) fn comment_of(table: &dyn TableLike, key: &str) -> String {
    let leaf = leaves(table).into_iter().find(|leaf| leaf.key == key);
    leaf.map_or(String::new(), |leaf| leaf.comment)
}

/// Sets the value at `key` with a comment after it, and creates missing tables. In an inline table the
/// comment goes after the closing brace.
///
/// # Errors
/// A part of the key names a value that is not a table.
pub(super) fn put(
    table: &mut dyn TableLike,
    key: &str,
    value: Value,
    comment: &str,
) -> Result<(), String> {
    let Some((section, rest)) = key.split_once('.') else {
        put_here(table, key, value, comment);
        return Ok(());
    };
    let item = table.entry(section).or_insert_with(|| Item::Table(Table::new()));
    // Some values are either a string or a table, such as the ways of a TLB or a separate array.
    if item.is_str() {
        *item = Item::Value(InlineTable::new().into());
    }
    if let Item::Value(Value::InlineTable(braces)) = item {
        // Inline tables cannot contain a new standard table.
        if rest.split_once('.').is_some_and(|(inner, _)| !braces.contains_key(inner)) {
            return Err(format!("{key}: {rest} is not a key of a table"));
        }
        put(braces, rest, value, "")?;
        tidy(braces);
        braces.decor_mut().set_suffix(comment_suffix(comment));
        return Ok(());
    }
    match item.as_table_like_mut() {
        Some(inner) => put(inner, rest, value, comment),
        None => Err(format!("{key}: {rest} is not a key of a table")),
    }
}

fn put_here(table: &mut dyn TableLike, key: &str, mut value: Value, comment: &str) {
    let old = table.get_mut(key);
    let decor = old.as_ref().and_then(|old| old.as_value()).map(Value::decor);
    let prefix = decor.and_then(|decor| decor.prefix()?.as_str()).unwrap_or(" ").to_owned();
    *value.decor_mut() = Decor::new(prefix, comment_suffix(comment));
    match old {
        // Comments above the key stay.
        Some(old) => *old = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Formats a comment for the end of a line; empty for no comment.
fn comment_suffix(comment: &str) -> String {
    if comment.is_empty() { String::new() } else { format!(" # {comment}") }
}

/// Puts one space around each value of an inline table, and none before commas.
fn tidy(braces: &mut InlineTable) {
    let last = braces.len().saturating_sub(1);
    for (index, (_, value)) in braces.iter_mut().enumerate() {
        value.decor_mut().set_suffix(if index == last { " " } else { "" });
    }
}

/// Removes the item at a dotted key, if there is one.
pub(super) fn remove(table: &mut dyn TableLike, key: &str) {
    match key.split_once('.') {
        None => drop(table.remove(key)),
        Some((section, rest)) => {
            if let Some(inner) = table.get_mut(section).and_then(Item::as_table_like_mut) {
                remove(inner, rest);
            }
        }
    }
}

/// Returns the dotted key whose name or value contains byte `place` of a text; `None` if there is
/// none.
pub(super) fn key_at(text: &str, place: usize) -> Option<String> {
    fn within(table: &dyn TableLike, place: usize) -> Option<String> {
        let has = |span: Option<Range<usize>>| span.is_some_and(|span| span.contains(&place));
        table.iter().find_map(|(name, item)| {
            let inner = item.as_table_like().and_then(|table| within(table, place));
            let is_here = || has(table.key(name).and_then(|key| key.span())) || has(item.span());
            match inner {
                Some(rest) => Some(format!("{name}.{rest}")),
                None => is_here().then(|| name.to_owned()),
            }
        })
    }
    within(Document::parse(text).ok()?.as_table(), place)
}

/// Returns the line, counted from 1, of a dotted key or of the innermost existing table around it.
/// `None` if neither exists.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let (mut table, mut line) = (document.as_table() as &dyn TableLike, None);
    for name in key.split('.') {
        let Some((key, item)) = table.get_key_value(name) else { break };
        let start = key.span()?.start;
        line = Some(text[..start].matches('\n').count() + 1);
        let Some(inner) = item.as_table_like() else { break };
        table = inner;
    }
    line
}

#[cfg(test)]
mod tests {
    use toml_edit::DocumentMut;

    use super::*;

    const TEXT: &str = "a = 1 # one\n[b]\nc = { d = 2, e = 3 } # braces\n[b.f]\ng = \"h\"\n";

    fn with(key: &str, value: &str) -> Result<String, String> {
        let mut document: DocumentMut = TEXT.parse().unwrap();
        put(document.as_table_mut(), key, value.parse().unwrap(), "why")?;
        Ok(document.to_string())
    }

    #[test]
    fn values_are_set_wherever_they_stand() {
        assert!(with("a", "2").unwrap().starts_with("a = 2 # why\n"));
        assert!(with("b.c.e", "4").unwrap().contains("c = { d = 2, e = 4 } # why\n"));
        assert!(with("b.c.x", "4").unwrap().contains("c = { d = 2, e = 3, x = 4 } # why\n"));
        assert!(with("b.f.g", "true").unwrap().contains("g = true # why\n"));
        assert!(with("b.n", "1").unwrap().contains("n = 1 # why\n"));
        assert!(with("x.y", "1").unwrap().contains("[x]\ny = 1 # why\n"));
        assert!(with("b.f.g.i", "1").unwrap().contains("g = { i = 1 } # why\n"));
        assert!(with("a.b", "1").unwrap_err().contains("not a key of a table"));
    }

    #[test]
    fn values_are_found_with_their_comments() {
        let document: DocumentMut = TEXT.parse().unwrap();
        let found: Vec<_> = leaves(document.as_table())
            .into_iter()
            .map(|leaf| format!("{}={} {}", leaf.key, leaf.value.to_string().trim(), leaf.comment))
            .collect();
        assert_eq!(found.len(), 4);
        assert!(found[0].starts_with("a=1") && found[0].ends_with("one"), "{found:?}");
        assert!(found[1].starts_with("b.c.d=2") && found[1].ends_with("braces"), "{found:?}");
        assert_eq!(find(document.as_table(), "b.c.e").and_then(Item::as_integer), Some(3));
        assert!(find(document.as_table(), "b.x.e").is_none());
        assert_eq!(comment_of(document.as_table(), "b.c.e"), "braces");
    }

    #[test]
    fn places_have_keys_and_keys_have_lines() {
        let at = |text: &str| key_at(TEXT, TEXT.find(text).unwrap()).unwrap();
        assert_eq!(
            (at("1 #"), at("e ="), at("\"h\"")),
            ("a".into(), "b.c.e".into(), "b.f.g".into())
        );
        assert_eq!(line_of(TEXT, "b.c.e"), Some(3));
        assert_eq!(line_of(TEXT, "b.f.g"), Some(5));
        assert_eq!(line_of(TEXT, "b.f.missing"), Some(4));
        assert_eq!(line_of(TEXT, "missing"), None);
    }

    /// Whole documents after a change: spaces, commas and comments stay as a person would write them.
    #[test]
    fn documents_stay_tidy() {
        let with = |text: &str, changes: &[(&str, &str, &str)]| {
            let mut document: DocumentMut = text.parse().unwrap();
            for &(key, value, comment) in changes {
                match value {
                    "" => remove(document.as_table_mut(), key),
                    _ => {
                        let value = value.parse().unwrap();
                        put(document.as_table_mut(), key, value, comment).unwrap();
                    }
                }
            }
            document.to_string()
        };
        let braces = "[a]\nb = { c = 1, d = 2 } # old\n";
        for (text, changes, expected) in [
            (braces, &[("a.b.c", "3", "new")][..], "[a]\nb = { c = 3, d = 2 } # new\n"),
            (braces, &[("a.b.d", "3", "")], "[a]\nb = { c = 1, d = 3 }\n"),
            (
                braces,
                &[("a.b.e", "3", "x"), ("a.b.f", "\"g\"", "y")],
                "[a]\nb = { c = 1, d = 2, e = 3, f = \"g\" } # y\n",
            ),
            ("[a]\nb = \"all\" # old\n", &[("a.b.c", "3", "n")], "[a]\nb = { c = 3 } # n\n"),
            (
                "[a]\nb = \"all\"\n",
                &[("a.b.c", "3", "n"), ("a.b.d", "4", "m")],
                "[a]\nb = { c = 3, d = 4 } # m\n",
            ),
            ("# top\na = 1 # one\n# low\n", &[("a", "2", "")], "# top\na = 2\n# low\n"),
            ("a = 1\nb = 2\n", &[("a", "", "")], "b = 2\n"),
            (
                "[a]\nb = 1\n[c]\nd = 2\n",
                &[("a.b", "", ""), ("c.x.y", "", "")],
                "[a]\n[c]\nd = 2\n",
            ),
            ("[a]\nb = 1\n", &[("c.d.e", "1", "n")], "[a]\nb = 1\n\n[c]\n\n[c.d]\ne = 1 # n\n"),
        ] {
            assert_eq!(with(text, changes), expected, "{changes:?}");
        }
        let mut document: DocumentMut = braces.parse().unwrap();
        let error = put(document.as_table_mut(), "a.b.x.y", 1.into(), "").unwrap_err();
        assert_eq!(error, "b.x.y: x.y is not a key of a table");
        let error = put(document.as_table_mut(), "a.b.c.y", 1.into(), "").unwrap_err();
        assert_eq!(error, "c.y: y is not a key of a table");
    }

    /// Empty tables and arrays of tables are values of their own; a value of an inline table has the comment
    /// after the brace, unless it has one itself.
    #[test]
    fn every_value_is_a_leaf() {
        let text = "a = {} # none\n[b]\n[[c]]\nd = 1\n[e]\nf = { g = 1, h = { i = 2 } } # all\n";
        let document: DocumentMut = text.parse().unwrap();
        let leaves = leaves(document.as_table());
        let found: Vec<_> = leaves.iter().map(|leaf| (&*leaf.key, &*leaf.comment)).collect();
        let expected = [("a", "none"), ("b", ""), ("c", ""), ("e.f.g", "all"), ("e.f.h.i", "all")];
        assert_eq!(found, expected);
        assert_eq!(comment_of(document.as_table(), "e.f.x"), "");
    }
}

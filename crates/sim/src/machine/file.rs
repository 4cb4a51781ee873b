//! Machine files: their text, the files that they inherit from, and changes of single values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use perforate_config::{Size, nearest, plain, read};
use toml_edit::{DocumentMut, Item, Value};

use super::document::{Leaf, comment_of, find, key_at, leaves, line_of, put, remove};
use super::plausible::forget;
use super::{BUNDLED, Machine, OfBundled, once, one_line};
use crate::SimError;

/// Largest number of parts of a dotted key. The longest valid key has four. Without a limit, deep
/// nesting would overflow the stack.
const MOST_PARTS: usize = 8;

/// Key that names the base: the machine file from which this file inherits.
const BASE: &str = "base";
/// Keys that a file does not inherit from its base, because they identify the base.
const OWN: [&str; 3] = ["name", "summary", "processors"];
/// Largest number of files in a chain of inheritance.
const MOST_BASES: usize = 8;

/// A machine file, merged with its bases, and with changed values.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// Name or path as requested, used in errors.
    name: String,
    /// Document of the file, merged with its bases.
    document: DocumentMut,
    /// The file itself, then its bases in the order of inheritance.
    sources: Vec<Source>,
    /// Values that replace values of the file, as the user wrote them, by key.
    set: BTreeMap<String, String>,
    /// Notes on the machine, which each result contains.
    remarks: Vec<String>,
    /// True if `document` differs from the text of the file.
    is_changed: bool,
}

/// A file and its text.
#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: String,
}

impl MachineFile {
    /// Loads the bundled machine of this name, or the machine file at this path.
    ///
    /// # Errors
    /// There is no such machine, the file is unreadable or invalid TOML, or its base does not
    /// exist. [`Self::machine`] checks the keys and values.
    pub fn load(name: &str) -> Result<Self, SimError> {
        static PARSED: OfBundled<MachineFile> = [const { OnceLock::new() }; BUNDLED.len()];
        once(&PARSED, name, || Self::of(Source { name: name.into(), text: text(name)? }))
    }

    /// Parses the text of a machine file. Errors refer to the file as `name`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_text(name: &str, text: &str) -> Result<Self, SimError> {
        Self::of(Source { name: name.into(), text: text.into() })
    }

    fn of(source: Source) -> Result<Self, SimError> {
        let name = source.name.clone();
        let mut sources = vec![source];
        let mut documents = vec![sources[0].document()?];
        while let Some(base) = documents[documents.len() - 1].get(BASE) {
            let last = &sources[sources.len() - 1];
            let base = last.base(base)?;
            last.check_chain(&sources, &base)?;
            documents.push(base.document()?);
            sources.push(base);
        }
        let mut below = documents.pop().expect("there is the file itself");
        for (document, source) in documents.iter().zip(&sources).rev() {
            below = source.over(document, below)?;
        }
        let is_changed = sources.len() > 1;
        let (set, remarks) = (BTreeMap::new(), Vec::new());
        Ok(Self { name, document: below, sources, set, remarks, is_changed })
    }

    /// Returns the text of the file, merged with its bases and changed values.
    pub fn text(&self) -> String {
        match self.sources.first() {
            Some(file) if !self.is_changed => file.text.clone(),
            _ => self.document.to_string(),
        }
    }

    /// Converts the document to a machine. Does not check the `[[plausible]]` sections.
    ///
    /// # Errors
    /// Unknown keys, values of a wrong type, or an impossible geometry.
    pub fn machine(&self) -> Result<Machine, SimError> {
        let machine = self.read().map_err(|problem| self.wrong(problem))?;
        machine.check().map_err(|problem| self.wrong(problem))?;
        Ok(machine)
    }

    /// Converts the document to a machine without checking that its values fit together.
    fn read(&self) -> Result<Machine, String> {
        let text = self.text();
        let machine: Machine =
            toml::from_str(&text).map_err(|error| self.error_with_place(&error, &text))?;
        Ok(Machine { set: self.set.clone(), remarks: self.remarks.clone(), ..machine })
    }

    fn wrong(&self, problem: String) -> SimError {
        SimError::Machine { name: self.name.clone(), problem }
    }

    /// Describes an error in the merged document, with its line in the file that contains the key.
    fn error_with_place(&self, error: &toml::de::Error, text: &str) -> String {
        let message = one_line(error, text);
        if !self.is_changed {
            return message;
        }
        let message = message.split_once(": ").map_or(message.as_str(), |(_, message)| message);
        let key = error.span().and_then(|span| key_at(text, span.start));
        let place = key.as_ref().and_then(|key| {
            self.sources.iter().find_map(|source| Some((source, line_of(&source.text, key)?)))
        });
        match place {
            Some((source, line)) if source.name == self.name => format!("line {line}: {message}"),
            Some((source, line)) => format!("line {line} of {}: {message}", source.name),
            None => key.map_or_else(|| message.into(), |key| format!("{key}: {message}")),
        }
    }

    /// Changes the value of a key. `text` is a TOML value, such as a number or an inline table, or
    /// a size if the key ends in `_bytes`; any other text is a string. [`Machine::ABSENT`] removes
    /// the key. Results mention the change.
    ///
    /// # Errors
    /// An unknown key, or a value that the key cannot have.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SimError> {
        let before = self.value(key);
        if before.as_deref() == Some(text) {
            self.set.insert(key.into(), text.into());
            return Ok(());
        }
        let name = find(self.document.as_table(), "name").and_then(Item::as_str);
        let name = name.unwrap_or(&self.name);
        let of_base = before.map_or(format!("{name} has none"), |was| format!("{was} in {name}"));
        let remark = match text {
            Machine::ABSENT => format!("machine: {key} is taken away; {of_base}"),
            _ => format!("{}{text}; {of_base}", Self::set_to(key)),
        };
        let source = comment_of(self.document.as_table(), key);
        let separator = if source.is_empty() { "" } else { "; " };
        self.change(key, text, &format!("set; {of_base}{separator}{source}"))
            .map_err(|problem| self.wrong(problem))?;
        self.set.insert(key.into(), text.into());
        self.remarks.push(remark);
        Ok(())
    }

    /// Changes the value of a key as [`Self::set`] does, and stores `source`, the origin of the
    /// value, as the comment after the value. Results do not mention the change.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn state(&mut self, key: &str, text: &str, source: &str) -> Result<(), SimError> {
        self.change(key, text, source).map_err(|problem| self.wrong(problem))
    }

    /// Returns the value of a key, in the form that [`Self::set`] takes; `None` if there is no such
    /// key.
    pub fn value(&self, key: &str) -> Option<String> {
        find(self.document.as_table(), key).map(written)
    }

    /// Returns the machine with other values for some keys.
    ///
    /// # Errors
    /// As [`Self::machine`].
    pub(super) fn machine_with(&self, changes: &[(String, String)]) -> Result<Machine, SimError> {
        let mut changed = Self { is_changed: true, ..self.clone() };
        changed.document.remove("plausible");
        for (key, text) in changes {
            changed.put_or_remove(key, text, "").map_err(|problem| self.wrong(problem))?;
        }
        changed.machine()
    }

    /// Returns the beginning of the note on a changed key.
    pub fn set_to(key: &str) -> String {
        format!("machine: {key} is set to ")
    }

    /// Adds a note on the machine, which the results of all runs on it contain.
    pub fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Replaces name and summary of the machine.
    pub fn rename(&mut self, name: &str, summary: &str) {
        self.document["name"] = toml_edit::value(name);
        self.document["summary"] = toml_edit::value(summary);
        self.is_changed = true;
    }

    fn change(&mut self, key: &str, text: &str, comment: &str) -> Result<(), String> {
        if text == Machine::ABSENT && self.value(key).is_none() {
            return Err(self.unknown(key, key));
        }
        let mut changed = self.clone();
        changed.put_or_remove(key, text, comment)?;
        forget(changed.document.as_table_mut(), &[key]);
        let text = changed.document.to_string();
        // A missing field is no error yet, because it may be set later.
        if let Err(error) = toml::from_str::<Machine>(&text)
            && !error.message().starts_with("missing field")
        {
            return Err(self.value_error(key, &error));
        }
        *self = Self { is_changed: true, ..changed };
        Ok(())
    }

    fn put_or_remove(&mut self, key: &str, text: &str, comment: &str) -> Result<(), String> {
        if key.split('.').count() > MOST_PARTS {
            return Err(self.unknown(key, key));
        }
        if text == Machine::ABSENT {
            remove(self.document.as_table_mut(), key);
            return Ok(());
        }
        self.put(key, value_of(key, text), comment)
    }

    fn put(&mut self, key: &str, value: Value, comment: &str) -> Result<(), String> {
        let table = self.document.as_table_mut();
        let Value::InlineTable(braces) = &value else { return put(table, key, value, comment) };
        // Sets key by key, so that the other keys of the table remain.
        for Leaf { key: inner, value, .. } in leaves(braces) {
            put(table, &format!("{key}.{inner}"), value, comment)?;
        }
        Ok(())
    }

    /// Describes an error in the value of `key` that was set.
    fn value_error(&self, key: &str, error: &toml::de::Error) -> String {
        let message = error.message().replace('\n', " ");
        match message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
            Some((name, _)) => self.unknown(key, name),
            None => format!("{key}: {}", plain(&message)),
        }
    }

    /// Describes an unknown key. `name` is the first unknown part of it.
    fn unknown(&self, key: &str, name: &str) -> String {
        let all: Vec<String> =
            leaves(self.document.as_table()).into_iter().map(|leaf| leaf.key).collect();
        let all: Vec<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|known| *known != BASE && !OWN.contains(known))
            .collect();
        let ends_so = |known: &&&str| {
            known.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case(key))
        };
        let of_near_parts: Vec<&str> =
            all.iter().copied().filter(|known| has_near_parts(key, known)).collect();
        let near = || nearest(key, &of_near_parts);
        if let Some(near) = all.iter().find(ends_so).copied().or_else(near) {
            return format!("there is no key {key:?}; did you mean {near}?");
        }
        let section = key.split_once('.').map_or("", |(section, _)| section);
        let here: Vec<&str> = all
            .iter()
            .copied()
            .filter(|known| name != section && known.split('.').next() == Some(section))
            .collect();
        let known = if here.is_empty() { sections(&all) } else { here };
        format!("there is no key {key:?}; there are {}", known.join(", "))
    }
}

/// False if a part of `key` (between dots) is not similar to the same part of the known key: `tlb.l1.entries`
/// and `tlb.l2.entries` differ in a letter, but it is the only one that matters. Keys with other numbers of parts
/// are not compared by parts.
fn has_near_parts(key: &str, known: &str) -> bool {
    let (parts, known) = (key.split('.'), known.split('.'));
    parts.clone().count() != known.clone().count()
        || parts.zip(known).all(|(part, known)| nearest(part, &[known]).is_some())
}

/// Returns the sections of keys, which are the parts before the first dot, without duplicates.
fn sections<'a>(keys: &[&'a str]) -> Vec<&'a str> {
    let mut sections: Vec<&str> = Vec::new();
    for section in keys.iter().filter_map(|key| Some(key.split_once('.')?.0)) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

/// Formats an item in the form that [`MachineFile::set`] takes.
fn written(item: &Item) -> String {
    match item {
        Item::Value(value) => {
            let mut value = value.clone();
            value.decor_mut().clear();
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        }
        _ => "a section".into(),
    }
}

/// Parses a TOML value, or a size in bytes; any other text is a string.
fn value_of(key: &str, text: &str) -> Value {
    if let Ok(value) = text.parse::<Value>() {
        return value;
    }
    match read::<Size>(text) {
        Ok(size) if key.ends_with("_bytes") => {
            i64::try_from(size.bytes()).map_or_else(|_| text.into(), Value::from)
        }
        _ => text.into(),
    }
}

/// Returns the text of a machine file, without its base.
fn text(name: &str) -> Result<String, SimError> {
    if let Some((_, text)) = BUNDLED.iter().find(|(bundled, _)| *bundled == name) {
        return Ok((*text).into());
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") && !path.exists() {
        let known: Vec<&str> = BUNDLED.iter().map(|(name, _)| *name).collect();
        let suggestion = perforate_config::suggestion(name, &known);
        return Err(SimError::UnknownMachine { name: name.into(), suggestion });
    }
    perforate_config::read_text(path)
        .map_err(|source| SimError::MachineFile { path: path.into(), source })
}

impl Source {
    fn wrong(&self, problem: impl Into<String>) -> SimError {
        SimError::Machine { name: self.name.clone(), problem: problem.into() }
    }

    fn document(&self) -> Result<DocumentMut, SimError> {
        self.text.parse().map_err(|error: toml_edit::TomlError| {
            let start = error.span().map_or(0, |span| span.start.min(self.text.len()));
            let line = self.text[..start].matches('\n').count() + 1;
            self.wrong(format!("line {line}: {}", error.message().replace('\n', " ")))
        })
    }

    /// Loads the file's base: a bundled machine, or a path relative to the folder of this file.
    fn base(&self, item: &Item) -> Result<Self, SimError> {
        let at = |problem: String| {
            let line = line_of(&self.text, BASE).unwrap_or(1);
            self.wrong(format!("line {line}: {BASE}: {problem}"))
        };
        let Some(named) = item.as_str() else {
            return Err(at("expected the name of a machine or a file, in quotes".into()));
        };
        let is_bundled = BUNDLED.iter().any(|(bundled, _)| *bundled == named);
        if is_bundled {
            return Ok(Self {
                name: named.into(),
                text: text(named).map_err(|error| at(error.to_string()))?,
            });
        }
        let folder = Path::new(&self.name).parent().unwrap_or(Path::new(""));
        let path = folder.join(named);
        // Other paths are not machine files, and may be devices that can be read without end.
        if path.extension().is_none_or(|extension| extension != "toml") {
            let known: Vec<&str> = BUNDLED.iter().map(|(name, _)| *name).collect();
            return Err(at(format!(
                "no machine {named:?}; {}; or give the path of a machine file (.toml) from the \
                 folder of this one",
                perforate_config::suggestion(named, &known)
            )));
        }
        let name = path.to_string_lossy().into_owned();
        let text = text(&name).map_err(|error| at(error.to_string()))?;
        Ok(Self { name, text })
    }

    /// Checks that `base` is not in the chain of inheritance already, and does not make it too
    /// long.
    fn check_chain(&self, chain: &[Self], base: &Self) -> Result<(), SimError> {
        let place = |source: &Self| {
            std::fs::canonicalize(&source.name).unwrap_or_else(|_| PathBuf::from(&source.name))
        };
        let names = || {
            let names = chain.iter().chain([base]).map(|source| source.name.as_str());
            names.collect::<Vec<_>>().join(", then ")
        };
        if chain.iter().any(|source| place(source) == place(base)) {
            return Err(self.wrong(format!("{BASE}: goes round in a circle: {}", names())));
        }
        if chain.len() >= MOST_BASES {
            let problem = format!("more than {MOST_BASES} files are based on each other");
            return Err(self.wrong(format!("{BASE}: {problem}: {}", names())));
        }
        Ok(())
    }

    /// Merges this file's document with that of its base. This file's values take precedence.
    fn over(&self, own: &DocumentMut, mut base: DocumentMut) -> Result<DocumentMut, SimError> {
        let of_base = written(&own[BASE]);
        base.remove("processors"); // The base describes these processors; this file does not.
        let mut keys = Vec::new();
        let values = leaves(own.as_table()).into_iter();
        for leaf in values.filter(|leaf| ![BASE, "plausible"].contains(&leaf.key.as_str())) {
            self.put_over(&leaf, &mut base)?;
            if !OWN.contains(&leaf.key.as_str()) {
                keys.push(leaf.key);
            }
        }
        let summary = format!("{of_base} with other values of {}", keys.join(", "));
        for (key, text) in [("name", self.stem()), ("summary", summary)] {
            if own.get(key).is_none() {
                base[key] = toml_edit::value(text);
            }
        }
        forget(base.as_table_mut(), &keys);
        add_plausible(own, &mut base);
        Ok(base)
    }

    fn put_over(&self, leaf: &Leaf, base: &mut DocumentMut) -> Result<(), SimError> {
        let Leaf { key, value, comment } = leaf;
        if value.as_str() == Some(Machine::ABSENT) {
            remove(base.as_table_mut(), key);
            return Ok(());
        }
        let is_empty = value.as_inline_table().is_some_and(|table| table.is_empty());
        if is_empty && find(base.as_table(), key).is_some_and(Item::is_table_like) {
            return Ok(());
        }
        let comment = if comment.is_empty() { &self.name } else { comment };
        put(base.as_table_mut(), key, value.clone(), comment).map_err(|problem| self.wrong(problem))
    }

    /// Returns the file name without folder and extension.
    fn stem(&self) -> String {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default();
        stem.to_string_lossy().replace(char::is_control, " ")
    }
}

/// Appends the file's `[[plausible]]` sections to those of its base.
fn add_plausible(own: &DocumentMut, whole: &mut DocumentMut) {
    let Some(entries) = own.get("plausible").and_then(Item::as_array_of_tables) else { return };
    let all = whole
        .entry("plausible")
        .or_insert_with(|| Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    if let Some(all) = all.as_array_of_tables_mut() {
        for entry in entries {
            let mut entry = entry.clone();
            entry.set_position(Some(isize::MAX)); // after the sections of the base
            all.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plausible;
    use super::*;

    /// Writes these files to a folder, and loads the first one. Returns the machine and its text.
    fn load(files: &[(&str, &str)]) -> Result<(Machine, String), String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().join(files[0].0);
        let name = path.to_str().unwrap();
        let without_folder =
            |error: SimError| error.to_string().replace(folder.path().to_str().unwrap(), "");
        Ok((
            Machine::load(name).map_err(without_folder)?,
            Machine::text(name).map_err(without_folder)?,
        ))
    }

    /// Replaces every number of a file, one by one, by values that no machine has.
    #[test]
    fn numbers_that_no_machine_has() {
        let text = text("perforated-table2").unwrap();
        let mut tried = 0;
        for line in text.lines().filter(|line| !line.contains('{')) {
            let Some((key, rest)) = line.split_once(" = ") else { continue };
            if !rest.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            for wrong in ["-1", "9223372036854775807", "nan", "inf", "1e300", "\"x\"", "[]"] {
                let changed = text.replacen(line, &format!("{key} = {wrong}"), 1);
                let error = load(&[("machine.toml", &changed)]).unwrap_err();
                assert!(error.starts_with("machine /machine.toml: "), "{key} = {wrong}: {error}");
            }
            tried += 1;
        }
        assert!(tried > 40, "{tried} numbers in the file");
    }

    #[test]
    fn a_file_may_say_only_what_differs() {
        let text = "base = \"ice-lake-sp\"\ntlb.l2.entries = 4096 # a guess\n\n[core]\nwidth = 6\n\
                    [cache]\nllc = \"absent\"\n";
        let (machine, text) = load(&[("mine.toml", text)]).unwrap();
        let base = Machine::load("ice-lake-sp").unwrap();
        assert_eq!((machine.tlb.l2.entries, machine.tlb.l2.ways), (4096, base.tlb.l2.ways));
        assert_eq!((machine.core.width, machine.core.retire_width), (6, base.core.retire_width));
        assert!(machine.cache.llc.is_none() && base.cache.llc.is_some());
        assert_eq!(machine.name, "mine");
        assert_eq!(
            machine.summary,
            "ice-lake-sp with other values of tlb.l2.entries, core.width, cache.llc"
        );
        assert!(machine.processors.is_empty(), "it is no processor that anybody built");
        assert!(text.contains("# a guess"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("width = 6 # ")), "{text}");
    }

    /// A section without entries leaves the base's as it is; it is no section that replaces it.
    #[test]
    fn an_empty_section_changes_nothing() {
        let base = Machine::load("ice-lake-sp").unwrap();
        for text in ["cache.l1d = {}\n", "[cache]\nl2 = {}\n", "tlb = {}\n"] {
            let text = format!("base = \"ice-lake-sp\"\n{text}");
            let (machine, _) = load(&[("mine.toml", &text)]).unwrap();
            let (found, expected) = ((&machine.cache, &machine.tlb), (&base.cache, &base.tlb));
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{text}");
        }
    }

    /// A size in bytes is a number only where bytes are asked for, and only if it fits.
    #[test]
    fn values_are_numbers_sizes_or_texts() {
        for (key, text, expected) in [
            ("size_bytes", "64K", "65536"),
            ("cache.l1d.size_bytes", "4096", "4096"),
            ("size_bytes", "9223372036854775807", "9223372036854775807"),
            ("size_bytes", "9223372036854775808", "\"9223372036854775808\""),
            ("size", "64K", "\"64K\""),
            ("width", "6", "6"),
            ("ghz", "2.5", "2.5"),
            ("perfect", "true", "true"),
            ("kind", "stride", "\"stride\""),
        ] {
            assert_eq!(value_of(key, text).to_string().trim(), expected, "{key} = {text}");
        }
    }

    #[test]
    fn files_can_be_based_on_files() {
        let own = "base = \"between.toml\"\nname = \"own\"\nsummary = \"all mine\"\n";
        let between = "base = \"gtsm-table4\"\nwalker.walkers = 3\ndram.channels = 2\n";
        let (machine, _) = load(&[("own.toml", own), ("between.toml", between)]).unwrap();
        assert_eq!((machine.name.as_str(), machine.summary.as_str()), ("own", "all mine"));
        assert_eq!((machine.walker.walkers, machine.dram.channels), (3, 2));
    }

    #[test]
    fn what_is_left_open_of_other_values_is_forgotten() {
        let base = Machine::load("gtsm-table4").unwrap();
        let own = "base = \"gtsm-table4\"\ncore.width = 6\n[[plausible]]\nname = \"width\"\n\
                   reason = \"a guess\"\nvalues = [{ core.width = 5 }]\n";
        let (machine, _) = load(&[("own.toml", own)]).unwrap();
        let has =
            |machine: &Machine, name: &str| machine.plausible.iter().any(|one| one.name == name);
        let widths = |part: &&Plausible| part.values.iter().any(|value| value.contains_key("core"));
        assert!(has(&machine, "width"));
        assert_eq!(machine.plausible.iter().filter(widths).count(), 1, "that of the file itself");
        assert!(machine.plausible.len() <= base.plausible.len() + 1);
    }

    #[test]
    fn mistakes_name_file_line_and_what_would_be_right() {
        let based = |text: &str| format!("base = \"ice-lake-sp\"\n{text}\n");
        let one = |text: String| load(&[("m.toml", &text)]).map(|_| ()).unwrap_err();
        for (text, problem) in [
            ("[tlb]\nl2_3m = 3", "/m.toml: line 3: unknown field `l2_3m`; did you mean `l2_2m`?"),
            ("tlb.l2.ents = 3", "/m.toml: line 2: unknown field `ents`"),
            ("[[caches]]\nx = 1", "line 2: unknown field `caches`; did you mean `cache`?"),
            ("[cash]", "line 2: unknown field `cash`"),
            ("core.width = \"wide\"", "/m.toml: line 2: expected a whole number"),
            ("tlb = 3", "line 2: expected keys and values in braces"),
            ("tlb.l2.entries = 17", "/m.toml: tlb.l2: 17 entries in"),
            ("tlb.l2 = \"absent\"", "missing field `l2`"),
            ("name = \"two\\nlines\"", "one line"),
        ] {
            let message = one(based(text));
            assert!(message.contains(problem) && !message.contains('\n'), "{message}");
        }
        for (text, problem) in [
            ("base = 3", "line 1: base: expected the name of a machine or a file, in quotes"),
            ("\nbase = \"ice\"", "line 2: base: no machine \"ice\"; did you mean ice-lake-sp?"),
            ("base = \"no.toml\"", "line 1: base: /no.toml: No such file"),
            ("base = \"m.toml\"", "base: goes round in a circle: /m.toml, then /m.toml"),
        ] {
            let message = one(text.into());
            assert!(message.contains(problem), "{message}");
        }
        let files =
            [("a.toml", "base = \"b.toml\""), ("b.toml", "base = \"gtsm-table4\"\nx = 1\n")];
        let message = load(&files).unwrap_err();
        assert!(message.contains("/a.toml: line 2 of /b.toml: unknown field `x`"), "{message}");
        let names: Vec<String> = (0..=MOST_BASES).map(|number| format!("{number}.toml")).collect();
        let next = |number: usize| format!("base = \"{}.toml\"", number + 1);
        let texts: Vec<String> = (0..=MOST_BASES).map(next).collect();
        let files: Vec<_> =
            names.iter().zip(&texts).map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let message = load(&files).unwrap_err();
        assert!(message.contains("more than 8 files are based on each other"), "{message}");
    }

    #[test]
    fn changes_are_noted() {
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        file.set("tlb.l2", "{ entries = 1024, ways = 8 }").unwrap();
        file.set("cache.l2.size_bytes", "512K").unwrap();
        file.set("cache.llc", Machine::ABSENT).unwrap();
        let machine = file.machine().unwrap();
        assert_eq!((machine.tlb.l2.entries, machine.cache.l2.size_bytes), (1024, 512 << 10));
        assert!(machine.cache.llc.is_none());
        assert_eq!(machine.set["cache.l2.size_bytes"], "512K");
        let remark = "machine: cache.l2.size_bytes is set to 512K; 262_144 in gtsm-table4";
        assert!(machine.remarks.iter().any(|one| one == remark), "{:?}", machine.remarks);
        let json = serde_json::to_value(&machine).unwrap();
        assert_eq!(json["set"]["cache.llc"], "absent");
        let text = file.text();
        assert!(text.contains("size_bytes = 524288 # set; 262_144 in gtsm-table4"), "{text}");
        assert_eq!(Machine::from_text("m", &text).unwrap().tlb, machine.tlb);
        let same = &mut MachineFile::load("gtsm-table4").unwrap();
        same.set("core.frequency_ghz", "3.0").unwrap();
        assert_eq!(same.machine().unwrap().remarks, [""; 0], "as it was");
    }

    #[test]
    fn a_machine_can_be_given_another_name() {
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        file.rename("mine", "as I have it");
        let machine = file.machine().unwrap();
        assert_eq!((machine.name.as_str(), machine.summary.as_str()), ("mine", "as I have it"));
    }

    #[test]
    fn a_section_can_be_set_key_by_key() {
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        file.set("virtualization.nested_tlb.entries", "0").unwrap();
        assert!(file.machine().unwrap_err().to_string().contains("missing field `ways`"));
        file.set("virtualization.nested_tlb.ways", "0").unwrap();
        let nested = file.machine().unwrap().virtualization.nested_tlb.unwrap();
        assert_eq!((nested.entries, nested.ways), (0, 0));
    }

    #[test]
    fn keys_that_there_are_not_name_the_nearest() {
        for (key, value, problem) in [
            ("tlb.l2.entrys", "3", "did you mean tlb.l2.entries?"),
            (
                "tbl.l2.entries",
                "3",
                "there is no key \"tbl.l2.entries\"; did you mean tlb.l2.entries?",
            ),
            ("cache.l1d.size", "1B", "did you mean cache.l1d.size_bytes?"),
            ("tlb.l1d.entries", "3", "there are tlb.tagged, tlb.l1_data_4k.entries, "),
            ("walkers", "3", "did you mean walker.walkers?"),
            ("walker.slits", "3", "there are walker.walkers, "),
            ("zzzzzzzzzzzz", "3", "there are tlb, walk_cache, "),
            ("cache.l4", "absent", "there is no key \"cache.l4\""),
            ("walker.walkers.more", "3", "not a key of a table"),
            ("walker.walkers", "many", "walker.walkers: expected a whole number of at most"),
            ("cache.l2.size_bytes", "large", "cache.l2.size_bytes: expected a whole number"),
        ] {
            let problem_found =
                MachineFile::load("gtsm-table4").unwrap().set(key, value).unwrap_err().to_string();
            assert!(problem_found.contains(problem), "{problem_found}");
        }
    }

    /// Remarks and comments say what was set, and what the value was before and where it came from.
    #[test]
    fn remarks_on_changes_in_full() {
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        assert_eq!(file.value("walker.walkers").as_deref(), Some("80"));
        assert_eq!(
            (file.value("walker"), file.value("walker.x")),
            (Some("a section".into()), None)
        );
        file.set("walker.walkers", "3").unwrap();
        file.set("walker.walkers", "4").unwrap();
        file.set("cache.llc", "absent").unwrap();
        file.set("page_table_levels", "5").unwrap();
        file.set("core.width", &file.value("core.width").unwrap()).unwrap();
        file.remark("and a remark");
        file.state("dram.channels", "3", "as measured").unwrap();
        let machine = file.machine().unwrap();
        assert_eq!(
            machine.remarks,
            [
                "machine: walker.walkers is set to 3; 80 in gtsm-table4",
                "machine: walker.walkers is set to 4; 3 in gtsm-table4",
                "machine: cache.llc is taken away; a section in gtsm-table4",
                "machine: page_table_levels is set to 5; gtsm-table4 has none",
                "and a remark",
            ]
        );
        let keys: Vec<&str> = machine.set.keys().map(String::as_str).collect();
        assert_eq!(keys, ["cache.llc", "core.width", "page_table_levels", "walker.walkers"]);
        let text = file.text();
        let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        assert!(line("walkers = ").starts_with("walkers = 4 # set; 3 in gtsm-table4; set; 80 in"));
        assert_eq!(line("channels = "), "channels = 3 # as measured");
        assert_eq!(
            line("page_table_levels = "),
            "page_table_levels = 5 # set; gtsm-table4 has none"
        );
        assert_eq!((machine.page_table_levels, machine.dram.channels), (5, 3));
    }

    /// Sizes have units where the key is of bytes.
    #[test]
    fn values_are_of_toml_or_sizes() {
        for (key, text, expected) in [
            ("cache.l2.size_bytes", "512K", "524288"),
            ("cache.l2.size_bytes", "1_000", "1_000"),
            ("cache.l2.size_bytes", "big", "\"big\""),
            ("cache.l2.size", "512K", "\"512K\""),
            ("walker.attach", "l2", "\"l2\""),
            ("core.width", "6", "6"),
            ("core.frequency_ghz", "2.5", "2.5"),
            ("x", "true", "true"),
        ] {
            assert_eq!(value_of(key, text).to_string().trim(), expected, "{key} = {text}");
        }
    }

    #[test]
    fn keys_and_chains_have_a_length() {
        let mut file = MachineFile::load("gtsm-table4").unwrap();
        // Nine parts are refused before anything is nested.
        for parts in [9, 1_000] {
            let key = vec!["x"; parts].join(".");
            let error = file.set(&key, "1").unwrap_err().to_string();
            assert!(error.contains(&format!("there is no key {key:?}")), "{error}");
        }
        let chain = |files: usize| {
            let texts: Vec<(String, String)> = (1..files)
                .map(|number| {
                    let base = match number + 1 {
                        last if last == files => "gtsm-table4".into(),
                        next => format!("{next}.toml"),
                    };
                    (format!("{number}.toml"), format!("base = \"{base}\""))
                })
                .collect();
            let files: Vec<_> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
            load(&files).map(|(machine, _)| machine.name)
        };
        assert_eq!(chain(MOST_BASES), Ok("1".into()), "the bundled file is the eighth");
        let error = chain(MOST_BASES + 1).unwrap_err();
        assert!(
            error.contains("more than 8 files are based on each other: /1.toml, then"),
            "{error}"
        );
    }

    /// A file's values, absences and alternatives go over its base's, at every level.
    #[test]
    fn a_file_of_a_file_of_a_file() {
        let own = "base = \"middle.toml\"\nwalker.walkers = 2\ncache.llc = \"absent\"\n\
                   [virtualization]\n[[plausible]]\nname = \"own\"\nreason = \"r\"\n\
                   values = [{ walker.walkers = 3 }]\n";
        let middle = "base = \"gtsm-table4\"\nsummary = \"in between\"\nwalker.walkers = 4\n\
                      cache.llc.ways = 16\n";
        let (machine, text) = load(&[("own.toml", own), ("middle.toml", middle)]).unwrap();
        assert_eq!((machine.walker.walkers, machine.cache.llc), (2, None));
        assert_eq!(machine.name, "own");
        assert_eq!(
            machine.summary,
            "middle.toml with other values of walker.walkers, cache.llc, virtualization"
        );
        assert!(text.contains("walkers = 2 # /own.toml") || text.contains("own.toml"), "{text}");
        let last = machine.plausible.last().unwrap();
        assert_eq!((&*last.name, &*last.reason), ("own", "r"));
        let base = Machine::load("gtsm-table4").unwrap();
        assert_eq!(machine.virtualization, base.virtualization, "an empty section changes nothing");
        let (alone, _) = load(&[("middle.toml", middle)]).unwrap();
        let llc = alone.cache.llc.unwrap();
        assert_eq!((alone.walker.walkers, llc.ways, llc.size_bytes), (4, 16, 2 << 20));
        assert_eq!(alone.summary, "in between");
        assert_eq!((alone.set.len(), alone.remarks.len()), (0, 0));
    }

    #[test]
    fn files_that_there_are_not() {
        let error = |name: &str| MachineFile::load(name).unwrap_err().to_string();
        assert!(error("no/such.toml").starts_with("no/such.toml: "));
        let unknown = error("gtsm-table5");
        assert!(unknown.starts_with("no machine \"gtsm-table5\"; did you mean gtsm-table4"));
        let error = MachineFile::from_text("m", "a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(error.starts_with("machine m: line 2: "), "{error}");
        let control = MachineFile::from_text("a\nb.toml", "base = \"gtsm-table4\"").unwrap();
        assert_eq!(control.machine().unwrap().name, "a b");
    }
}

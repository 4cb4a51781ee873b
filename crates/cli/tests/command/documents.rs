//! The pages for readers: every link leads somewhere, and the book has every page.
//!
//! mdBook is not needed: the pages are read as its own parser reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use perforate_experiment::Experiment;
use perforate_records::ClaimKind;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Links of a page, as written, and anchors of its headings.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let mut repeated = BTreeMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap());
                    let before: &mut usize = repeated.entry(anchor.clone()).or_default();
                    let suffix = if *before == 0 { String::new() } else { format!("-{before}") };
                    page.anchors.insert(format!("{anchor}{suffix}"));
                    *before += 1;
                }
                _ => {}
            }
        }
        page
    }

    fn read(path: &Path) -> Self {
        Self::of(&fs::read_to_string(path).unwrap())
    }
}

/// The anchor of a heading, by the rule that mdBook and the sites of repositories share.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ => character.is_alphanumeric().then_some(character),
        })
        .collect()
}

/// Problem with a link of the page at this path, if it is broken. Links to other sites are not followed.
fn broken(path: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => path.to_owned(),
        file => path.parent().unwrap().join(file),
    };
    let from = path.display();
    if !target.exists() {
        return Some(format!("{from}: {link}: there is no such file"));
    }
    let known = || Page::read(&target).anchors.contains(anchor);
    let missing = !anchor.is_empty() && (target.extension() != Some("md".as_ref()) || !known());
    missing.then(|| format!("{from}: {link}: there is no such heading"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Markdown files in a folder, sorted; with `deep` also those in its subfolders.
fn pages_in(folder: &Path, deep: bool) -> BTreeSet<PathBuf> {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if deep && path.is_dir() {
            pages.extend(pages_in(&path, deep));
        } else if path.extension() == Some("md".as_ref()) {
            pages.insert(path);
        }
    }
    pages
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let root = root();
    let mut pages = pages_in(&root, false);
    pages.extend(pages_in(&root.join("docs"), true));
    pages.extend(pages_in(&root.join("traces"), true));
    let mut links = 0;
    let mut problems = Vec::new();
    for path in &pages {
        for link in Page::read(path).links {
            links += 1;
            problems.extend(broken(path, &link));
        }
    }
    assert!(pages.len() > 30 && links > 100, "{} pages, {links} links", pages.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed = Page::read(&summary).links;
    let distinct: BTreeSet<_> = listed.iter().map(|link| plain(&docs.join(link))).collect();
    assert_eq!(distinct.len(), listed.len(), "a page is in docs/SUMMARY.md more than once");
    let mut pages = pages_in(&docs, true);
    assert!(pages.remove(&summary));
    let left_out: Vec<_> = pages.difference(&distinct).collect();
    assert!(left_out.is_empty(), "not in docs/SUMMARY.md: {left_out:?}");
    let absent: Vec<_> = distinct.difference(&pages).collect();
    assert!(absent.is_empty(), "in docs/SUMMARY.md, but not there: {absent:?}");
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Numbers of claims of a quick run: all, reproduced, of the same direction, not reproduced. `key` makes the key
/// under which a claim is counted from its experiment, id and statement; claims without a key are left out.
fn verdicts_by<K: Ord>(key: impl Fn(&str, &str, &str) -> Option<K>) -> BTreeMap<K, [usize; 4]> {
    let mut counts: BTreeMap<K, [usize; 4]> = BTreeMap::new();
    for line in read("experiments/verdicts-quick.txt").lines() {
        let (claim, verdict) = line.rsplit_once(" | ").unwrap();
        let [experiment, id, statement] = claim.splitn(3, " | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let kinds = ["reproduced", "same_direction", "not_reproduced"];
        let kind = kinds.iter().position(|kind| *kind == verdict).expect(line);
        let Some(key) = key(experiment, id, statement) else { continue };
        let count = counts.entry(key).or_default();
        count[0] += 1;
        count[kind + 1] += 1;
    }
    counts
}

/// Words of a text, with one blank between.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Claims on measurements of real machines are in no paper on a proposal, and not counted.
#[test]
fn pages_count_the_verdicts_that_there_are_by_kind_of_claim() {
    let experiments = Experiment::bundled();
    let kind = |experiment: &str, id: &str, statement: &str| {
        let experiment = experiments.iter().find(|one| one.name == experiment).expect(experiment);
        let mut claims = experiment.claims.iter();
        let claim = claims.find(|claim| claim.id == id && claim.statement == statement);
        let kind = claim.expect(statement).kind;
        kind.filter(|_| !experiment.name.starts_with("measured/"))
    };
    let counts = verdicts_by(|experiment, id, statement| {
        Some(match kind(experiment, id, statement)? {
            ClaimKind::Number => "numbers",
            ClaimKind::Threshold => "thresholds",
            ClaimKind::Restated => "restated",
            ClaimKind::Sign => "signs",
            ClaimKind::ClosedForm => "closed forms",
            ClaimKind::ByConstruction => "by construction",
            ClaimKind::Input => "inputs",
            ClaimKind::Test => "tests of explanations",
        })
    });
    let tested: [usize; 4] =
        std::array::from_fn(|place| counts["numbers"][place] + counts["thresholds"][place]);
    let page = read("docs/papers.md");
    let rows = counts.iter().map(|(name, counts)| (*name, *counts));
    for (name, [all, reproduced, direction, not]) in
        rows.chain([("numbers and thresholds", tested)])
    {
        let row = format!("| {name} | {all} | {reproduced} | {direction} | {not} |");
        assert!(page.lines().any(|line| line == row), "expected in docs/papers.md: {row}");
    }
    let [all, reproduced, direction, not] = tested;
    let sentence = format!(
        "Of {all} numbers and thresholds in the papers, a quick run reproduces {reproduced}; another {direction} \
         agree in direction, and {not} do not"
    );
    assert!(words(&read("README.md")).contains(&sentence), "expected in README.md: {sentence}");
}

/// docs/artefact.md expects of each experiment what is checked in, as the command there prints it.
#[test]
fn the_artefact_page_has_the_verdicts_there_are() {
    let counts = verdicts_by(|experiment, _, _| Some(experiment.to_owned()));
    let expected: Vec<_> = counts
        .iter()
        .map(|(name, [all, reproduced, direction, not])| {
            format!("{name:<30} {all:2} claims: {reproduced:2} reproduced, {direction} same direction, {not:2} not")
        })
        .collect();
    let page = read("docs/artefact.md");
    let block = page.split("```text\n").find(|block| block.starts_with("gtsm/")).unwrap();
    let said: Vec<_> = block.split("```").next().unwrap().lines().collect();
    assert_eq!(said, expected, "bring docs/artefact.md up to date with the command there");
}

#[test]
fn anchors_are_those_of_the_sites() {
    let page =
        Page::of("# P's `--age`, 2.5 % (Fig. 1)\n\n## Twice\n\n## Twice\n\n```\n# no\n```\n");
    let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["ps---age-25--fig-1", "twice", "twice-1"]);
}

#[test]
fn broken_links_are_found() {
    let page = root().join("README.md");
    let broken = |link| broken(&page, link);
    assert!(broken("docs/no-such-page.md").unwrap().contains("no such file"));
    assert!(broken("docs/timing.md#no-such-heading").unwrap().contains("no such heading"));
    assert!(broken("#no-such-heading").unwrap().contains("no such heading"));
    assert!(broken("docs/report.png#top").unwrap().contains("no such heading"));
    assert_eq!(broken("docs/machines.md#several-values"), None);
    assert_eq!(broken("docs/decisions"), None);
    assert_eq!(broken("https://example.org/page"), None);
}

#[test]
fn links_in_code_are_none_and_those_of_definitions_count() {
    let page = Page::of("`[a](b.md)` [c][d]\n\n[d]: e.md\n\n| f |\n|---|\n| [g](h.md) |\n");
    assert_eq!(page.links, ["e.md", "h.md"]);
}

/// The commands of the tutorial on huge pages, which need bundled traces only, and the verdicts there; for fewer
/// instructions.
#[test]
fn the_tutorial_on_huge_pages_can_be_followed() {
    let path = root().join("docs/tutorials/should-i-use-huge-pages.md");
    let text = fs::read_to_string(path).unwrap();
    let blocks: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
    let mut commands = 0;
    for pair in blocks.windows(2) {
        let [command, output] = [pair[0], pair[1]];
        let (Some(command), Some(output)) =
            (command.strip_prefix("sh\nperforate "), output.strip_prefix("text\n"))
        else {
            continue;
        };
        commands += 1;
        let shorter = command.replace("--instructions 2M", "--instructions 700k");
        let words: Vec<&str> = shorter.split_whitespace().collect();
        let found = crate::place::Place::new().succeeds(&words);
        let verdict = |text: &str| text.split([':', '.']).next().unwrap().to_owned();
        assert_eq!(verdict(&found), verdict(output), "{command}");
    }
    assert_eq!(commands, 3);
}

//! The pages in a real browser, wide and narrow: everything is used once, nothing overlaps.
//!
//! Needs chromium; without it the tests say so and end.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::{advice, document, records, why};
use perforate_records::{read_experiments, read_results};
use perforate_report::{ReportOptions, advice_html, experiments_html, html};

const WIDTHS: [u32; 2] = [1280, 400];
/// A browser that says nothing for so long has stopped; a page takes seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(120);
/// What each width must have used at least once on the pages made here.
const USED: [&str; 14] = [
    "charts", "texts", "switches", "sorts", "filters", "verdicts", "tips", "keys", "csv", "svg",
    "png", "choices", "links", "files",
];

/// Counted by those who want to know what was left out.
const NO_BROWSER: &str = "skipped: no chromium, so no page was looked at in a browser";

fn options(title: &str) -> ReportOptions {
    crate::vocabulary::options(title, "perforate")
}

/// Runs whose figures are out of all proportion, or missing.
fn odd_runs() -> String {
    let run = |scheme: &str, value: &str| {
        let count = value.replace("null", "0");
        format!(
            r#"{{"scheme":"{scheme}","workload":"w","ipc":{value},"instructions":{value},"cycles":{value},"counters":{{"walks":{value},"walk_references_level1":{value},"walk_references_level.2['x']":1,"translation_cycles_hole":{value},"page_table_bytes":{value},"mapped_bytes":{value},"touched_bytes":3}},"series":{{"l2_tlb_contents":[{{"instruction":{value},"hole":{value},"a.b['c']\\":2}}],"memory":[{{"instruction":{value},"unusable_index_2m":{value},"mapped_bytes":{value},"touched_bytes":{value}}}]}},"memory_maps":[{{"instructions":[{count}],"blocks_per_cell":{value},"classes":["free","</svg>"],"block_classes":{{"free":{count}}},"cells":[[{count},1,{count},{count},{count}],[1],[],[{count},0,{count}],[3,1,9,9,9]]}}],"regions":[{{"holes":["0xffffffffffffffff"]}}]}}"#
        )
    };
    let odd = [
        ("4k", "1"),
        ("thp", "0"),
        ("perforated", "-1"),
        ("1g", "1e300"),
        ("segment", "5e-324"),
        ("ideal", "18446744073709551615"),
        ("</script><b>", "null"),
    ];
    odd.map(|(scheme, value)| run(scheme, value)).join("\n")
}

/// Pages with every form of chart and table.
fn own_pages() -> Vec<(String, String)> {
    let runs = read_results(include_str!("../../data/sample.jsonl")).unwrap();
    let pairs = read_results(&records::pairs()).unwrap();
    let odd = read_results(&odd_runs()).unwrap();
    let experiments = read_experiments(&records::all()).unwrap();
    let single = read_experiments(&records::lines().text()).unwrap();
    let joint = read_experiments(&records::joint()).unwrap();
    let labels = read_experiments(&records::odd_labels().text()).unwrap();
    vec![
        ("compare.html".into(), html(&runs, &options("A comparison"))),
        ("why.html".into(), document::page(&why::three_runs())),
        ("pairs.html".into(), html(&pairs, &options("Guests on hosts"))),
        ("odd.html".into(), html(&odd, &options("Odd values"))),
        ("experiments.html".into(), experiments_html(&experiments, &options("Experiments"))),
        ("labels.html".into(), experiments_html(&labels, &options("Odd labels"))),
        ("joint.html".into(), experiments_html(&joint, &options("Joint readings"))),
        ("advice.html".into(), advice_html(&advice::record("[heap]"), &options("Advice"))),
        ("single.html".into(), experiments_html(&single, &options("One experiment"))),
    ]
}

/// The pages whose files `PERFORATE_PAGES` names, separated by colons; numbers keep them apart.
fn given_pages() -> Vec<(String, String)> {
    let named = std::env::var("PERFORATE_PAGES").unwrap_or_default();
    let files = named.split(':').filter(|name| !name.is_empty());
    let page = |(index, file): (usize, &str)| {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        (format!("given-{index}.html"), text)
    };
    files.enumerate().map(page).collect()
}

/// The page with scripts that use it and tell what they found.
fn with_checks(page: &str) -> String {
    let early = format!("<script>{}</script>", include_str!("early.js"));
    let check = format!("<script>{}</script>", include_str!("check.js"));
    let page = page.replacen("<head>", &format!("<head>{early}"), 1);
    let end = page.rfind("</body>").expect("a page has an end");
    format!("{}{check}{}", &page[..end], &page[end..])
}

fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
    places.find(|place| place.is_file())
}

/// The browser with a profile of its own.
fn command(browser: &Path, folder: &Path) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--no-first-run"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command
}

/// Writes the frame page that opens these pages one after the other at this width.
fn write_frame(folder: &Path, pages: &[(String, String)], width: u32) -> PathBuf {
    let wanted = pages.iter().map(|(page, _)| serde_json::json!({"page": page, "width": width}));
    let wanted = wanted.collect::<serde_json::Value>().to_string();
    let path = folder.join("frame.html");
    fs::write(&path, include_str!("frame.html").replacen("WANTED", &wanted, 1)).unwrap();
    path
}

/// What the console says of the frame page until it has come to its end.
struct Console {
    findings: Vec<Vec<String>>,
    /// Messages of the pages themselves.
    others: Vec<String>,
}

impl Console {
    /// Opens the frame page and listens; ends the browser at the page's end.
    fn of(browser: &Path, folder: &Path, page: &Path) -> Self {
        // With a port for debuggers the browser stays until it is ended.
        let mut running = command(browser, folder)
            .args(["--window-size=1280,1000", "--remote-debugging-port=0"])
            // An application's window has no parts of its own that take time.
            .arg(format!("--app=file://{}", page.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let lines = listen(running.stderr.take().expect("it is piped"));
        let mut console = Self { findings: Vec::new(), others: Vec::new() };
        let mut is_ended = false;
        while let Ok(line) = lines.recv_timeout(LONGEST_SILENCE) {
            let text =
                line.split_once("] \"").and_then(|(_, rest)| rest.rsplit_once("\", source: "));
            let Some((text, _)) = text.filter(|_| line.contains("CONSOLE")) else { continue };
            match text.split('\t').collect::<Vec<_>>().as_slice() {
                ["finding", "end"] => {
                    is_ended = true;
                    break;
                }
                ["finding", words @ ..] => {
                    console.findings.push(words.iter().copied().map(String::from).collect());
                }
                _ => console.others.push(text.to_owned()),
            }
        }
        running.kill().expect("the browser ends");
        running.wait().expect("the browser ends");
        assert!(is_ended, "no end: {:?} {:?}", console.findings.last(), console.others);
        console
    }
}

/// Lines as they come.
fn listen(messages: ChildStderr) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(messages).lines() {
            if !line.is_ok_and(|line| send.send(line).is_ok()) {
                break;
            }
        }
    });
    receive
}

/// Brings up what is wrong with these pages at this width.
fn look(browser: &Path, pages: &[(String, String)], width: u32) -> Console {
    let folder = tempfile::tempdir().unwrap();
    for (name, page) in pages {
        fs::write(folder.path().join(name), with_checks(page)).unwrap();
    }
    let frame = write_frame(folder.path(), pages, width);
    Console::of(browser, folder.path(), &frame)
}

/// How often each part of the pages was used at this width, where nothing is wrong.
fn uses(browser: &Path, pages: &[(String, String)], width: u32) -> BTreeMap<String, u64> {
    let console = look(browser, pages, width);
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in &console.findings {
        match line.as_slice() {
            [page, _, text] if text.starts_with("counts ") => {
                for (name, count) in text.split(' ').filter_map(|word| word.split_once('=')) {
                    let count: u64 = count.parse().unwrap();
                    *used.entry(name.to_owned()).or_default() += count;
                    assert!(name != "charts" || count > 0, "{page}: no charts");
                }
            }
            [page, width, text] => wrong.push(format!("{page} at {width} pixels: {text}")),
            other => wrong.push(format!("{other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    assert!(console.others.is_empty(), "{:?}", console.others);
    used
}

/// What `uses` finds at each width; a browser of its own has each.
fn uses_of_widths(browser: &Path, pages: &[(String, String)]) -> [BTreeMap<String, u64>; 2] {
    thread::scope(|scope| {
        WIDTHS
            .map(|width| scope.spawn(move || uses(browser, pages, width)))
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[test]
fn pages_work_in_a_browser() {
    let Some(browser) = browser() else { return println!("{NO_BROWSER}") };
    for (width, used) in WIDTHS.iter().zip(uses_of_widths(&browser, &own_pages())) {
        for name in USED {
            assert!(used.get(name).is_some_and(|&count| count > 0), "no {name} at {width} pixels");
        }
    }
}

#[test]
fn given_pages_work_in_a_browser() {
    let pages = given_pages();
    if pages.is_empty() {
        return println!("skipped: PERFORATE_PAGES names no pages");
    }
    let Some(browser) = browser() else { return println!("{NO_BROWSER}") };
    uses_of_widths(&browser, &pages);
}

/// A page that is wrong in one way, and what is to be said of it.
const BROKEN: [(&str, &str, &str); 18] = [
    ("th,td{", "th,td{min-width:20em;", "a column is cut off"),
    ("<main>", "<main><div style=\"width:3000px\">wide</div>", "the page is too wide"),
    ("startCharts(root);", "startCharts(root); missing();", "script error"),
    ("startCharts(root);", "console.error(1); startCharts(root);", "console: 1"),
    ("view.tooltip(onTip).", "view.", "no value at the pointer"),
    ("#tip{", "svg{pointer-events:none}#tip{", "nothing to point at"),
    ("walkByKeys(chart);", "", "no value by keys"),
    ("view.signal(\"hidden\", hidden).run();", ";", "no switch hides anything"),
    ("all(\"table\", root).forEach(startSorting);", "", "a table does not sort"),
    (
        "const csv = (table) =>",
        "const csv = (table) => \"\"; const unused = (table) =>",
        "CSV is not",
    ),
    ("=> light(name))", "=> found)", "SVG needs the page"),
    (
        ".initialize(chart).run();",
        ".initialize(chart).run(); chart.querySelector(\"svg\").insertAdjacentHTML(\"beforeend\", '<text x=\"9\" y=\"90\">one</text><text x=\"9\" y=\"91\">two</text>');",
        "texts overlap",
    ),
    ("...spec, width", "...spec, data: { values: [] }, width", "a chart without marks"),
    ("figures.forEach(startFigure);", "", "buttons are missing"),
    ("done, \"image/png\"", "done, \"image/webp\"", "PNG is not a picture"),
    ("ink.fillRect(", "ink.clearRect(", "PNG has no white ground"),
    ("chosen[param.name] ?? param.value", "param.value", "a choice does nothing"),
    ("history.replaceState(", "history.pushState && (", "waited in vain: the link"),
];

#[test]
fn what_is_broken_is_found() {
    let Some(browser) = browser() else { return println!("{NO_BROWSER}") };
    let pages = own_pages();
    let broken = |(index, (from, to, expected)): (usize, &(&str, &str, &str))| {
        // Only comparisons have choices.
        let page =
            if expected.contains("choice") { &pages[1].1 } else { &pages[pages.len() - 1].1 };
        assert!(page.contains(from), "{from}");
        let head = format!("<head><script>window.expected = {expected:?}</script>");
        let page = page.replacen(from, to, 1).replacen("<head>", &head, 1);
        (format!("broken-{index}.html"), page)
    };
    let pages: Vec<(String, String)> = BROKEN.iter().enumerate().map(broken).collect();
    let console = look(&browser, &pages, WIDTHS[0]);
    for (index, (_, to, expected)) in BROKEN.iter().enumerate() {
        let name = format!("broken-{index}.html");
        let said = |line: &Vec<String>| line[0] == name && line[2].contains(expected);
        assert!(console.findings.iter().any(said), "{to}: {:#?}", console.findings);
    }
}

#[test]
fn pages_can_be_photographed() {
    let Some(browser) = browser() else { return println!("{NO_BROWSER}") };
    let folder = tempfile::tempdir().unwrap();
    // A folder in which all pages and their pictures are kept, to be looked at.
    let keep = std::env::var_os("PERFORATE_SCREENSHOTS").map(PathBuf::from);
    let pages: Vec<(String, String)> = own_pages().into_iter().chain(given_pages()).collect();
    let photographed = if keep.is_some() { pages.len() } else { 1 };
    for (name, page) in &pages[..photographed] {
        fs::write(folder.path().join(name), page).unwrap();
        let picture = folder.path().join(name).with_extension("png");
        let screenshot = format!("--screenshot={}", picture.display());
        command(&browser, folder.path())
            .args(["--window-size=1280,1000", &screenshot])
            .arg(format!("file://{}", folder.path().join(name).display()))
            .output()
            .expect("the browser starts");
        let bytes = fs::read(&picture).unwrap_or_default();
        // Width and height follow signature and name of the first chunk.
        assert!(bytes.starts_with(b"\x89PNG"), "{name}: no picture");
        assert_eq!(bytes[16..20], 1280u32.to_be_bytes(), "{name}");
        assert!(bytes.len() > 20_000, "{name}: {} bytes are an empty page", bytes.len());
        if let Some(keep) = &keep {
            fs::copy(&picture, keep.join(name).with_extension("png")).unwrap();
            fs::write(keep.join(name), page).unwrap();
        }
    }
}

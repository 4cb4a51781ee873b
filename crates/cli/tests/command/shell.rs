//! `perforate completions` and `perforate man`.

use std::process::Command;

use crate::place::Place;

#[test]
fn every_shell_completes_commands_and_options() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = place.succeeds(&["completions", shell]);
        for word in ["compare", "completions", "fragmentation", "max-size"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert_eq!(script, place.succeeds(&["completions", shell]), "{shell}");
    }
}

/// The script in the shell itself, asked as the Tab key asks it.
#[test]
fn bash_completes_a_command_and_an_option() {
    let place = Place::new();
    if Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: there is no bash");
        return;
    }
    place.write("completions", place.succeeds(&["completions", "bash"]));
    for (typed, expected) in
        [("perforate comp", "compare completions"), ("perforate trace co", "convert")]
    {
        let (before, last) = typed.rsplit_once(' ').unwrap();
        let words = before.split(' ').count();
        let asked = format!(
            "source completions; COMP_WORDS=({typed}); COMP_CWORD={words}; \
             _perforate perforate {last} {}; echo \"${{COMPREPLY[*]}}\"",
            before.rsplit(' ').next().unwrap(),
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &asked]).current_dir(place.path("."));
        let output = bash.output().unwrap();
        let reply = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((reply.trim_end(), errors.as_ref()), (expected, ""), "{typed}");
    }
}

#[test]
fn an_unknown_shell_is_refused_with_those_there_are() {
    let outcome = Place::new().run(&["completions", "tcsh"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""));
    assert!(outcome.err.contains("bash") && outcome.err.contains("fish"), "{}", outcome.err);
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let said = place.succeeds(&["man", "--out", "share/man1"]);
    let mut pages: Vec<String> = std::fs::read_dir(place.path("share/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    assert_eq!(said, format!("{} pages in share/man1\n", pages.len()));
    for page in ["perforate.1", "perforate-compare.1", "perforate-trace-info.1", "perforate-man.1"]
    {
        assert!(pages.iter().any(|there| there == page), "{page} is not in {pages:?}");
    }
    let is_hidden = |page: &String| page.contains("native-worker") || page.contains("help");
    assert!(!pages.iter().any(is_hidden), "{pages:?}");
    let compare = place.read("share/man1/perforate-compare.1");
    for words in
        [".TH perforate-compare 1", "perforate compare", "fragmentation", ".SH EXAMPLES\n.nf"]
    {
        assert!(compare.contains(words), "{words} is not in\n{compare}");
    }
    place.succeeds(&["man", "--out", "share/man1"]);
    assert_eq!(compare, place.read("share/man1/perforate-compare.1"));
}

#[test]
fn markdown_has_a_page_for_each_manual_page_and_links_that_lead_to_one() {
    let place = Place::new();
    let said = place.succeeds(&["man", "--markdown", "--out", "pages"]);
    assert_eq!(said, place.succeeds(&["man", "--out", "man"]).replace("in man", "in pages"));
    let compare = place.read("pages/perforate-compare.md");
    for words in ["# perforate compare\n", "## Output\n", "| `-o, --out DIR` |", "## Examples\n"] {
        assert!(compare.contains(words), "{words} is not in\n{compare}");
    }
    let mut links = 0;
    for entry in std::fs::read_dir(place.path("pages")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert!(place.path("pages").join(link).exists(), "{link}");
            links += 1;
        }
    }
    assert!(links > 20, "{links}");
}

#[test]
fn manual_pages_need_a_folder_that_can_be_written() {
    let place = Place::new();
    place.write("file", "not a folder");
    place.fails(&["man", "--out", "file"], 1, "file: cannot be written");
}

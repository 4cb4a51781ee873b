//! `perforate sweep`, here and as a script for Slurm.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::place::{Place, outcome};

/// Three places with two subjects each: three runs of two points.
const FILE: &str = r#"
name = "mine"
title = "Whole blocks"
source = "our own"
kind = "contiguity"
[settings]
retired = "{x}"
samples = 4000
[axis]
label = "retired frames"
values = [0.0, 0.25, 0.5]
[parameters]
block = ["8K", "2M"]
[[curve]]
name = "{block}"
value = "share({block})"
"#;

/// Replacement for sbatch: runs each task of an array, and the dependent job.
const SBATCH: &str = r#"#!/bin/bash
set -euo pipefail
echo "$*" >> submitted
case "$1" in
  --parsable)
    bash -n "$2"
    tasks=$(sed -n 's/^#SBATCH --array=1-//p' "$2")
    for ((task = 1; task <= tasks; task++)); do
      (cd / && SLURM_ARRAY_TASK_ID=$task bash "$OLDPWD/$2" >&2)
    done
    echo 4711 ;;
  --dependency=afterok:4711) (cd / && sh -c "$3") ;;
  *) exit 1 ;;
esac
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("mine.toml", FILE);
    place
}

#[test]
fn on_this_computer_it_is_the_experiment() {
    let place = place();
    let run = |command: &[&str]| place.succeeds(&[command, &["mine.toml", "--json"]].concat());
    assert_eq!(run(&["sweep"]), run(&["experiment", "run"]));
}

/// The script is submitted as it says, by a stand-in for sbatch that runs it.
#[test]
fn the_script_gives_the_bytes_of_one_run() {
    let place = place();
    place.succeeds(&["experiment", "run", "mine.toml", "--seeds", "2", "--out", "whole"]);
    place.write("sbatch", SBATCH);
    let sbatch = place.path("sbatch");
    std::fs::set_permissions(sbatch, std::fs::Permissions::from_mode(0o755)).unwrap();
    // 12 points of 30 s are 6 minutes, in jobs of 2; with two seeds, 6 runs of a minute each.
    let options =
        ["--seeds", "2", "--job-length", "2m", "--point-time", "30s", "--out", "my sweep"];
    let told = place.succeeds(&[&["sweep", "mine.toml", "--slurm-script"], &options[..]].concat());
    assert!(
        told.starts_with("12 points in an array of 3 jobs, 2 min each at most; 6 min of one "),
        "{told}"
    );
    let script = place.read("my sweep/sweep.sbatch");
    assert!(
        script.contains("\n#SBATCH --array=1-3\n#SBATCH --cpus-per-task=1\n#SBATCH --time=4\n")
    );
    assert!(script.contains("# Estimated from 30s a point, as --point-time says.\n"), "{script}");
    let submit: String = script
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(submit.lines().count() == 2 && told.ends_with(&submit), "{told}");
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", &submit]).current_dir(place.path("")).env("PATH", path);
    let ran = outcome(&mut shell);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(place.read("my sweep/results.jsonl"), place.read("whole/results.jsonl"));
    assert_eq!(place.read("submitted").lines().count(), 2);
}

/// Names that would be commands, options or comments if a shell took them for more than names.
#[test]
fn hostile_names_are_names() {
    let place = Place::new();
    let here = "h'e\"r e\ntouch pwned\n$(touch pwned)";
    let out = "-rf 'o' \"u\" `touch pwned` $(touch pwned) \\\ntouch pwned\n#SBATCH --wrap x\n é";
    let file = "-x ;touch pwned\n#.toml";
    std::fs::create_dir(place.path(here)).unwrap();
    place.write(&format!("{here}/{file}"), FILE);
    place.write("sbatch", SBATCH);
    let sbatch = place.path("sbatch");
    std::fs::set_permissions(sbatch, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out_option = format!("--out={out}");
    let words = ["sweep", "--slurm-script", "--point-time", "1s", &out_option, "--", file];
    let told = outcome(place.command(&words).current_dir(place.path(here)));
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{}", told.out);
    let script = place.read(&format!("{here}/{out}/sweep.sbatch"));
    let directives = script.lines().filter(|line| line.starts_with("#SBATCH"));
    assert_eq!(directives.count(), 4, "{script}");
    let lines = script.lines().filter_map(|line| line.strip_prefix("#   "));
    let submit = lines.map(|line| format!("{line}\n")).collect::<String>();
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", &submit]).current_dir(place.path(here)).env("PATH", path);
    let ran = outcome(&mut shell);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(place.path(&format!("{here}/{out}/results.jsonl")).exists(), "{}", ran.err);
    let all = std::fs::read_dir(place.path(here)).unwrap().chain(std::fs::read_dir("/").unwrap());
    assert!(all.map(|entry| entry.unwrap().file_name()).all(|name| name != "pwned"));
    assert_eq!(place.names().len(), 2);
}

#[test]
fn a_script_without_a_folder_is_printed() {
    let place = place();
    let script = place.succeeds(&["sweep", "mine.toml", "--slurm-script"]);
    assert_eq!(place.names(), ["mine.toml"]);
    assert!(script.starts_with("#!/bin/bash\n#SBATCH") && script.contains("--array=1-1\n"));
    assert!(script.contains("4 of the points, measured on this computer in "), "{script}");
    assert!(script.contains("experiment run mine.toml --shard \"$SLURM_ARRAY_TASK_ID/1\""));
}

/// Three runs of two points, two hours each: four processors need as long as the longest run.
#[test]
fn a_run_that_is_longer_than_a_job_is_said_to_be() {
    let place = place();
    let words = ["--slurm-script", "--job-length", "1m", "--point-time", "1h", "--cpus", "4"];
    let script = place.succeeds(&[&["sweep", "mine.toml"], &words[..]].concat());
    assert!(script.contains("--array=1-1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=240\n"));
    assert!(script.contains("# One run alone takes longer than 1m:"), "{script}");
}

/// Parts are joined by the experiments' names: a group has none that could be loaded.
#[test]
fn a_group_is_written_as_its_members() {
    let place = Place::new();
    let words = ["sweep", "gtsm", "--quick", "--slurm-script", "--point-time", "1s"];
    let script = place.succeeds(&words);
    let run = script.lines().find(|line| line.contains(" experiment run ")).unwrap();
    assert!(run.contains(" gtsm/fig3 ") && run.contains(" --quick --shard "), "{run}");
}

#[test]
fn wrong_use_is_told() {
    let place = place();
    for (words, problem) in [
        (&["--job-length", "30m"][..], "--slurm-script"),
        (&["--slurm-script", "--shard", "1/2"], "--shard"),
        (&["--slurm-script", "--unstated"], "--unstated"),
        (&["--slurm-script", "--job-length", "30"], "expected 30m, 2h or the like"),
        (&["--slurm-script", "--point-time", "0s"], "a time of 0"),
        (&["--slurm-script", "--cpus", "0"], "--cpus"),
    ] {
        let outcome = place.run(&[&["sweep", "mine.toml"], words].concat());
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.err);
        assert!(outcome.err.contains(problem), "{words:?}: {}", outcome.err);
    }
    assert_eq!(place.names(), ["mine.toml"]);
}

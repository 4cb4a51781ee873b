#!/usr/bin/env python3
"""Outputs of some 400 short commands. The program is deterministic, so a change that is meant to change no
output changes not a byte of them, and an intended change shows what it changes.

    .ci/outputs.py check [--program PATH]            compares with .ci/outputs.txt, which is kept in git
    .ci/outputs.py update [--program PATH]           writes .ci/outputs.txt after an intended change
    .ci/outputs.py record FOLDER [--program PATH]    writes whole outputs, to look for a difference
    .ci/outputs.py compare FOLDER [--program PATH]   runs the commands again, and prints what differs
    .ci/outputs.py list                              prints the commands

An output is the exit code, what was printed, results.jsonl and report.html. Versions, host times and the
path of the scratch folder are left out. .ci/outputs.txt has a hash of each output and its first lines.
"""

import argparse
import concurrent.futures
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / ".ci/outputs.txt"
# Of each output, so many lines are kept, and so many characters of a line.
KEPT_LINES, KEPT_COLUMNS = 24, 110
SHORT = ["--instructions", "60k"]
SEED = ["--seed", "3"]
SMALL = ["--memory", "512M"]
WORKLOADS = ["random:size=48M,writes=20%", "redis"]

# One value for each option of runs and memory, and what it needs beside it.
OPTIONS = {
    "machine": ["ice-lake-sp"],
    "seed": ["9"],
    "skip": ["20k"],
    "beside": ["chase:size=8M"],
    "threads": ["2"],
    "madvise": ["0x7effc0000000-0x7effc1800000"],
    "cores": ["2", "--threads", "2"],
    "threads-per-core": ["2", "--threads", "2"],
    "side-by-side": ["1M", "--threads", "2", "--cores", "2"],
    "warmup": ["auto"],
    "timing": ["sampled=5k/20k"],
    "precision": ["5%", "--timing", "sampled=5k/20k"],
    "window-warmup": ["1k", "--timing", "sampled=5k/20k"],
    "functional": None,
    "check": None,
    "swap": ["64M"],
    "fragmentation": ["portion=50%,holes=25%,clustered"],
    "age": ["kernel-build,free=60%"],
    "faulty": ["uniform=0.5%"],
    "zones": ["x86"],
    "compaction": ["background", "--age", "desktop-day"],
    "defrag": ["always", "--age", "desktop-day"],
    "khugepaged": ["every=10k,pages-to-scan=512"],
    "ksm": ["every=10k", "--contents", "zero=5%,duplicate=20%,distinct=64"],
    "contents": ["zero=5%,duplicate=20%,distinct=64", "--ksm", "every=20k"],
    "mthp": ["64K,16K=madvise", "--machine", "neoverse-n1"],
    "perforation": ["max-hole-share=25%", "--fragmentation", "portion=50%,holes=25%,clustered"],
    "segment": ["min=8M,escapes=4"],
    "superpages": ["least-blocks=32"],
    "policy": ["thp"],
    "io-gap": ["pc", "--memory", "4G"],
    "hot-add": ["64M", "--self-balloon", "every=20k"],
    "self-balloon": ["every=10k,blocks=4", "--hot-add", "64M"],
    "set": ["tlb.l2.entries=768"],
}
# Schemes of an option that the usual ones would call idle.
OF_OPTION = {
    "madvise": "4k,thp-madvise",
    "segment": "4k,segment",
    "superpages": "4k,gt-pde-2m",
    "policy": "4k,scripted",
    "io-gap": "4k,segment",
    "hot-add": "4k+4k,thp+4k",
    "self-balloon": "4k+4k,thp+4k",
}
HOST_OPTIONS = {
    "host-memory": ["1G"],
    "host-swap": ["64M"],
    "host-fragmentation": ["portion=50%,holes=25%,dispersed"],
    "host-age": ["desktop-day,free=60%"],
    "host-faulty": ["uniform=0.5%"],
    "host-zones": ["x86"],
    "host-compaction": ["background", "--host-age", "desktop-day"],
    "host-defrag": ["always", "--host-age", "desktop-day"],
    "host-khugepaged": ["every=10k"],
    "host-ksm": ["every=10k", "--host-contents", "zero=5%,duplicate=20%,distinct=64"],
    "host-mthp": ["64K"],
    "host-perforation": ["max-hole-share=25%"],
    "host-io-gap": ["pc", "--host-memory", "8G"],
}
SCHEMES = """4k 4k-colt-4 4k-colt-8 4k-colt-32 mthp-16k mthp-64k mthp-1m thp thp-madvise 1g
    perforated-naive perforated-on-demand
    perforated-selective perforated-lazy perforated-reserve perforated gt-pde-4m gt-pde-2m gt-pde-1m
    p-gt-pde-4m p-gt-pde-2m gt-pde-4m-native gt-pde-process segment segment-thp segment-l1 range ideal
    free scripted perforated-scripted""".split()
GUESTS = ["4k", "thp", "perforated", "segment", "gt-pde-2m"]
HOSTS = ["4k", "thp", "perforated", "shadow-4k", "segment", "flat-4k"]
SMALL_WORKLOADS = """sequential:size=8M,writes=10% stride:size=8M,stride=4160B zipf:size=8M,item=1K
    chase:size=8M,chains=3,scattered gups:size=8M canneal:size=8M dict:size=8M rmat-bfs:size=8M
    set-cover:size=8M mst:size=8M spmv:size=8M,columns=3 matching:size=8M mis:size=8M btree:size=8M
    hash-join:size=8M xsbench:size=8M pagerank:size=8M store:keys=1k,live=60%""".split()
MACHINES = """sandy-bridge-table6 gtsm-table4 zen4-genoa haswell-ex skylake-sp-4114 cascade-lake-6252 tiger-lake
    sapphire-rapids zen2-rome zen3-milan zen5-turin neoverse-n1 neoverse-v1 neoverse-v2 cortex-a76
    xuantie-c910""".split()
LISTS = ["schemes", "workloads", "machines", "options", "ageing", "perforation", "segment",
         "superpages", "policies", "counters", "experiments"]
# Further values of options that are lists of keys, with schemes that they have an effect on.
VALUES = {
    "perforated": [
        ["--perforation", "max-filter-bits=3"],
        ["--perforation", "holes=lazy,max-hole-share=20%,demote-above=20%"],
        ["--perforation", "create=reserve,max-hole-share=30%"],
        ["--perforation", "promote=punch,hole-cost=0", "--khugepaged", "every=5k"],
        ["--perforation", "promote=collapse", "--khugepaged", "every=5k"],
        ["--fragmentation", "portion=100%,holes=20%,dispersed"],
        ["--fragmentation", "portion=80%,holes=30%,clustered,align=64,unallocated"],
        ["--fragmentation", "portion=40%,holes=10%,clustered,unusable=20%"],
    ],
    "thp": [
        ["--age", "desktop-day,free=50%,slab=10%"],
        ["--age", "weeks,pinned=5%"],
        ["--age", "kernel-build,unusable=60%", "--compaction", "background"],
        ["--age", "kernel-build", "--defrag", "defer"],
        ["--age", "kernel-build", "--defrag", "madvise"],
        ["--age", "desktop-day", "--defrag", "defer+madvise", "--khugepaged", "every=5k"],
        ["--faulty", "clustered=1%", "--zones", "dma=16M,dma32=200M"],
        ["--khugepaged", "every=5k,max-ptes-none=100,max-ptes-shared=0,defrag=yes"],
        ["--ksm", "every=2k,pages-to-scan=2k,max-page-sharing=4", "--contents",
         "zero=30%,duplicate=40%,distinct=8,regions=90%,run=16,seed=4"],
        ["--timing", "sampled=2k/10k", "--precision", "20%", "--window-warmup", "500"],
        ["--warmup", "0", "--skip", "5k"],
        ["--beside", "chase:size=8M,chains=4+zipf:size=8M,writes=30%", "--cores", "2"],
    ],
    "segment": [
        ["--segment", "min=16M,pages=2m"],
        ["--segment", "min=64M"],
        ["--segment", "min=8M,compact=yes", "--age", "kernel-build"],
        ["--segment", "min=8M,escapes=16", "--faulty", "uniform=0.05%"],
        ["--segment", "min=8M,escapes=0", "--faulty", "uniform=0.05%"],
    ],
    "gt-pde-2m": [
        ["--superpages", "bs=5,least-blocks=40", "--faulty", "uniform=1%"],
        ["--superpages", "paired=yes,bs=3", "--faulty", "clustered=5%"],
        ["--superpages", "per-process=yes,enough=70%", "--faulty", "uniform=2%"],
        ["--superpages", "from=64M,to=256M"],
    ],
    "thp+thp": [
        ["--guest", "4k,thp,range", "--host", "4k,thp,ideal", "--seeds", "2"],
        ["--host-memory", "550M", "--host-swap", "256M", "--host-khugepaged", "every=5k"],
        ["--io-gap", "reclaimed", "--memory", "4G", "--hot-add", "256M",
         "--self-balloon", "every=5k,blocks=20"],
        ["--host-age", "weeks", "--host-defrag", "always", "--host-compaction", "background"],
    ],
    "segment+segment": [
        ["--modes", "big-memory,every=5k"],
        ["--modes", "compute,every=10k", "--age", "kernel-build"],
        ["--modes", "compute,every=10k", "--host-age", "kernel-build"],
        ["--host-faulty", "uniform=0.05%", "--host-segment", "min=8M,escapes=8"],
    ],
}
# Another scheme beside those that a virtual machine or a segment need.
PLAIN = {"thp+thp": "4k+4k", "segment+segment": "4k+4k"}
# A program that unmaps and maps much in little memory, one that forks, and processes that take turns.
PROCESSES = {
    "churn": ["churn:size=16M,piece=1M,between=200,writes=30%", "--memory", "24M", "--age",
              "kernel-build,free=70%", "--swap", "64M", "--khugepaged", "every=5k", "--defrag",
              "always", "--compaction", "background"],
    "fork": ["fork:heap=4M,written=40%,case=b,reads=2k", "--fragmentation",
             "portion=60%,holes=20%,clustered", "--ksm", "every=5k,pages-to-scan=1k", "--contents",
             "zero=20%,duplicate=40%,distinct=16"],
    "readers": ["readers:heap=4M,processes=3,touch,reads=10k,warmup=2k,slice=500", "--cores", "2",
                "--memory", "12M", "--swap", "32M"],
}
OF_PROCESSES = """thp 1g perforated perforated-lazy perforated-reserve gt-pde-2m p-gt-pde-2m gt-pde-process
    segment-thp range thp+thp perforated+perforated perforated-lazy+perforated-reserve gt-pde-2m+thp
    thp+gt-pde-2m 4k-colt-8+thp 4k+range thp+shadow-thp perforated+shadow-4k 1g+flat-thp""".split()
EXPLAINED = """thp 1g 4k-colt-8 perforated-naive perforated-lazy p-gt-pde-2m gt-pde-4m-native segment-l1 range
    ideal thp+perforated perforated+thp gt-pde-2m+gt-pde-2m segment+4k 4k+segment segment+segment range+range
    thp+flat-thp perforated+shadow-4k""".split()
ERRORS = [
    ["compare", "nosuch"],
    ["compare", "random", "--scheme", "nosuch"],
    ["compare", "random", "--machine", "nosuch"],
    ["compare", "random", "--set", "tlb.l2.entries=abc"],
    ["compare", "random", "--set", "tlb.nosuch=1"],
    ["compare", "random", "--memory", "12Q"],
    ["compare", "random", "--memory", "1M"],
    ["compare", "random:size=abc"],
    ["compare", "random:nosuch=1"],
    ["compare", "random", "--fragmentation", "portion=200%"],
    ["compare", "random", "--age", "nosuch"],
    ["compare", "random", "--defrag", "alwyas"],
    ["compare", "random", "--khugepaged", "every=0"],
    ["compare", "random", "--ksm", "default"],
    ["compare", "random", "--self-balloon", "default"],
    ["compare", "random", "--modes", "nosuch"],
    ["compare", "random", "--scheme", "4k", "--segment", "min=16M"],
    ["compare", "random", "--scheme", "4k", "--host-memory", "1G"],
    ["compare", "random", "--policy", "nosuch", "--scheme", "scripted"],
    ["compare", "random", "--timing", "sampled=10/5"],
    ["compare", "random", "--precision", "1%"],
    ["compare", "random", "--warmup", "20M", "--instructions", "10M"],
    ["compare", "random", "--vary", "nosuch=1,2"],
    ["compare", "random", "--faulty", "/nosuch"],
    ["compare", "random", "--memory-from", "/nosuch"],
    ["compare", "random", "--layout", "/nosuch"],
    ["run", "random", "--scheme", "4k,thp"],
    ["explain", "zzz"],
    ["explain", "--scheme", "nosuch"],
    ["trace", "info", "nosuch"],
    ["trace", "convert", "nosuch", "-o", "out.trace"],
    ["experiment", "run", "nosuch"],
    ["experiment", "run", "nosuch.toml"],
    ["model", "--native", "/nosuch", "--virtualized", "/nosuch"],
    ["machines", "show", "nosuch"],
    ["list", "nosuch"],
    ["nosuch"],
    ["compare", "random", "--mthp", "2M"],
    ["curves", "nosuch"],
    ["curves", "random", "--sample", "1/3"],
    ["curves", "random", "--memory", "1G"],
    ["advise", "nosuch"],
    ["advise", "random", "--now", "maybe"],
    ["advise", "random", "--functional"],
]


def commands():
    """Names of commands and their arguments."""
    result = {}

    def add(name, arguments):
        assert name not in result, name
        result[name] = arguments

    def with_defaults(*arguments):
        defaults = [one for one in [SHORT, SEED, SMALL] if one[0] not in arguments]
        return [word for one in defaults for word in one] + list(arguments)

    def compare(name, workload, *arguments):
        add(name, ["compare", workload, *with_defaults("--out", "out", *arguments)])

    for workload in WORKLOADS:
        short = workload.split(":")[0]
        compare(f"default-{short}", workload)
        compare(f"default-pairs-{short}", workload, "--guest", "4k,thp", "--host", "4k,thp")
        for scheme in SCHEMES:
            policy = ["--policy", "thp"] if "scripted" in scheme else []
            holes = [] if scheme.startswith("gt-") or scheme.startswith("p-gt-") else [
                "--fragmentation", "portion=50%,holes=25%,clustered"]
            compare(f"scheme-{scheme}-{short}", workload, "--scheme", f"4k,{scheme}" if scheme != "4k"
                    else "4k", *holes, *policy)
    for guest in GUESTS:
        for host in HOSTS:
            compare(f"pair-{guest}+{host}", WORKLOADS[0], "--scheme", f"{guest}+{host}", "--check")
    for option, values in OPTIONS.items():
        given = [f"--{option}", *(values or [])]
        scheme = OF_OPTION.get(option, "4k,thp,perforated")
        compare(f"option-{option}", WORKLOADS[0], "--scheme", scheme, *given)
        add(f"run-{option}", ["run", WORKLOADS[0],
                              *with_defaults("--scheme", scheme.split(",")[-1], "--json", *given)])
    for option, values in HOST_OPTIONS.items():
        compare(f"option-{option}", WORKLOADS[0], "--scheme", "4k+4k,perforated+perforated",
                f"--{option}", *values)
    compare("modes", WORKLOADS[0], "--scheme", "segment+segment", "--modes", "big-memory,every=10k")
    compare("vary", WORKLOADS[0], "--vary", "tlb.l2.entries=768,1536", "--scheme", "4k,thp")
    compare("vary-grid", WORKLOADS[0], "--vary", "tlb.l2.entries=768,1536", "--vary",
            "walker.walkers=1,2", "--scheme", "4k,thp")
    compare("vary-memory", WORKLOADS[0], "--vary", "memory=512M,1G", "--scheme", "4k,thp")
    compare("seeds", WORKLOADS[0], "--seeds", "3", "--scheme", "4k,thp")
    compare("json", WORKLOADS[0], "--json", "--scheme", "4k,thp")
    compare("all-counters", WORKLOADS[0], "--all", "--scheme", "4k,thp")
    for scheme in ["4k", "perforated", "gt-pde-2m", "segment", "perforated+perforated",
                   "4k+shadow-4k"]:
        holes = ["--fragmentation", "portion=50%,holes=25%,clustered"] if scheme == "perforated" else []
        add(f"explain-{scheme}", ["explain", "--workload", WORKLOADS[0],
                                  *with_defaults("--scheme", scheme, *holes)])
    add("curves", ["curves", "redis", "--instructions", "1M", "--out", "out"])
    add("curves-json", ["curves", WORKLOADS[0], *SHORT, *SEED, "--sample", "1/8", "--json"])
    for scheme in EXPLAINED:
        add(f"explain-{scheme}", ["explain", "--workload", WORKLOADS[0],
                                  *with_defaults("--scheme", scheme)])
    for scheme, values in VALUES.items():
        for index, given in enumerate(values):
            schemes = [] if "--guest" in given else ["--scheme", f"{PLAIN.get(scheme, '4k')},{scheme}"]
            compare(f"value-{scheme}-{index}", WORKLOADS[0], *schemes, *given)
    for program, (workload, *given) in PROCESSES.items():
        for scheme in OF_PROCESSES:
            # Some options need a scheme with 2MB pages.
            schemes = scheme if scheme == "thp" else f"thp,{scheme}"
            compare(f"{program}-{scheme}", workload, "--scheme", schemes, "--check",
                    "--instructions", "200k", *given)
    for workload in SMALL_WORKLOADS:
        add(f"workload-{workload.split(':')[0]}", ["run", workload, *with_defaults("--scheme", "thp")])
    for machine in MACHINES:
        compare(f"machine-{machine}", WORKLOADS[0], "--scheme", "4k,thp", "--machine", machine)
    add("trace-info", ["trace", "info", "redis"])
    add("trace-head", ["trace", "head", "redis"])
    add("trace-convert", ["trace", "convert", WORKLOADS[0], "--instructions", "10k", "-o", "o.trace"])
    add("model-help", ["model", "--help"])
    for name in ["perforated/storage", "perforated/entries", "gtsm/table1", "gtsm/fig7", "segments/table2",
                 "perforated/sharing"]:
        add(f"experiment-{name.replace('/', '-')}", ["experiment", "run", name, "--quick", "--out", "out"])
    add("experiment-list", ["experiment", "list"])
    add("sweep-script", ["sweep", "perforated/storage", "--quick", "--slurm-script"])
    for name in LISTS:
        add(f"list-{name}", ["list", name])
    add("list", ["list"])
    add("machines", ["machines", "list"])
    add("machine", ["machines", "show", "perforated-table2"])
    for command in ["", "compare", "run", "advise", "explain", "curves", "record", "snapshot", "trace", "experiment",
                    "sweep", "calibrate", "validate", "machines"]:
        add(f"help-{command or 'all'}", [*command.split(), "--help"])
    for index, arguments in enumerate(ERRORS):
        add(f"error-{index:02}", arguments)
    return result


PROGRESS = re.compile(r"^perforate: after .*\n", re.MULTILINE)
HOST_TIME = re.compile(r"\d+(\.\d+)? (s|ms|min)\b")


def output_of(program, arguments):
    """The exit code and all output of a command, without what differs between two runs of one build."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run([program, *arguments], cwd=scratch, env=environment, text=True,
                              capture_output=True, timeout=600, check=False)
        parts = [f"$ perforate {' '.join(arguments)}", f"code {done.returncode}",
                 "-- stdout", done.stdout, "-- stderr", done.stderr]
        for name in ["results.jsonl", "report.html"]:
            file = pathlib.Path(scratch, "out", name)
            if file.exists():
                parts += [f"-- {name}", file.read_text()]
        text = "\n".join(parts).replace(scratch, "SCRATCH").replace(str(program), "perforate")
        text = text.replace(str(ROOT), "ROOT")
        text = text.replace(pathlib.Path(program).name, "perforate")
        text = re.sub(r'"version":\s*"[^"]*"', '"version":"VERSION"', text)
        return HOST_TIME.sub("TIME", PROGRESS.sub("", text))


def kept(name, text):
    """The lines of .ci/outputs.txt for an output."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    lines = text.split("-- results.jsonl")[0].splitlines()
    first = [line[:KEPT_COLUMNS].rstrip() for line in lines[:KEPT_LINES]]
    return "\n".join([f"== {name} {digest}", *first]) + "\n"


def by_name(text):
    """Sections of .ci/outputs.txt by the name of the command."""
    sections = re.split(r"^(?=== )", text, flags=re.MULTILINE)
    return {section.split()[1]: section for section in sections if section.startswith("== ")}


def show_difference(name, before, after):
    """Prints the first lines that differ; those of results are long."""
    print(f"{name} differs:")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    print("\n".join(line[:300] for line in list(lines)[2:14]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=["check", "update", "record", "compare", "list"])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/release/perforate")
    parser.add_argument("--only", default="", help="commands whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    wanted = {name: one for name, one in commands().items() if given.only in name}
    if given.action == "list":
        for name, arguments in wanted.items():
            print(f"{name}: perforate {' '.join(arguments)}")
        return 0
    program = given.program.resolve()
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        outputs = dict(zip(wanted, pool.map(lambda one: output_of(program, one), wanted.values())))
    if given.action in ["check", "update"]:
        now = {name: kept(name, text) for name, text in outputs.items()}
        if given.action == "update":
            KEPT.write_text("".join(now.values()))
            return 0
        before = by_name(KEPT.read_text())
    else:
        if given.folder is None:
            parser.error("expected a FOLDER of outputs")
        given.folder.mkdir(parents=True, exist_ok=True)
        files = {name: given.folder / f"{name}.txt" for name in outputs}
        if given.action == "record":
            for name, text in outputs.items():
                files[name].write_text(text)
            return 0
        now = outputs
        before = {name: file.read_text() for name, file in files.items() if file.exists()}
    different = [name for name, text in now.items() if before.get(name, "") != text]
    gone = [name for name in before if name not in now and not given.only]
    for name in different:
        show_difference(name, before.get(name, ""), now[name])
    print(f"{len(now)} commands, {len(different)} with another output, {len(gone)} gone")
    if different or gone:
        print("if that is intended: .ci/outputs.py update, and look at the difference of .ci/outputs.txt")
    return 1 if different or gone else 0


if __name__ == "__main__":
    sys.exit(main())

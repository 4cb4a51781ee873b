#!/usr/bin/env python3
"""Ten programs of different kinds, to compare advice on large pages with what they gain by it.

  programs.py list
  programs.py prepare DIR [FACTOR]         generate the inputs (the same bytes every time); FACTOR times the
                                           work, by default 1: some 4 to 20 s each
  programs.py command DIR NAME             print the command, for `perforate advise -- …`
  programs.py measure DIR RESULTS [NAME…]  `perforate verify` of each, a JSON line for each in RESULTS
  programs.py table RESULTS                the results as a table in Markdown
  programs.py record DIR TRACES [NAME…]    record windows of each, as `perforate advise -- PROG` does, in the folder TRACES
  programs.py predict TRACES ADVICE [NAME…] `perforate advise` of each for this machine, a JSON line for each in ADVICE
  programs.py judge RESULTS ADVICE         what was predicted for large pages for all memory, beside what was measured

Packages: redis-server, sqlite3, g++, xz-utils, a JDK, nginx-light, apache2-utils (Debian's names); numpy and
igraph for python3. Servers listen on the loopback address only, and end by themselves.
"""
import json
import math
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

PERFORATE = os.environ.get("PERFORATE", "perforate")
# Rounds of four runs that are measured.
ROUNDS = os.environ.get("ROUNDS", "3")

# Parts of the advice that are kept.
KEPT = ["verdict", "machine", "now", "evidence", "gain", "advised_bytes", "eligible_bytes", "additional_bytes", "runs", "notes"]
# Verdicts of advice as what they say of more large pages.
ADVICE = {"worth": "worth it", "unclear": "not clear", "not-worth": "not worth it", "already-on": "not worth it",
          "costs-memory": "not worth it", "too-little": "not clear"}
# Least measured effect that counts as one.
LEAST_EFFECT = 0.02

JAVA = """
import java.util.HashMap;
public class Maps {
    public static void main(String[] arguments) {
        HashMap<Long, Long> map = new HashMap<>();
        long state = 1, sum = 0;
        for (int i = 0; i < {updates}; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            long key = (state >>> 33) % 4_000_000;
            map.merge(key, 1L, Long::sum);
            sum += map.getOrDefault((key * 31) % 4_000_000, 0L);
        }
        System.out.println(map.size() + " " + sum);
    }
}
"""

SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, code INTEGER, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO item SELECT i, (i * 7919) % 1500007, 'item ' || (i * 104729 % 999983) FROM n;
CREATE INDEX by_code ON item(code);
CREATE INDEX by_name ON item(name);
SELECT count(*), sum(b.id) FROM item a JOIN item b ON b.code = (a.id * 31) % 1500007;
SELECT count(*) FROM item a JOIN item b ON b.name = a.name AND b.id > a.id;
"""

# In the server, so that the client takes no time: keys at random, 200 bytes each.
LUA = """
math.randomseed(7)
local value = string.rep('x', 200)
for i = 1, {sets} do
  redis.call('SET', 'key:' .. math.random(1000000), value .. i)
end
local found = 0
for i = 1, {gets} do
  if redis.call('GET', 'key:' .. math.random(1000000)) then found = found + 1 end
end
return found
"""

ARRAYS = """
import numpy
random = numpy.random.default_rng(7)
table = random.random(1 << 26)
total = 0.0
for _ in range({gathers}):
    total += table[random.integers(0, len(table), 1 << 24)].sum()
print(total, numpy.sort(table[: 1 << 23])[1000])
"""

PRODUCT = """
import numpy
random = numpy.random.default_rng(7)
a, b = random.random(({side}, {side})), random.random(({side}, {side}))
for _ in range(2):
    a = a @ b / {side}
print(a[0, 0])
"""

GRAPH = """
import random
import igraph
random.seed(7)
graph = igraph.Graph.Erdos_Renyi(n={vertices}, m={edges}, directed=True)
rank = graph.pagerank(implementation='prpack')
print(max(rank), len(graph.connected_components(mode='strong')), sum(graph.distances(source=[0])[0][:9]))
"""

NGINX = """
daemon off; master_process off; error_log /dev/null; pid {dir}/nginx.pid;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000; gzip on; gzip_types text/plain; gzip_comp_level 4;
  server {{ listen 127.0.0.1:8971; root {dir}/www; }}
}}
"""

REDIS = (
    "(until redis-cli -p 8972 ping; do sleep 0.1; done; redis-cli -p 8972 --eval {dir}/load.lua;"
    " redis-cli -p 8972 shutdown nosave) >/dev/null 2>&1 &"
    " exec redis-server --port 8972 --bind 127.0.0.1 --save '' --disable-thp no --lua-time-limit 0"
)
WEB = (
    "(sleep 0.5; ab -q -k -n $(cat {dir}/requests) -c 16 -H 'Accept-Encoding: gzip' http://127.0.0.1:8971/page.txt;"
    " kill -QUIT $(cat {dir}/nginx.pid)) >/dev/null 2>&1 & exec nginx -c {dir}/nginx.conf -p {dir}"
)
PYTHON = ["env", "-u", "OPENBLAS_CORETYPE", "-u", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS=1", "python3"]

# Name, kind, command. A command that executes another program needs --inherit.
PROGRAMS = [
    ("redis", "key-value store: keys set and got at random", ["sh", "-c", REDIS]),
    ("sqlite", "database: joins over indexes, in memory", ["sqlite3", ":memory:", ".read {dir}/load.sql"]),
    ("g++", "compiler: templates, -O2", ["{cc1plus}", "-quiet", "-O2", "{dir}/templates.ii", "-o", "/dev/null"]),
    ("xz", "compressor: -9, text", ["xz", "-9", "-T1", "-k", "-c", "{dir}/words.txt"]),
    ("numpy", "interpreter with arrays: gathers from 512 MB", [*PYTHON, "{dir}/arrays.py"]),
    ("java", "JVM: a HashMap of boxed numbers, serial collector",
     ["java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", "-cp", "{dir}", "Maps"]),
    ("igraph", "graph code: PageRank and components", [*PYTHON, "{dir}/graph.py"]),
    ("sort", "sort(1): random lines, one thread",
     ["env", "LC_ALL=C", "sort", "-S", "1G", "--parallel=1", "{dir}/lines.txt"]),
    ("dgemm", "matrix product: OpenBLAS", [*PYTHON, "{dir}/product.py"]),
    ("nginx", "web server: requests for a page, compressed", ["sh", "-c", WEB]),
]


def command(words, folder):
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True).stdout.strip()
    fill = {"{dir}": os.path.abspath(folder), "{cc1plus}": cc1plus}
    for name, value in fill.items():
        words = [word.replace(name, value) for word in words]
    return words


def prepare(folder, factor):
    os.makedirs(os.path.join(folder, "www"), exist_ok=True)
    source = random.Random(7)

    def scaled(count):
        return max(1, round(factor * count))

    def filled(text, **counts):
        for name, count in counts.items():
            text = text.replace("{" + name + "}", str(count))
        return text

    def write(name, text):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    words = ["".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(30000)]
    write("words.txt", " ".join(source.choices(words, k=scaled(1_000_000)))[: scaled(5 << 20)])
    write("www/page.txt", " ".join(source.choices(words, k=6_000)))
    write("lines.txt", "".join(f"{source.getrandbits(64):016x} {word}\n" for word in source.choices(words, k=scaled(3_000_000))))
    write("load.sql", filled(SQL, rows=scaled(1_500_000)))
    write("load.lua", filled(LUA, sets=scaled(700_000), gets=scaled(1_200_000)))
    write("arrays.py", filled(ARRAYS, gathers=scaled(8)))
    write("product.py", filled(PRODUCT, side=round(4096 * factor ** (1 / 3))))
    write("graph.py", filled(GRAPH, vertices=scaled(1_000_000), edges=scaled(6_000_000)))
    write("factor", str(factor))
    write("requests", str(scaled(60_000)))
    write("nginx.conf", NGINX.format(dir=os.path.abspath(folder)))
    write("Maps.java", filled(JAVA, updates=scaled(12_000_000)))
    subprocess.run(["javac", "-d", folder, os.path.join(folder, "Maps.java")], check=True)
    lines = ["#include <map>", "#include <regex>", "#include <string>", "#include <unordered_map>", "#include <algorithm>", "#include <vector>"]
    for number in range(scaled(12)):
        lines += [
            f"struct Key{number} {{ int a[{number + 1}]; bool operator<(const Key{number}& o) const {{ return a[0] < o.a[0]; }} }};",
            f"int use{number}(std::vector<Key{number}>& v, const std::string& s) {{",
            f"  std::map<Key{number}, std::string> m; std::sort(v.begin(), v.end());",
            "  for (auto& k : v) m[k] += s;",
            f"  std::unordered_map<std::string, std::map<Key{number}, int>> u;",
            "  for (auto& k : v) u[s][k]++;",
            "  return int(m.size() + u.size()) + std::regex_match(s, std::regex(\"a+\")); }",
        ]
    write("templates.cc", "\n".join(lines) + "\n")
    subprocess.run(["g++", "-E", os.path.join(folder, "templates.cc"), "-o", os.path.join(folder, "templates.ii")], check=True)


def measure(folder, results, names):
    with open(os.path.join(folder, "factor")) as file:
        factor = float(file.read())
    for name, _, words in chosen(names):
        line = [PERFORATE, "verify", "--inherit", "--json", "--rounds", ROUNDS, "--", *command(words, folder)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        with open(results, "a") as file:
            file.write(json.dumps({"name": name, "factor": factor, **json.loads(done.stdout)}) + "\n")
        print(name, json.loads(done.stdout)["measured"], flush=True)


def chosen(names):
    return [program for program in PROGRAMS if not names or program[0] in names]


def run(name, line, started):
    """Runs a command, and returns its result with the time that it took; None with its last line if it failed."""
    done = subprocess.run(line, capture_output=True)
    if done.returncode != 0:
        print(f"{name}: {done.stderr.decode(errors='replace').strip().splitlines()[-1]}", file=sys.stderr)
        return None
    print(f"{name}: {time.time() - started:.0f} s", flush=True)
    return done.stdout


def record(folder, traces, names):
    os.makedirs(traces, exist_ok=True)
    shutil.copy(os.path.join(folder, "factor"), traces)
    for name, _, words in chosen(names):
        trace = os.path.join(traces, f"{name}.trace")
        run(name, [PERFORATE, "record", "--sample", "auto", "--for", "10m", "-o", trace, "--", *command(words, folder)], time.time())


def predict(traces, results, names):
    for name, _, _ in chosen(names):
        started = time.time()
        found = run(name, [PERFORATE, "advise", "--json", "--machine", "host", os.path.join(traces, f"{name}.trace")], started)
        if found is None:
            continue
        advice = json.loads(found)
        kept = {key: advice.get(key) for key in KEPT}
        with open(results, "a") as file:
            file.write(json.dumps({"name": name, "seconds": round(time.time() - started), **kept}) + "\n")


def by_name(results):
    """Records by name. Measurements of one program with the same inputs at several times count together."""
    found = {}
    with open(results) as file:
        for record in map(json.loads, file):
            before = found.get(record["name"], {})
            if "measured" in record and before.get("factor") == record["factor"]:
                record["runs"] = before["runs"] + record["runs"]
            found[record["name"]] = record
    return found


def judge(results, advice):
    measured, predicted = by_name(results), by_name(advice)
    print("| program | predicted | its range | measured in user mode | 95 % | error of the effect | advice | measured | judged | with the kernel's work: predicted | measured |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    errors, judgements = [], []
    for name, _, _ in PROGRAMS:
        if name not in measured or name not in predicted:
            continue
        found = predicted[name]
        large = next(run for run in found["runs"] if run["name"] == "all large")
        speed, kernel, runs = large["speed"], large["speed_with_kernel"], measured[name]["runs"]
        user, low, high = interval(ratios(runs, user_seconds))
        whole, whole_low, whole_high = interval(ratios(runs, processor_seconds))
        is_clear = abs(user - 1) >= LEAST_EFFECT and not low <= 1 <= high
        error = abs(user - speed["speed"]) / abs(user - 1) if is_clear else None
        errors += [error] if is_clear else []
        said, was = ADVICE[found["verdict"]], worth(user, low, high)
        judged = "within the error" if "not clear" in (said, was) else "right" if said == was else "wrong"
        judgements.append(judged)
        print(
            f"| {name} | {speed['speed']:.3f} | {speed['low']:.2f}–{speed['high']:.2f} | {user:.3f} | {low:.3f}–{high:.3f} "
            f"| {'–' if error is None else format(100 * error, '.0f') + ' %'} | {said} | {was} | {judged} "
            f"| {'–' if kernel is None else format(kernel, '.3f')} | {whole:.3f} ({whole_low:.3f}–{whole_high:.3f}) |"
        )
    print()
    for judged in ("right", "within the error", "wrong"):
        print(f"{judged}: {judgements.count(judged)}")
    if errors:
        print(f"median error of measured effects whose interval leaves out 1: {100 * statistics.median(errors):.0f} % of {len(errors)}")


def worth(ratio, low, high):
    """Says of a measured ratio what `perforate verify` says of it (docs/verify.md)."""
    if ratio >= 1 + LEAST_EFFECT and low >= 1:
        return "worth it"
    return "not worth it" if 0.96 <= low and high <= 1.04 or high < 1 else "not clear"


def user_seconds(run):
    return run["user_seconds"]


def processor_seconds(run):
    return run["user_seconds"] + run["system_seconds"]


def ratios(runs, seconds):
    """Times as it is over times with advice, by pairs of runs that follow each other."""
    pairs = zip(runs[::2], runs[1::2])
    pairs = [sorted(pair, key=lambda run: run["is_advised"]) for pair in pairs]
    return [seconds(plain) / seconds(advised) for plain, advised in pairs]


def student(freedom):
    """Quantile of Student's t for two-sided intervals of 95 %: the normal one, and two terms of Fisher's expansion."""
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def interval(ratios):
    """Geometric mean with its 95 % interval, by Student's t of the logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = student(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return tuple(math.exp(value) for value in (mean, mean - half, mean + half))


def table(results):
    found = by_name(results)
    print("| program | inputs | processor time, s | ratio (95 %) | in user mode (95 %) | in the kernel, s | page faults, thousands | resident, MB | in 2MB pages | spread of the runs |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, kind, _ in PROGRAMS:
        if name not in found:
            continue
        record = found[name]
        arms = [[run for run in record["runs"] if run["is_advised"] == advised] for advised in (False, True)]

        def pair(value, form):
            return " → ".join(format(statistics.median([value(run) for run in arm]), form) for arm in arms)

        def large(run):
            pages = run["areas"]
            resident = sum(area["resident_bytes"] for area in pages)
            return 100 * sum(area["large_bytes"] for area in pages) / max(resident, 1)

        def spread(arm):
            times = [processor_seconds(run) for run in arm]
            return 100 * (max(times) - min(times)) / statistics.median(times)

        user = interval(ratios(record["runs"], user_seconds))
        gain = interval(ratios(record["runs"], processor_seconds))
        print(
            f"| {name} | {record.get('factor', 1):g} | {pair(processor_seconds, '.2f')} | **{gain[0]:.3f}** ({gain[1]:.3f}–{gain[2]:.3f}) "
            f"| {user[0]:.3f} ({user[1]:.3f}–{user[2]:.3f}) | {pair(lambda run: run['system_seconds'], '.2f')} | {pair(lambda run: run['page_faults'] / 1000, '.1f')} "
            f"| {pair(lambda run: run['max_resident_bytes'] / (1 << 20), '.0f')} | {pair(large, '.0f')} % "
            f"| {spread(arms[0]):.0f} %, {spread(arms[1]):.0f} % |"
        )


def main(arguments):
    match arguments:
        case ["list"]:
            for name, kind, words in PROGRAMS:
                print(f"{name:8} {kind}")
        case ["prepare", folder, *factor]:
            prepare(folder, float(factor[0]) if factor else 1.0)
        case ["command", folder, name]:
            print(shlex.join(next(command(words, folder) for own, _, words in PROGRAMS if own == name)))
        case ["measure", folder, results, *names]:
            measure(folder, results, names)
        case ["record", folder, traces, *names]:
            record(folder, traces, names)
        case ["predict", traces, advice, *names]:
            predict(traces, advice, names)
        case ["judge", results, advice]:
            judge(results, advice)
        case ["table", results]:
            table(results)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])

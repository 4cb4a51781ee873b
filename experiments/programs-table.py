"""Prints the table of docs/papers.md from results of P Fig. 9, 10 and 11.

python3 experiments/programs-table.py RESULTS...

RESULTS: results.jsonl of reasons/stand-ins, perforated/fig9-programs, perforated/fig10 and perforated/fig11, in one
file or several. Of several seeds the least and the greatest value follow the median.
"""

import json
import sys

NATIVE, NESTED = "perforated/fig9-programs", "perforated/fig11"
COLUMNS = [
    ("MB touched", "reasons/stand-ins", "touched", "size"),
    ("4k", NATIVE, "mpki-4k", "number"),
    ("thp", NATIVE, "mpki-conventional", "number"),
    ("perforated", NATIVE, "mpki-perforated", "number"),
    ("ideal", NATIVE, "mpki-ideal", "number"),
    ("thp keeps", "reasons/stand-ins", "kept", "share"),
    ("of ideal", NATIVE, "of-ideal", "percent"),
    ("over thp", NATIVE, "gain", "gain"),
    ("virtualized: of ideal", NESTED, "of-ideal-clustered-both", "percent"),
    ("over thp", NESTED, "gain-clustered-both", "gain"),
    ("over GT-PDE-2MB", "perforated/fig10", "over-described", "gain"),
]
PAPER = ["*P*", "", "", "", "", "", "", "93.2–99.9 %", "+2.0–11.5 %", "78.9–99.9 %", "+7.2–48.0 %", "+6.2 % (mean)"]


def written(value, form):
    match form:
        case "size":
            return f"{value:.0f}"
        case "number":
            return f"{value:#.3g}".rstrip(".") if value >= 1 else f"{value:.2f}"
        case "share":
            return f"{value:.0%}".replace("%", " %")
        case "percent":
            return f"{100 * value:.1f} %"
        case "gain":
            return f"{100 * (value - 1):+.1f} %".replace("-", "−")


def cell(point, form):
    if not point or point["value"] is None:
        return ""
    text = written(point["value"], form)
    least, greatest = (written(point[end], form) if point.get(end) else text for end in ("low", "high"))
    return text if least == greatest else f"{text} ({least} to {greatest})"


def main():
    records = [json.loads(line) for name in sys.argv[1:] for line in open(name)]
    points = {
        (record["experiment"], record["curve"], record["place"]): record
        for record in records
        if record["record"] == "point" and record.get("place")
    }
    programs = dict.fromkeys(place for experiment, _, place in points if experiment == "reasons/stand-ins")
    rows = [["program"] + [heading for heading, *_ in COLUMNS], ["---"] * (len(COLUMNS) + 1), PAPER]
    for program in programs:
        cells = [cell(points.get((experiment, curve, program)), form) for _, experiment, curve, form in COLUMNS]
        rows.append([program] + cells)
    for row in rows:
        print("|" + "|".join(f" {text} " if text else " " for text in row) + "|")


if __name__ == "__main__":
    main()

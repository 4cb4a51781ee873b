"""Pages of the site that the program makes: `site-pages.py PERFORATE FOLDER`.

FOLDER/docs becomes a copy of docs/ in which the gallery has its figures, made by the commands that stand
there, and in which the reference has a page for each command and each list of the program.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"^<!-- figure: (\S+)/(\S+) \| (.*) -->$", re.MULTILINE)


def run(program, words, folder):
    """What the program prints, called with these words."""
    done = subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def add_gallery(program, folder):
    """Runs the commands of the gallery and puts the figures where its page names them."""
    page = folder / "docs" / "gallery.md"
    text = page.read_text()
    for block in COMMANDS.findall(text):
        for line in block.splitlines():
            _, *words = shlex.split(line)
            run(program, words, folder)

    def shown(figure):
        place, name, title = figure.groups()
        made = folder / "gallery" / place / "figures"
        for kind in ("svg", "csv"):
            target = page.parent / "figures" / f"{place}-{name}.{kind}"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(made / f"{name}.{kind}", target)
        return f"![{title}](figures/{place}-{name}.svg)\n\n{title} ([data](figures/{place}-{name}.csv)).\n"

    text, count = FIGURE.subn(shown, text)
    page.write_text(text)
    return count


def add_reference(program, folder):
    """Makes a page for each command and each list, and returns their lines of the summary."""
    reference = folder / "docs" / "reference"
    run(program, ["man", "--markdown", "--out", str(reference)], folder)
    lines = []
    for page in sorted(reference.glob("*.md"), key=lambda page: page.stem.split("-")):
        name = page.read_text().splitlines()[0].removeprefix("# ")
        lines.append(f"{'  ' * name.count(' ')}- [{name}](reference/{page.name})")
    # The lists are the values that `perforate list` takes.
    row = next(line for line in (reference / "perforate-list.md").read_text().splitlines() if line.startswith("| `WHAT`"))
    for what in re.findall(r"`([a-z]+)`", row):
        listed = run(program, ["list", what], folder)
        note = f"As `perforate list {what}` prints them."
        page = reference / f"list-{what}.md"
        page.write_text(f"# {what.capitalize()}, as listed\n\n{note}\n\n```text\n{listed}```\n")
        lines.append(f"- [{what.capitalize()}, as listed](reference/{page.name})")
    return lines


def main():
    program, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree("docs", folder / "docs")
    lines = add_reference(program, folder)
    summary = folder / "docs" / "SUMMARY.md"
    before, mark, after = summary.read_text().partition("# Explanation\n")
    if not mark:
        sys.exit("docs/SUMMARY.md has no part “Explanation”, before which the reference would stand")
    title = "# Reference, as the program prints it"
    summary.write_text("\n".join([before.rstrip(), "", title, "", *lines, "", ""]) + mark + after)
    count = add_gallery(program, folder)
    print(f"{len(lines)} pages of reference, {count} figures")


main()

"""A preprocessor of mdBook: links that lead out of docs/ become links to the repository.

Pages link to sources and to ARCHITECTURE.md by relative paths, which work in a checkout and on the
repository's site. The book has only the pages, so that there these would lead nowhere.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"\]\((\.\./[^)\s]*)\)")


def leading_out(page, repository):
    """The replacement of a link of this page, given as a path in docs/."""

    def replacement(link):
        target, mark, anchor = link.group(1).partition("#")
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return link.group(0)
        return f"]({repository}/blob/main/{path}{mark}{anchor})"

    return replacement


def rewrite(items, repository):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        if chapter["path"] is not None:
            chapter["content"] = LINK.sub(leading_out(chapter["path"], repository), chapter["content"])
        rewrite(chapter["sub_items"], repository)


def main():
    # `supports RENDERER` asks whether pages for it are to pass through here: all are.
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"].rstrip("/")
    # mdBook 0.4 calls them sections.
    rewrite(book["items"] if "items" in book else book["sections"], repository)
    json.dump(book, sys.stdout)


main()

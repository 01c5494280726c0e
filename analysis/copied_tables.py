"""Tables and pictures of the pages are copied from what made them, never typed by hand.

A page asks for a table by the lines `<!-- OWNER: TABLE -->` and `<!-- end -->`. The owner is a
study, whose tables `pcqc docs STUDY` puts there, or a command that makes them. The end mark gets
the table's digest, so that a test notices an edited copy. A picture `pictures/STUDY-FIGURE.svg`
that a page shows is copied into docs/pictures/.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import digest, write_atomic
from pcqc_study.graph import latest
from pcqc_study.study_file import Study

PAGES = ("README.md", "docs/*.md", "packages/*/README.md", "src/credit_lab/bench/README.md")
_COPY = re.compile(
    r"<!-- (?P<owner>[\w-]+): (?P<table>\w+) -->\n(?P<body>.*?)<!-- end(?: (?P<digest>\w+))? -->",
    re.DOTALL,
)
# Rows of a table that a page shows in a form of its own; a test looks their numbers up.
EXCERPT = re.compile(r"<!-- from ([\w-]+): (\w+) -->\n\n((?:\|.*\n){3,})")


def with_tables(page: Path, owner: str, tables: Mapping[str, str]) -> str:
    """A page's text with other tables between their marks.

    Args:
        page: the file, which is not written.
        owner: the tables'.
        tables: name -> Markdown.

    Raises:
        UserError: the page does not ask for one of them.
    """

    def filled(copy: re.Match) -> str:
        if copy["owner"] != owner or copy["table"] not in tables:
            return copy[0]
        body = f"\n{tables[copy['table']].rstrip()}\n\n"
        return f"<!-- {owner}: {copy['table']} -->\n{body}<!-- end {digest(body)} -->"

    for name in tables:
        shown(page, owner, name)
    return _COPY.sub(filled, page.read_text(encoding="utf-8"))


def shown(page: Path, owner: str, table: str) -> str:
    """The table that a page has between the marks of that name.

    Raises:
        UserError: the page lacks them.
    """
    for copy in _COPY.finditer(page.read_text(encoding="utf-8")):
        if (copy["owner"], copy["table"]) == (owner, table):
            return copy["body"].strip()
    raise UserError(f"{page}: no marks `<!-- {owner}: {table} -->`, `<!-- end -->`; restore them")


def excerpt(page: Path, owner: str, table: str) -> str:
    """The excerpt that a page has of that table.

    Raises:
        UserError: it has none.
    """
    for *of, rows in EXCERPT.findall(page.read_text(encoding="utf-8")):
        if of == [owner, table]:
            return rows
    raise UserError(f"{page}: no mark `<!-- from {owner}: {table} -->` above a table; restore it")


def copy_tables(study: Study, root: Path = ROOT, folder: Path | None = None) -> list[Path]:
    """Copy a study's tables into every page below `root` that asks for them; those pages.

    Raises:
        UserError: a table that a page asks for has not been written.
    """
    tables = (folder or latest(study, "report")) / "tables"
    asked = asked_for(study, root)
    for page, names in asked.items():
        paths = {name: tables / f"{name}.md" for name in names}
        for path in paths.values():
            if not path.exists():
                raise UserError(f"{path}: missing; run `pcqc report {study.name}` first")
        texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
        write_atomic(page, with_tables(page, study.name, texts))
    return list(asked)


def copy_pictures(study: Study, root: Path = ROOT) -> list[Path]:
    """Copy the figures of a study that pages below `root` show into docs/pictures/; the copies.

    Raises:
        UserError: a figure that a page shows has not been drawn.
    """
    picture = re.compile(rf"\(\S*pictures/{re.escape(study.name)}-(\w+)\.svg\)")
    texts = [path.read_text(encoding="utf-8") for path in _pages(root)]
    copies = []
    for name in sorted({name for text in texts for name in picture.findall(text)}):
        drawn = latest(study, "report") / "figures" / f"{name}.svg"
        if not drawn.exists():
            raise UserError(f"{drawn}: missing; run `pcqc report {study.name}` first")
        copies.append(root / "docs" / "pictures" / f"{study.name}-{name}.svg")
        write_atomic(copies[-1], drawn.read_bytes())
    return copies


def asked_for(study: Study, root: Path = ROOT) -> dict[Path, list[str]]:
    """Page -> the tables of a study that it shows, for pages that show any."""
    asked = {
        path: [
            copy["table"]
            for copy in _COPY.finditer(path.read_text(encoding="utf-8"))
            if copy["owner"] == study.name
        ]
        for path in _pages(root)
    }
    return {path: names for path, names in asked.items() if names}


def edited(root: Path = ROOT) -> list[str]:
    """Copied tables that are not as they were copied, as `page: owner: table`."""
    return [
        f"{path.relative_to(root)}: {copy['owner']}: {copy['table']}"
        for path in _pages(root)
        for copy in _COPY.finditer(path.read_text(encoding="utf-8"))
        if digest(copy["body"]) != copy["digest"]
    ]


def _pages(root: Path) -> list[Path]:
    return sorted(path for pattern in PAGES for path in root.glob(pattern))

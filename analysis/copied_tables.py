"""Results in README and docs are tables and pictures copied from a run, never typed by hand.

A page asks for a table by the lines `<!-- STUDY: TABLE -->` and `<!-- end -->`. `pcqc docs STUDY`
puts the table between them and its digest into the end mark, so that a test notices an edited copy.
A picture `pictures/STUDY-FIGURE.svg` that a page shows is copied into docs/pictures/.
"""

import re
from pathlib import Path

from pcqc.errors import UserError
from pcqc.results.graph import latest
from pcqc.study import ROOT, Study, digest
from pcqc.system.files import write_atomic

PAGES = ("README.md", "docs/*.md")
_COPY = re.compile(
    r"<!-- (?P<study>[\w-]+): (?P<table>\w+) -->\n(?P<body>.*?)<!-- end(?: (?P<digest>\w+))? -->",
    re.DOTALL,
)


def copy_tables(study: Study, root: Path = ROOT, folder: Path | None = None) -> list[Path]:
    """Copy a study's tables into every page below `root` that asks for them; those pages.

    Raises:
        UserError: a table that a page asks for has not been written.
    """

    def filled(copy: re.Match) -> str:
        if copy["study"] != study.name:
            return copy[0]
        path = tables / f"{copy['table']}.md"
        if not path.exists():
            raise UserError(f"{path}: missing; run `pcqc report {study.name}` first")
        body = f"\n{path.read_text(encoding='utf-8')}\n"
        return f"<!-- {study.name}: {copy['table']} -->\n{body}<!-- end {digest(body)} -->"

    tables = (folder or latest(study, "report")) / "tables"
    changed = list(asked_for(study, root))
    for path in changed:
        write_atomic(path, _COPY.sub(filled, path.read_text(encoding="utf-8")))
    return changed


def copy_pictures(study: Study, root: Path = ROOT) -> list[Path]:
    """Copy the figures of a study that pages below `root` show into docs/pictures/; the copies.

    Raises:
        UserError: a figure that a page shows has not been drawn.
    """
    shown = re.compile(rf"\(\S*pictures/{re.escape(study.name)}-(\w+)\.svg\)")
    texts = [path.read_text(encoding="utf-8") for path in _pages(root)]
    copies = []
    for name in sorted({name for text in texts for name in shown.findall(text)}):
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
            if copy["study"] == study.name
        ]
        for path in _pages(root)
    }
    return {path: names for path, names in asked.items() if names}


def edited(root: Path = ROOT) -> list[str]:
    """Copied tables that are not as they were copied, as `page: study: table`."""
    return [
        f"{path.relative_to(root)}: {copy['study']}: {copy['table']}"
        for path in _pages(root)
        for copy in _COPY.finditer(path.read_text(encoding="utf-8"))
        if digest(copy["body"]) != copy["digest"]
    ]


def _pages(root: Path) -> list[Path]:
    return sorted(path for pattern in PAGES for path in root.glob(pattern))

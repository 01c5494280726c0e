"""Numbers in the pages: each has a source in `docs/figures.yaml`, and study tables are copied in.

A source is one of
    config STUDY path       a setting of a study, as `clinic.diseases`
    published path          a number of `analysis/published.yaml`
    plan STUDY path         a number of `pcqc plan STUDY --json`
    code MODULE NAME        a constant
    file PATH               the number stands in that file
    tested PATH             a test asserts it
    defined                 no finding and no setting: a definition, a name, an example
The first four may end in `x100`, `x-1`, `1-x` or `1+x`, for what the page prints of the value x,
and several may be joined by `over` and `times`, taken from left to right.
"""

import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from analysis.published import FILE as PUBLISHED
from pcqc.config import ROOT, Study, digest, load_study
from pcqc.errors import UserError
from pcqc.files import write_atomic

FILE = Path("docs") / "figures.yaml"
PAGES = ("README.md", "results/README.md", "docs/*.md")
WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

_PRINTED = {
    "x100": lambda x: 100 * x,
    "x-1": lambda x: x - 1,
    "1-x": lambda x: 1 - x,
    "1+x": lambda x: 1 + x,
}
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
# Not within a name, such as U1 or Apache-2.0; an address is one number.
_DIGITS = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)*[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*(?!\w)")
_ANY = re.compile(rf"{_DIGITS.pattern}|\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_NO_PROSE = (
    re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL),
    re.compile(r"<!-- (\w+): (\w+) -->.*?<!-- end -->", re.DOTALL),  # copied tables
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),  # targets of links
    re.compile(r"^ *\d+\. ", re.MULTILINE),  # of lists
)


def pages(root: Path = ROOT) -> list[Path]:
    """Every page whose numbers need a source."""
    return sorted(path for pattern in PAGES for path in root.glob(pattern))


def problems(root: Path = ROOT) -> list[str]:
    """What is wrong with the numbers in the pages, one line each; empty where all have sources."""
    figures = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    known = {path.relative_to(root).as_posix() for path in pages(root)}
    lost = [f"{FILE}: no page {name}" for name in {*figures["pages"], *figures["tables"]} - known]
    found = []
    for name in sorted(known):
        text = (root / name).read_text(encoding="utf-8")
        found += _page_problems(name, text, figures["pages"].get(name, []), root)
        found += _table_problems(name, text, figures["tables"].get(name, {}))
    return lost + found


def _page_problems(name: str, text: str, entries: list[dict], root: Path) -> Iterator[str]:
    for entry in entries:
        if "lines" in entry:
            text = re.sub(rf"^{entry['lines']}$", "", text, flags=re.MULTILINE)
            if not agrees("", entry["is"], root):
                yield f"{name}: nothing like {entry['is']} vouches for the lines {entry['lines']}"
    prose = plain(text)
    covered = prose
    for entry in (entry for entry in entries if "text" in entry):
        wanted = plain(entry["text"])
        if wanted not in prose:
            yield f"{name}: does not say '{wanted}', as {FILE} expects; bring the two together"
        covered = covered.replace(wanted, " ")
        yield from _source_problems(name, wanted, entry["is"], root)
    for number in _DIGITS.findall(covered):
        yield f"{name}: the number '{number}' has no source; name it in {FILE}"


def plain(text: str) -> str:
    """Prose alone, its white space single: no code, copied tables, targets of links, list marks."""
    for pattern in _NO_PROSE:
        text = pattern.sub(" … ", text)
    return " ".join(text.split())


def _source_problems(name: str, text: str, sources: str | list[str], root: Path) -> Iterator[str]:
    numbers = _ANY.findall(text)
    sources = [sources] * len(numbers) if isinstance(sources, str) else sources
    if len(numbers) != len(sources):
        yield f"{name}: '{text}' has {len(numbers)} numbers and {len(sources)} sources in {FILE}"
        return
    for number, source in zip(numbers, sources, strict=True):
        if not agrees(number, source, root):
            yield f"{name}: '{number}' in '{text}' is not what its source says: {source}"


def agrees(number: str, source: str, root: Path = ROOT) -> bool:
    """Whether a number as printed is its source's, rounded to the printed decimals."""
    kind, *rest = source.split()
    if kind == "defined":
        return True
    if kind == "tested":
        return (root / rest[0]).exists()
    if kind == "file":
        text = (root / rest[0]).read_text(encoding="utf-8")
        return number.replace(",", "") in re.findall(r"[\w.]+", text.replace("_", ""))
    return abs(_value(number) - round(_joined(source), _decimals(number))) < 1e-9


def _joined(source: str) -> float:
    """The value of sources joined by `over` and `times`."""
    first, *others = re.split(r" (over|times) ", source)
    value = _looked_up(first)
    for word, other in zip(others[::2], others[1::2], strict=True):
        value = value / _looked_up(other) if word == "over" else value * _looked_up(other)
    return value


@functools.cache
def _looked_up(source: str) -> float:
    """The value of a single source that has one."""
    kind, *rest = source.split()
    if kind == "config":
        value = _at(load_study(rest[0]).to_dict(), rest[1])
    elif kind == "published":
        value = _at(yaml.safe_load(PUBLISHED.read_text(encoding="utf-8")), rest[0])
    elif kind == "plan":
        plan = importlib.import_module("pcqc.planning.plan").make_plan(load_study(rest[0]))
        value = _at(plan, rest[1])
    elif kind == "code":
        value = getattr(importlib.import_module(rest[0]), rest[1])
    else:
        raise UserError(f"{FILE}: no source is called '{kind}'; see analysis/prose.py")
    return _PRINTED[rest[-1]](value) if rest[-1] in _PRINTED else value


def _decimals(number: str) -> int:
    """Decimals that a number is printed to; all of them for words and powers."""
    return len(number.partition(".")[2]) if number[-1] in "0123456789" else 12


def _at(data: Any, path: str) -> Any:
    """What stands under a dotted path."""
    for key in path.split("."):
        data = data[int(key) if isinstance(data, list | tuple) else key]
    return data


def _value(number: str) -> float:
    """`1,268`, `10⁻⁴` or `eight` as a number."""
    if number.lower() in WORDS:
        return 2 + WORDS.index(number.lower())
    digits = re.match(r"[\d,.]+", number).group()
    exponent = number[len(digits) :].translate(_SUPERSCRIPTS)
    base = float(digits.replace(",", ""))
    return base ** int(exponent) if exponent else base


def _table_problems(name: str, text: str, recorded: dict[str, str]) -> Iterator[str]:
    """Copied tables must be the bytes that `copy_tables` wrote."""
    found = {key: digest(body) for key, body in _copied(text)}
    for key in sorted({*found} | {*recorded}):
        if found.get(key) != recorded.get(key):
            yield f"{name}: the table '{key}' is not as copied; `pcqc docs` copies it again"


def _copied(text: str) -> Iterator[tuple[str, str]]:
    """`study: table` and the text between the marks, of every copied table of a page."""
    for match in re.finditer(r"<!-- (\w+: \w+) -->\n(.*?)<!-- end -->", text, re.DOTALL):
        yield match.group(1), match.group(2)


def copy_tables(study: Study, root: Path = ROOT) -> list[Path]:
    """Copy a study's tables between the marks that name them, and record their digests.

    A page asks for a table by the lines `<!-- STUDY: TABLE -->` and `<!-- end -->`.

    Returns:
        the pages that have such marks.

    Raises:
        UserError: a table that a page asks for has not been written.
    """
    figures = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    changed = []
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        wanted = [key for key, _ in _copied(text) if key.startswith(f"{study.name}: ")]
        for key in wanted:
            body = _table(study, key.partition(": ")[2])
            marks = rf"(<!-- {key} -->\n).*?(<!-- end -->)"
            text = re.sub(marks, lambda m, b=body: m[1] + b + m[2], text, flags=re.DOTALL)
        if wanted:
            name = path.relative_to(root).as_posix()
            figures["tables"][name] = {key: digest(body) for key, body in _copied(text)}
            write_atomic(path, text)
            changed.append(path)
    text = (root / FILE).read_text(encoding="utf-8")
    head = text[: text.index("\ntables:") + 1]
    write_atomic(root / FILE, head + yaml.safe_dump({"tables": figures["tables"]}))
    return changed


def _table(study: Study, name: str) -> str:
    """A written table in Markdown."""
    path = study.results / "tables" / f"{name}.md"
    if not path.exists():
        raise UserError(f"{path}: missing; run `pcqc tables {study.name}` first")
    return f"\n{path.read_text(encoding='utf-8')}\n"

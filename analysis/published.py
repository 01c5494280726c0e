"""The numbers that the paper prints (`published.yaml`)."""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.statistics.estimates import Estimate, binomial_error
from analysis.table import Cell, Column, Number, Range, Row, Statement, Table
from pcqc_base.settings import Benchmark
from pcqc_study.intervals_over_cases import NORMAL

FILE = Path(__file__).with_name("published.yaml")
RUNS = 3  # independent RL runs behind a mean with a standard deviation
_NUMBER = re.compile(r"(\*\*)?(?P<value>[+−]?[\d,]+(\.(?P<decimals>\d+))?)(?P<unit>%?)(\*\*)?")


@dataclass(frozen=True)
class Published:
    """What the paper prints.

    Attributes:
        methods: name -> title.
        claims: claim -> what the paper reports for it.
        further_claims: what else it reports and a study may repeat -> its number.
        training_cases: source -> cases (SFT: conversations) of the training.
        overlap: evaluation cases that overlap with training data.
        continuation_states: states of the continuation study.
        tables: each table with the row and column keys of ours.
    """

    benchmarks: dict[str, Benchmark]
    methods: dict[str, str]
    claims: dict[str, str]
    further_claims: dict[str, str]
    training_cases: dict[str, int]
    overlap: dict[str, dict[str, int]]
    continuation_states: int
    tables: dict[str, Table]

    def estimate(self, table: str, row: str, column: str) -> Estimate:
        """A cell's mean, with its SD over three runs where one is printed."""
        cell = self.tables[table].cell(row, column)
        return Estimate(cell.value, cell.sd, 1 if cell.sd is None else RUNS)


@cache
def published() -> Published:
    """Read `published.yaml`, once."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    benchmarks = {name: Benchmark(**b) for name, b in data.pop("benchmarks").items()}
    sizes = {name: benchmark.cases for name, benchmark in benchmarks.items()}
    tables = {name: _table(name, table, sizes) for name, table in data.pop("tables").items()}
    return Published(benchmarks, tables=tables, **data)


def _table(name: str, printed: dict[str, Any], sizes: dict[str, int | None]) -> Table:
    labels = printed.get("labels", 1)
    columns = []
    for i, (key, title) in enumerate(printed["columns"].items()):
        words = title if isinstance(title, list) else [title]
        columns.append(Column(key, *words, numeric=i >= labels))
    rows = []
    for key, texts in printed["rows"].items():
        # A p value is a text, because its digits count.
        cells = [
            _cell(text) if column.numeric and column.key != "p" else text
            for column, text in zip(columns, texts, strict=True)
        ]
        if key in printed.get("meaning", {}):
            cells[-1] = Statement(cells[-1], printed["meaning"][key])
        for i, cell in enumerate(cells):
            if isinstance(cell, Number):
                benchmark = printed.get("cases", {}).get(columns[i].key)
                cases = sizes.get(key if benchmark == "row" else benchmark)
                beside = cells[i + 1] if i + 1 < len(cells) else None
                cells[i] = replace(cell, se=_standard_error(cell, cases, beside))
        rule, strong = (key in printed.get(name, ()) for name in ("rules", "strong"))
        rows.append(Row(key, tuple(cells), rule, strong))
    notes = (printed["note"],) if "note" in printed else ()
    words = printed["title"], printed.get("caption", "")
    return Table(name, *words, tuple(columns), tuple(rows), notes)


def _cell(text: str) -> Cell:
    """A number, interval or text as printed."""
    if text.startswith("["):
        low, high = (_value(end) for end in text.strip("[]").split(", "))
        return Range(low, high)
    mean, _, sd = text.partition(" ± ")
    number = _NUMBER.fullmatch(mean)
    if not number:
        return text
    return Number(
        _value(number["value"]),
        float(sd) if sd else None,
        digits=len(number["decimals"] or ""),
        signed=mean.startswith(("+", "−")),
        unit=number["unit"],
        best=mean.startswith("**"),
    )


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def _standard_error(cell: Number, cases: int | None, beside: Cell | None) -> float | None:
    """Over runs, over a single run's cases, or that of the interval beside the number."""
    if cell.sd is not None:
        return cell.sd / RUNS**0.5
    if cases:
        return binomial_error(cell.value, cases)
    return (beside.high - beside.low) / (2 * NORMAL) if isinstance(beside, Range) else None

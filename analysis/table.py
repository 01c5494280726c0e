"""A table as data, independent of the form it is written in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from analysis.statistics.estimates import Estimate, binomial_error, over_runs
from analysis.statistics.intervals import Effect

MISSING = "—"


@dataclass(frozen=True)
class Number:
    """A number as printed, with its deviation, error, unit and form.

    Attributes:
        value: the raw number; files of raw numbers keep all its digits.
        sd: sample SD over runs, printed after the value.
        se: standard error, not printed; it makes differences between tables carry uncertainty.
        digits: decimals to print.
        signed: print a plus sign too.
        unit: printed directly after the number.
        best: printed bold.
    """

    value: float
    sd: float | None = None
    se: float | None = None
    digits: int = 2
    signed: bool = False
    unit: str = ""
    best: bool = False

    def text(self) -> str:
        """The value alone, as printed, with a true minus sign and thousands separators."""
        size = f"{abs(self.value):,.{self.digits}f}"
        zero = not size.strip("0.,")
        sign = "" if zero else "−" if self.value < 0 else "+" * self.signed
        return f"{sign}{size}{self.unit}"

    def sd_text(self) -> str:
        return "" if self.sd is None else f"{self.sd:.{self.digits}f}"


@dataclass(frozen=True)
class Range:
    """An interval as printed, behind its estimate; `exact` of outcomes that were all alike."""

    low: float
    high: float
    digits: int = 2
    signed: bool = True
    exact: bool = False
    value: float | None = None

    def text(self) -> str:
        low, high, *value = (
            Number(number, digits=self.digits, signed=self.signed).text()
            for number in (self.low, self.high, self.value)
            if number is not None
        )
        return " ".join([*value, f"[{low}, {high}]"])


@dataclass(frozen=True)
class Probability:
    """A p value: two significant digits below 0.01, else three decimals."""

    value: float

    def text(self) -> str:
        if self.value < 0.0001:
            return "<0.0001"
        if self.value < 0.01:
            return f"{self.value:.2g}"
        return f"{self.value:.3f}"


class Statement(str):
    """A text with what it means as plain data, by which two wordings can be compared."""

    meaning: object

    def __new__(cls, text: str, meaning: object) -> "Statement":
        statement = super().__new__(cls, text)
        statement.meaning = meaning
        return statement


Cell = str | Number | Range | Probability


@dataclass(frozen=True)
class Column:
    """A column; `group` is printed above neighbouring columns that share it."""

    key: str
    title: str
    group: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Row:
    """A row; `key` names it in comparisons, `rule` draws a line above, `strong` shades it."""

    key: str
    cells: tuple[Cell, ...]
    rule: bool = False
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """A table; the first column labels its rows.

    Attributes:
        name: file name and LaTeX label.
        title: the caption's bold first sentence.
        caption: what else a reader needs; carries the study's own numbers.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.name}: row '{row.key}' does not fill the columns")

    def cell(self, row: str, column: str) -> Cell:
        """A cell by the keys of its row and column."""
        index = [c.key for c in self.columns].index(column)
        return next(r for r in self.rows if r.key == row).cells[index]

    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns' group and number; empty where no column has a group."""
        grouped = groupby(self.columns, key=lambda column: column.group)
        widths = [(group, len(list(members))) for group, members in grouped]
        return widths if any(group for group, _ in widths) else []

    def deviation_room(self) -> list[str]:
        """Each column's widest printed deviation, so that numbers without one line up."""
        return [
            max((cell.sd_text() for cell in cells if isinstance(cell, Number)), key=len, default="")
            for cells in zip(*(row.cells for row in self.rows), strict=True)
        ]


def number(
    estimate: Estimate, digits: int, cases: int | None = None, signed: bool = False
) -> Number:
    """An estimate over runs as a cell; one run's error is binomial over `cases`, in percent."""
    se = estimate.standard_error
    if se is None and cases:
        se = binomial_error(estimate.mean, cases)
    return Number(estimate.mean, estimate.sd, se, digits, signed)


def difference(effect: Effect, digits: int = 2, unit: str = "") -> tuple[Number, Range]:
    """A difference of two methods and its interval, as cells."""
    value = Number(effect.difference, digits=digits, signed=True, unit=unit)
    return value, Range(effect.low, effect.high, digits, exact=effect.constant)


def with_interval(effect: Effect, digits: int = 2) -> Range:
    """A difference of two methods with its interval in one cell."""
    bounds = effect.low, effect.high
    return Range(*bounds, digits, exact=effect.constant, value=effect.difference)


def mean_of_runs(values: Iterable[float | None], digits: int, signed: bool = False) -> Cell:
    """Mean ± SD over runs as a cell; missing where there is no run, or one's value is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    if not known or len(known) < len(every):
        return MISSING
    return number(over_runs(known), digits, signed=signed)


EXACT = (
    "Where all cases of a row have the same value, its interval is exact; where it is wide, they "
    "are too few to say."
)


def with_exactness(table: Table) -> Table:
    """The table, with a note if an interval of it is exact."""
    cells = (cell for row in table.rows for cell in row.cells)
    if any(isinstance(cell, Range) and cell.exact for cell in cells):
        return replace(table, notes=(*table.notes, EXACT))
    return table


def mark_best(rows: Sequence[Row], column: int) -> list[Row]:
    """Set bold the highest number of a column, and whatever prints the same."""
    numbers = [row.cells[column] for row in rows if isinstance(row.cells[column], Number)]
    best = max(numbers, key=lambda cell: cell.value).text() if numbers else None
    marked = []
    for row in rows:
        cell = row.cells[column]
        if isinstance(cell, Number) and cell.text() == best:
            cells = (*row.cells[:column], replace(cell, best=True), *row.cells[column + 1 :])
            row = replace(row, cells=cells)
        marked.append(row)
    return marked


def ends(numbers: Iterable[int]) -> str:
    """`90–150`: the smallest and the largest; `90` where all are equal."""
    known = sorted(numbers)
    return "–".join(str(number) for number in dict.fromkeys((known[0], known[-1])))


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

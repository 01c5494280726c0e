"""LaTeX: booktabs tables to \\input, which need the packages array, booktabs and graphicx."""

import re
from collections.abc import Sequence

from analysis.table import Cell, Number, Row, Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "±": r"$\pm$", "−": "$-$", "–": "--", "—": "---", "×": r"$\times$",
    "→": r"$\to$", "Δ": r"$\Delta$", "β": r"$\beta$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "≤": r"$\leq$", "≥": r"$\geq$", "“": "``", "”": "''", "’": "'",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}  # fmt: skip

_LONG = 32  # characters
_MANY = 8  # columns


def escape(text: str) -> str:
    """Text with LaTeX's special characters made harmless and the paper's symbols set as math."""
    parts = re.split(r"\b([GOqz]_[A-Za-z0-9]|y\*)", text)
    escaped = [
        f"${part.replace('y*', 'y^*')}$" if i % 2 else "".join(_SPECIAL.get(c, c) for c in part)
        for i, part in enumerate(parts)
    ]
    return "".join(escaped)


def render(tables: Sequence[Table]) -> str:
    """The tables' environments, one after another."""
    return "% needs \\usepackage{array,booktabs,graphicx}\n" + "\n".join(map(_environment, tables))


def _environment(table: Table) -> str:
    alignment = "".join(_alignment(table, i) for i in range(len(table.columns)))
    rooms = table.deviation_room()
    notes = [f"\\par\\smallskip{{\\footnotesize {escape(note)}\\par}}" for note in table.notes]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{\textbf{{{escape(table.title)}}} {escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\vspace{4pt}",
        r"\small",
        rf"\setlength{{\tabcolsep}}{{{3 if len(table.columns) > _MANY else 5}pt}}",
        # A table wider than the line shrinks to it; others keep their size.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
        r"\toprule",
        *_heads(table),
        r"\midrule",
        *(line for i, row in enumerate(table.rows) for line in _row(row, rooms, first=i == 0)),
        r"\bottomrule",
        r"\end{tabular}}",
        *notes,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _alignment(table: Table, column: int) -> str:
    """Numbers right, short texts left, long texts in a paragraph column."""
    if table.columns[column].numeric:
        return "r"
    longest = max((len(row.cells[column]) for row in table.rows), default=0)
    if longest <= _LONG:
        return "l"
    texts = sum(not column.numeric for column in table.columns)
    width = 0.6 if len(table.columns) == 2 else 0.24 if texts > 1 else 0.4
    return rf">{{\raggedright\arraybackslash}}p{{{width}\linewidth}}"


def _heads(table: Table) -> list[str]:
    """The header: a line of groups with their rules, where there are groups, then the titles."""
    lines, cells, rules, start = [], [], [], 1
    for group, width in table.groups():
        cells.append(
            rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}" if group else "&" * (width - 1)
        )
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    if cells:
        lines = [" & ".join(cells) + r" \\", "".join(rules)]
    return [*lines, " & ".join(escape(column.title) for column in table.columns) + r" \\"]


def _row(row: Row, rooms: Sequence[str], first: bool) -> list[str]:
    texts = [cell(value, room) for value, room in zip(row.cells, rooms, strict=True)]
    if row.strong:
        texts[0] = rf"\textbf{{{texts[0]}}}"
    cells = " & ".join(texts)
    return [r"\midrule", cells + r" \\"] if row.rule and not first else [cells + r" \\"]


def cell(value: Cell, room: str = "") -> str:
    """One cell; `room` is a deviation whose width is kept free where the cell has none."""
    if isinstance(value, str):
        return escape(value)
    text = escape(value.text())
    if not isinstance(value, Number):
        return text
    text = rf"\textbf{{{text}}}" if value.best else text
    if value.sd is None:
        return text + (rf"\phantom{{ {_deviation(room)}}}" if room else "")
    return f"{text} {_deviation(value.sd_text())}"


def _deviation(text: str) -> str:
    return rf"{{\scriptsize $\pm$ {text}}}"

"""A table as LaTeX, CSV with raw numbers, Markdown and HTML.

pandas' Styler lays out LaTeX and HTML.
"""

import re
from collections.abc import Callable, Sequence
from html import escape as escape_html

import pandas as pd
from pandas.io.formats.style import Styler

from analysis.table import Cell, Column, Number, Range, Table
from pcqc.system.files import csv_text, no_formula

# The paper's subscripts, such as G_Q and q_1.
SYMBOL = re.compile(r"\b([GOqz])_([A-Za-z0-9])")
_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "±": r"$\pm$", "−": "$-$", "–": "--", "—": "---", "×": r"$\times$",
    "→": r"$\to$", "Δ": r"$\Delta$", "β": r"$\beta$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "≤": r"$\leq$", "≥": r"$\geq$", "“": "``", "”": "''", "’": "'",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}  # fmt: skip
_LONG, _SHORT = 32, 24  # characters of a text: set as a paragraph, kept on a line
_MANY = 8  # columns


def render(form: str, tables: Sequence[Table]) -> str:
    """The text of a file of tables, one after another: `tex`, `csv` or `md`."""
    forms = {"tex": _tex, "csv": _csv, "md": _markdown}
    head = "% needs \\usepackage{array,booktabs,graphicx}\n" if form == "tex" else ""
    return head + "\n".join(map(forms[form], tables))


def _csv(table: Table) -> str:
    """Raw numbers under the columns' keys; deviations and interval ends have columns of their own.

    Twelve significant digits: more would be rounding noise.
    """
    columns = [("row", [no_formula(row.key) for row in table.rows])]
    for i, column in enumerate(table.columns):
        parts: list[dict[str, str]] = []
        for row in table.rows:
            cell = row.cells[i]
            if isinstance(cell, str):
                parts.append({"": no_formula(cell)})
                continue
            raw = {"_low": cell.low, "_high": cell.high} if isinstance(cell, Range) else {}
            raw = raw or {"": cell.value, "_sd": getattr(cell, "sd", None)}
            parts.append({k: f"{value:.12g}" for k, value in raw.items() if value is not None})
        for suffix in ("", "_sd", "_low", "_high"):
            if any(suffix in part for part in parts):
                key = no_formula(column.key) + suffix
                columns.append((key, [part.get(suffix, "") for part in parts]))
    return csv_text([key for key, _ in columns], zip(*(v for _, v in columns), strict=True))


def _markdown(table: Table) -> str:
    """The table, its caption above and its notes below."""

    def escape(text: str) -> str:
        for character in "\\|*_<>":
            text = text.replace(character, f"\\{character}")
        return text

    def head(column: Column) -> str:
        return escape(f"{column.group}: {column.title}" if column.group else column.title)

    def cell(value: Cell, strong: bool) -> str:
        text = escape(value if isinstance(value, str) else value.text())
        is_number = isinstance(value, Number)
        text = f"**{text}**" if text and (strong or (is_number and value.best)) else text
        return f"{text} ± {value.sd_text()}" if is_number and value.sd is not None else text

    lines = [[head(column) for column in table.columns]]
    lines.append(["---:" if column.numeric else ":---" for column in table.columns])
    for row in table.rows:
        lines.append([cell(v, row.strong and i == 0) for i, v in enumerate(row.cells)])
    return "\n".join(
        [
            f"**{escape(table.title)}** {escape(table.caption)}\n",
            *(f"| {' | '.join(line)} |" for line in lines),
            *(f"\n{escape(note)}" for note in table.notes),
            "",
        ]
    )


def escape_tex(text: str) -> str:
    """Text with LaTeX's special characters made harmless and the paper's symbols set as math."""
    parts = re.split(r"\b([GOqz]_[A-Za-z0-9]|y\*)", text)
    escaped = [
        f"${part.replace('y*', 'y^*')}$" if i % 2 else "".join(_TEX.get(c, c) for c in part)
        for i, part in enumerate(parts)
    ]
    return "".join(escaped)


def _tex(table: Table) -> str:
    """A booktabs table to \\input."""
    rooms = table.deviation_room()

    def deviation(text: str) -> str:
        return rf"{{\scriptsize $\pm$ {text}}}"

    def text(value: Cell, i: int) -> str:
        if isinstance(value, str):
            return escape_tex(value)
        shown = escape_tex(value.text())
        if not isinstance(value, Number):
            return shown
        shown = rf"\textbf{{{shown}}}" if value.best else shown
        if value.sd is not None:
            return f"{shown} {deviation(value.sd_text())}"
        # The width of a deviation is kept free, so that numbers without one line up.
        return shown + (rf"\phantom{{ {deviation(rooms[i])}}}" if rooms[i] else "")

    def line(number: int, texts: list[str]) -> list[str]:
        row = table.rows[number]
        first = rf"\textbf{{{texts[0]}}}" if row.strong else texts[0]
        return [("\\midrule\n" if row.rule and number else "") + first, *texts[1:]]

    alignment = "".join(_alignment(table, i) for i in range(len(table.columns)))
    tabular = _styler(table, text, escape_tex, line).to_latex(
        column_format=f"@{{}}{alignment}@{{}}",
        hrules=True,
        multicol_align="c",
    )
    start, rules = 1, ""
    for group, width in table.groups():
        if group:
            rules += rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
        start += width
    if rules:
        tabular = tabular.replace("\\\\\n", f"\\\\\n{rules}\n", 1)
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{\textbf{{{escape_tex(table.title)}}} {escape_tex(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\vspace{4pt}",
        r"\small",
        rf"\setlength{{\tabcolsep}}{{{3 if len(table.columns) > _MANY else 5}pt}}",
        # A table wider than the line shrinks to it; others keep their size.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"{tabular.rstrip()}}}",
        *(f"\\par\\smallskip{{\\footnotesize {escape_tex(note)}\\par}}" for note in table.notes),
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


def html_text(text: str) -> str:
    """Escaped text with the paper's subscripts."""
    return SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", escape_html(text))


def html(table: Table, verdicts: Sequence[str] = ()) -> str:
    """A table without its caption, laid out by classes of the report's style sheet."""
    rooms = table.deviation_room()

    def text(value: Cell, i: int) -> str:
        if isinstance(value, str):
            shown = html_text(value)
            return f"<span class='verdict {value}'>{shown}</span>" if value in verdicts else shown
        shown = html_text(value.text())
        if not isinstance(value, Number):
            return shown
        shown = f"<b>{shown}</b>" if value.best else shown
        if value.sd is not None:
            return f"{shown}<span class='sd'> ± {value.sd_text()}</span>"
        return shown + (f"<span class='sd room'> ± {rooms[i]}</span>" if rooms[i] else "")

    kinds = ["number" if column.numeric else "text" for column in table.columns]
    classes = [
        [
            kinds[i]
            + " short" * (isinstance(cell, str) and len(cell) <= _SHORT)
            + " rule" * (row.rule and number > 0)
            + " strong" * row.strong
            for i, cell in enumerate(row.cells)
        ]
        for number, row in enumerate(table.rows)
    ]
    styler = _styler(table, text, html_text)
    styler.set_td_classes(pd.DataFrame(classes, styler.index, styler.columns))
    wide = " class='wide'" if len(table.columns) > _MANY else ""
    laid_out = styler.to_html(table_attributes=wide.strip())
    # Without Styler's own style sheet, identifiers and classes; heads get those of their columns.
    laid_out = re.sub(r' id="[^"]*"', "", laid_out[laid_out.index("<table") :])
    titles = f"level{styler.columns.nlevels - 1}"
    heads = {f"{titles} col{i}": kind for i, kind in enumerate(kinds)}
    if table.groups():
        heads |= {
            f"level0 col{i}": "group" for i, column in enumerate(table.columns) if column.group
        }
    for place, kind in heads.items():
        laid_out = laid_out.replace(f'class="col_heading {place}"', f'class="{kind}"')
    return re.sub(r'class="data row\d+ col\d+ ', 'class="', laid_out)


def _styler(
    table: Table,
    text: Callable[[Cell, int], str],
    escape: Callable[[str], str],
    line: Callable[[int, list[str]], list[str]] = lambda number, texts: texts,
) -> Styler:
    """The table's texts under a line of groups, where there are groups, and a line of titles.

    Args:
        table: to lay out.
        text: of a cell in a column, escaped.
        escape: of titles.
        line: what else a row's texts become.
    """
    groups = [column.group for column in table.columns]
    numbers = range(len(groups))
    columns = pd.MultiIndex.from_arrays([groups, numbers]) if any(groups) else pd.Index(numbers)
    rows = [
        line(number, [text(cell, i) for i, cell in enumerate(row.cells)])
        for number, row in enumerate(table.rows)
    ]
    styler = pd.DataFrame(rows, columns=columns, dtype=object).style.hide(axis="index")
    if any(groups):
        styler.format_index(escape, axis=1, level=0)
    titles = [escape(column.title) for column in table.columns]
    return styler.format_index(lambda i: titles[i], axis=1, level=columns.nlevels - 1)

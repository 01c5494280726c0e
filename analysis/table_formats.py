"""A table as LaTeX, CSV with raw numbers, and Markdown; the report's template lays out HTML."""

import csv
import io
import re
from collections.abc import Sequence
from html import escape as escape_html

from analysis.table import Cell, Number, Range, Table
from pcqc_base.system.files import csv_text, no_formula

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
_GREEK = (
    ("αγδεζηθικλμνξπρυφχψω", "alpha gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi "
     "pi rho upsilon phi chi psi omega"),
    ("ΓΘΛΞΠΣΦΨΩ", "Gamma Theta Lambda Xi Pi Sigma Phi Psi Omega"),
)  # fmt: skip
_TEX |= {
    letter: rf"$\{name}$"
    for letters, names in _GREEK
    for letter, name in zip(letters, names.split(), strict=True)
}
_LONG = 32  # characters of a text that is set as a paragraph
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
            raw = {"": cell.value, "_sd": getattr(cell, "sd", None)}
            raw |= {"_low": cell.low, "_high": cell.high} if isinstance(cell, Range) else {}
            parts.append({k: f"{value:.12g}" for k, value in raw.items() if value is not None})
        for suffix in ("", "_sd", "_low", "_high"):
            if any(suffix in part for part in parts):
                key = no_formula(column.key) + suffix
                columns.append((key, [part.get(suffix, "") for part in parts]))
    return csv_text([key for key, _ in columns], zip(*(v for _, v in columns), strict=True))


def _markdown(table: Table) -> str:
    """The table, its caption above and its notes below."""
    special = str.maketrans({character: f"\\{character}" for character in "\\|*_<>"})

    def escape(text: str) -> str:
        return text.translate(special)

    def cell(value: Cell, strong: bool) -> str:
        text = escape(value if isinstance(value, str) else value.text())
        is_number = isinstance(value, Number)
        text = f"**{text}**" if text and (strong or (is_number and value.best)) else text
        return f"{text} ± {value.sd_text()}" if is_number and value.sd is not None else text

    titles = [f"{c.group}: {c.title}" if c.group else c.title for c in table.columns]
    lines = [[escape(title) for title in titles]]
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


def plain(table: Table) -> str:
    """The table for a terminal: aligned columns, without caption."""
    rows = [[column.title for column in table.columns]]
    for row in table.rows:
        texts = [cell if isinstance(cell, str) else cell.text() for cell in row.cells]
        deviations = [cell.sd_text() if isinstance(cell, Number) else "" for cell in row.cells]
        pairs = zip(texts, deviations, strict=True)
        rows.append([f"{text} ± {sd}" if sd else text for text, sd in pairs])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]
    return "\n".join(lines)


def plain_rows(table: Table) -> list[dict[str, str]]:
    """The rows as the CSV has them: raw numbers by column."""
    return list(csv.DictReader(io.StringIO(_csv(table))))


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

    head, rules, start = [], "", 1
    for group, width in table.groups():
        words = escape_tex(group)
        head.append(rf"\multicolumn{{{width}}}{{c}}{{{words}}}" if width > 1 else words)
        rules += rf"\cmidrule(lr){{{start}-{start + width - 1}}}" if group else ""
        start += width
    groups = [" & ".join(head) + r" \\", rules] if head else []
    body = []
    for row in table.rows:
        first, *others = (text(value, i) for i, value in enumerate(row.cells))
        first = rf"\textbf{{{first}}}" if row.strong else first
        body += [r"\midrule"] if row.rule and body else []
        body.append(" & ".join([first, *others]) + r" \\")
    alignment = "".join(_alignment(table, i) for i in range(len(table.columns)))
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
        rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
        r"\toprule",
        *groups,
        " & ".join(escape_tex(column.title) for column in table.columns) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
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

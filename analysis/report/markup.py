"""Pieces of HTML that sections are made of."""

import base64
import re

from matplotlib.figure import Figure

from analysis.drawing.style import encode
from analysis.render import html
from analysis.table import Column, Row, Table

escape = html.escape


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def plot(figure: Figure, caption: str) -> str:
    """A figure as an inline SVG image; call it inside `house_style`."""
    content = base64.b64encode(encode(figure, "svg")).decode()
    return (
        f"<figure class='plot'><img alt='{escape(caption)}' "
        f"src='data:image/svg+xml;base64,{content}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def paper_box(content: str, label: str = "Published in the paper") -> str:
    """Published numbers under a heading of their own."""
    return f"<div class='paper'><div class='label'>{escape(label)}</div>{content}</div>"


def simple_table(
    name: str, title: str, caption: str, head: list[str], rows: list[list[str]]
) -> str:
    """A table of texts."""
    columns = tuple(Column(text, text, numeric=False) for text in head)
    body = tuple(Row(str(i), tuple(row)) for i, row in enumerate(rows))
    return html.render(Table(name, title, caption, columns, body))


def verdicts(table_html: str) -> str:
    """Colour the verdicts in a rendered table."""
    return re.sub(
        r"<td class='text short'>(supported|contradicted|undecided|not tested)</td>",
        r"<td class='text short'><span class='verdict \1'>\1</span></td>",
        table_html,
    )

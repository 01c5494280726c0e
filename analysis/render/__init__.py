"""The forms of a table: LaTeX (`tex`), raw numbers (`csv`) and Markdown (`md`)."""

from collections.abc import Sequence

from analysis.render import csv, markdown, tex
from analysis.table import Table

FORMS = {"tex": tex.render, "csv": csv.render, "md": markdown.render}


def render(form: str, tables: Sequence[Table]) -> str:
    """One file's text; several tables follow each other under their titles."""
    return FORMS[form](tables)

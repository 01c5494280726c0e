"""Files of tables: which are written, and how numbers and texts stand in them."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis import tables
from analysis.table import Column, Number, Probability, Range, Row, Table
from analysis.table_formats import render
from analysis.tables_and_figures import TABLES, chosen
from pcqc_base.errors import UserError


def test_written_files_are_those_declared_and_repeat_byte_for_byte(collected, reported, tmp_path):
    items = chosen(TABLES, collected.study)
    assert {*(reported / "tables").iterdir()} == {p for i in items for p in i.paths(reported)}
    some = items[::5]  # all are written by one function
    again = tables.write(collected, tmp_path, [item.name for item in some])
    assert again == [path for item in some for path in item.paths(tmp_path)]
    for path in again:
        assert path.read_bytes() == (reported / "tables" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Number(-0.561, signed=True), "−0.56"),
        (Number(0.001, signed=True), "0.00"),
        (Number(113664, digits=0), "113,664"),
        (Range(-6.667, 9.333), "[−6.67, +9.33]"),
        (Probability(0.00083), "0.00083"),
        (Probability(0.8746), "0.875"),
        (Probability(1e-9), "<0.0001"),
    ],
)
def test_numbers_are_printed_as_in_the_paper(cell, text):
    assert cell.text() == text


def test_texts_cannot_break_a_table():
    columns = (Column("a", "100% & _x_", numeric=False),)
    table = Table("t", "<b> | $x$", "a\\b {c}", columns, (Row("r", ("#1 ^ ~",)),))
    assert r"100\% \& \_x\_" in render("tex", [table])
    assert r"\$x\$" in render("tex", [table])
    assert "\\|" in render("md", [table])


@pytest.mark.parametrize("form", ["tex", "md"])
def test_a_table_without_rows_has_its_heads(form):
    """As `claims_at_budgets` of a study that trains PCQC alone."""
    columns = (Column("a", "Claim", numeric=False), Column("b", "Estimate"))
    assert "Estimate" in render(form, [Table("t", "Claims.", "None is tested.", columns, ())])


def test_impossible_tables_are_refused(collected):
    without = replace(collected, study=replace(collected.study, clinic=None))
    with pytest.raises(
        UserError, match="cannot fill the table 'questions_or_diagnosis': it needs the setting"
    ):
        tables.write(without, Path(), ["questions_or_diagnosis"])
    without = collected.only(())
    with pytest.raises(UserError, match="'pcqc_runs': it needs the method 'pcqc'"):
        tables.write(without, Path(), ["pcqc_runs"])


def test_a_text_that_looks_like_a_formula_is_quoted_in_csv_and_numbers_are_not():
    columns = (Column("text", "Text", numeric=False), Column("value", "Value"))
    rows = (
        Row("=a", ("=1+1", Number(-2.5))),
        Row("b", ("@SUM(A1)", Number(3.0, sd=0.25))),
        Row("c", ("plain", Range(0.5, 2.0))),
    )
    table = Table("t", "t", "c", columns, rows)
    assert render("csv", [table]).splitlines() == [
        "row,text,value,value_sd,value_low,value_high",
        "'=a,'=1+1,-2.5,,,",
        "b,'@SUM(A1),3,0.25,,",
        "c,plain,,,0.5,2",
    ]

"""Ours beside the paper's numbers: what is compared, and with which uncertainty."""

from dataclasses import replace

import numpy as np
import pytest
from built_tables import build

from analysis.beside_the_paper import companion, differences
from analysis.published import published
from analysis.table import Column, Number, Row, Statement, Table
from analysis.tables_and_figures import FIGURES, TABLES, chosen
from pcqc_study.study_file import load_study

BESIDE = [item.name for item in TABLES.values() if item.paper]


def test_differences_carry_both_sides_uncertainty():
    columns = (Column("method", "Method", numeric=False), Column("medqa", "MedQA"))

    def table(value, se):
        cells = ("PCQC", Number(value, se=se))
        return Table("main_accuracy", "t", "c", columns, (Row("pcqc", cells),))

    (row,) = differences(table(60.0, 0.3), table(62.54, 0.4)).rows
    assert row.cells[4].text() == "−2.54"
    assert row.cells[5].value == pytest.approx(1.96 * 0.5, abs=1e-4)
    (row,) = differences(table(60.0, None), table(62.54, 0.4)).rows
    assert row.cells[5] == "—"


def test_a_method_at_a_fixed_update_is_compared_with_the_papers_row():
    columns = (Column("method", "Method", numeric=False), Column("medqa", "MedQA"))

    def table(**rows):
        made = tuple(Row(key.replace("_", ":"), (key, Number(v))) for key, v in rows.items())
        return Table("main_accuracy", "t", "c", columns, made)

    selected, fixed = differences(table(pcqc=61.0, pcqc_fixed=64.0), table(pcqc=62.5)).rows
    assert [row.cells[4].text() for row in (selected, fixed)] == ["−1.50", "+1.50"]


@pytest.mark.parametrize("name", BESIDE)
def test_comparable_study_gets_differences(comparable, name):
    """They are of the rows and columns whose keys both tables share."""
    (table,) = companion(build(name, comparable), comparable.study)
    assert table.rows
    for row in table.rows:
        published, ours, difference, half = row.cells[2:]
        if isinstance(difference, Number):
            assert difference.value == pytest.approx(ours.value - published.value)
        else:
            assert difference in ("same", "differs", "—")
        if isinstance(half, Number):
            assert half.value >= 1.95 * max(ours.se, published.se)


def test_differences_of_a_paired_row_carry_both_intervals(comparable):
    ours, paper = build("paired", comparable), published().tables["paired"]
    rows = {row.key: row for row in differences(ours, paper).rows}
    gain = rows["medqa:pcqc-atpo:gain"]
    assert gain.cells[0] == "Clinic-Dev: PCQC − ATPO"
    assert gain.cells[2].value == 4.50
    low, high = (t.cell("medqa:pcqc-atpo", "interval") for t in (ours, paper))
    widths = [(r.high - r.low) / 2 for r in (low, high)]
    assert gain.cells[5].value == pytest.approx(np.hypot(*widths))
    assert rows["medqa:pcqc-atpo:p"].cells[4] == "—"


def test_texts_of_a_comparable_study_are_same_or_differ(comparable):
    paper = published().tables["configuration"]
    rows = {r.key: r.cells[4] for r in differences(build("configuration", comparable), paper).rows}
    assert rows["cases_per_update:setting"] == "differs"
    assert rows["max_turns:setting"] == "same"


def test_cases_of_another_kind_are_not_compared(collected):
    """Real or not: a study without a benchmark of the paper gets the two tables."""
    own = replace(collected.study, synthetic=False)
    ours, paper = companion(build("main_accuracy", collected), own)
    assert ours.title.startswith("This study.")
    assert paper.title.startswith("Published.")


def test_the_papers_study_names_benchmarks_as_the_paper_is_read():
    ours = load_study("paper").benchmarks
    assert {
        n: replace(b, raw=None, optional=False) for n, b in ours.items()
    } == published().benchmarks


@pytest.mark.parametrize("name", ["paper", "real-smoke"])
def test_configuration_names_pretrained_models(collected, name):
    study = load_study(name)
    table = build("configuration", replace(collected, study=study))
    settings = {row.key: row.cells[1] for row in table.rows}
    assert "world" not in settings
    if name == "paper":
        published_setting = {r.key: r.cells[1] for r in published().tables["configuration"].rows}
        assert settings["actor"] == published_setting["actor"] == "Qwen3-8B"
        assert settings["scorer"] == published_setting["scorer"]
        assert settings["patient"] == "Frozen Qwen3-8B; SFT, 1 epoch, step 32"
        assert settings["actor_initialization"] == "Shared SFT, 3 epochs, step 96"
        for key in ("patient", "actor_initialization"):
            assert settings[key].meaning == published_setting[key].meaning
        assert settings["atpo_tree"].endswith("up to 128 consultations a case")
    else:
        assert settings["actor"] == "SmolLM2-135M-Instruct.Q4_1"
        assert settings["scorer"] == f"Frozen {settings['actor']}"


# The \label of every table and figure of the paper.
PAPERS = {
    "tab:main_results": "main_accuracy",
    "tab:inquiry_results": "inquiry_turns",
    "tab:matched_beta0_control": "question_supervision",
    "tab:continuation_validation": "continuation",
    "tab:training_setup": "configuration",
    "tab:compute_performance": "training_cost",
    "tab:pipeline_visibility": "information_access",
    "tab:seed_robustness": "pcqc_runs",
    "tab:paired_inference": "paired",
    "tab:selectivity_support": "generation_length",
    "tab:question_supervision_inference": "question_supervision_paired",
    "tab:same_state_q1_normalization": "same_state_q1",
    "tab:compliant_continuation_sensitivity": "grounded_continuation",
    "fig:teaser": "teaser",
    "fig:method_overview": "method_overview",
    "fig:accuracy_inquiry": "accuracy_inquiry",
    "fig:continuation_validation": "continuation_gains",
}


def test_a_study_fills_every_table_and_figure_of_the_paper(collected):
    study = collected.study
    made = {item.name for items in (TABLES, FIGURES) for item in chosen(items, study)}
    assert {*PAPERS.values()} <= made
    assert {*BESIDE} == {name for label, name in PAPERS.items() if label.startswith("tab:")}


def test_statements_are_compared_by_meaning_and_not_by_wording():
    columns = (Column("item", "Item", numeric=False), Column("said", "Said", numeric=False))

    def table(text, epochs):
        row = Row("actor", ("Actor", Statement(text, epochs)))
        return Table("configuration", "t", "c", columns, (row,))

    ours = table("Shared SFT, 3 epochs", 3)
    (same,) = differences(ours, table("Shared protocol-SFT, 3 epochs / step 96", 3)).rows
    (other,) = differences(ours, table("Shared protocol-SFT, 2 epochs / step 64", 2)).rows
    assert (same.cells[4], other.cells[4]) == ("same", "differs")

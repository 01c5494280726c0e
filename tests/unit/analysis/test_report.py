"""Figures, report and commands on the simulated study."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
import simulated
from matplotlib.container import ErrorbarContainer
from matplotlib.text import Annotation, Text

from analysis import figures, report
from analysis.conclusion import conclusion
from analysis.drawing.style import encode, house_style
from analysis.figures import accuracy_inquiry, cost_curves, equal_turns, learning_curves
from analysis.statistics.estimates import Estimate
from analysis.table_formats import html_text
from analysis.tables_and_figures import FIGURES, FORMS, chosen
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.cli import main


def test_figure_3_has_fewer_turns_to_the_right_and_an_arrow_from_grpo_to_pcqc(collected):
    with house_style():
        figure = accuracy_inquiry.draw(collected)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        b.title for b in collected.benchmarks.values()
    ]
    for ax, name in zip(figure.axes, collected.benchmarks, strict=True):
        assert ax.xaxis_inverted()
        (arrow,) = [text for text in ax.texts if isinstance(text, Annotation)]
        assert arrow.xy[0] == pytest.approx(collected.average("pcqc", [name], "turns").mean)
        assert arrow.xyann[1] == pytest.approx(collected.average("grpo", [name]).mean)


@pytest.mark.parametrize(
    ("turns", "notes"),
    [
        (2.5, []),
        (1.0, ["shared_sft 70.0% at 1.00 ↘"]),
        (8.0, ["↙ shared_sft 70.0% at 8.00"]),
    ],
)
def test_a_start_that_would_take_most_of_an_axis_is_a_note_towards_it(turns, notes):
    def point(turns, accuracy):
        return accuracy_inquiry.Point(Estimate(turns, None, 1), Estimate(accuracy, None, 1), True)

    panel = {"shared_sft": point(turns, 70), "grpo": point(3, 72), "pcqc": point(2.6, 75)}
    titles = {name: name for name in panel}
    with house_style():
        (ax, *_) = accuracy_inquiry.panelled({"Clinic": panel}, titles).axes
    texts = [text.get_text() for text in ax.texts if not isinstance(text, Annotation)]
    assert texts == notes
    assert min(ax.get_xlim()) > 2.3
    assert max(ax.get_xlim()) < 3.2


def test_a_dollar_in_a_title_is_no_formula(collected):
    name, benchmark = next(iter(collected.benchmarks.items()))
    titled = {**collected.benchmarks, name: replace(benchmark, title="$x_{ costs $5")}
    changed = replace(collected, study=replace(collected.study, benchmarks=titled))
    with house_style():
        svg = encode(accuracy_inquiry.draw(changed), "svg")
    assert svg


def test_published_figure_3_shows_the_published_means():
    with house_style():
        figure = accuracy_inquiry.draw_paper()
    points = [c for c in figure.axes[0].containers if isinstance(c, ErrorbarContainer)]
    assert (2.280, 56.28) in {(p[0].get_xdata()[0], p[0].get_ydata()[0]) for p in points}


def test_figures_name_methods_without_runs(collected):
    without = collected.with_runs({"atpo": ()})
    for figure in (accuracy_inquiry, learning_curves, cost_curves, equal_turns):
        assert "Not run" not in figure.caption(collected)
        assert figure.caption(without).endswith("Not run: ATPO.")
        with house_style():
            drawn = figure.draw(without)
        labels = {text.get_text() for text in drawn.findobj(Text)}
        assert {"PCQC", "GRPO"} <= labels
        assert "ATPO" not in labels


@pytest.mark.slow
def test_figures_are_those_declared_and_repeat_byte_for_byte(
    collected, reported, tmp_path, monkeypatch
):
    """One function writes all figures in all forms."""
    items = chosen(FIGURES, collected.study)
    first, again = (figures.write(collected, tmp_path / n, [items[0].name]) for n in "ab")
    assert {path.suffix for path in first} == {".pdf", ".svg", ".png"}
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    monkeypatch.setitem(FORMS, "figure", ("svg",))
    assert {*(reported / "figures").iterdir()} == {p for i in items for p in i.paths(reported)}
    for path in figures.write(collected, tmp_path, [item.name for item in items[::6]]):
        assert path.read_bytes() == (reported / "figures" / path.name).read_bytes(), path.name


def test_report_needs_no_other_file_and_repeats_byte_for_byte(collected, report_text, reported):
    text = report.build(collected, reported)
    sources = re.findall(r"(?:src|href)='([^']*)'", text)
    here = ("data:", "#", "transcripts/index.html", "../../docs/")
    outside = [source for source in sources if not source.startswith(here)]
    assert not outside
    assert not re.search(r"127\.0\.0\.1|localhost", text)
    assert "<script" not in text
    assert text == report_text  # which was made with a password in the address of MLflow


def test_report_opens_with_its_conclusion_and_numbers_tables_and_figures(collected, report_text):
    opening = report_text[: report_text.index("<details")]
    for sentence in conclusion(collected):
        assert html_text(sentence) in opening
    assert opening.count("id='table-overview'") == 1
    assert opening.count("<img") == 1
    numbered = re.findall(r"<span class='count'>(Table|Figure) (\d+)\.", report_text)
    for kind in ("Table", "Figure"):
        numbers = [int(number) for name, number in numbered if name == kind]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 5


def test_report_says_what_a_reader_needs(collected, report_text):
    text = report_text
    assert "This clinic is synthetic." in text
    for method in collected.methods():
        for run in collected.runs(method):
            record = collected.record(method, run)
            assert f"<td>{record['fingerprint']}</td>" in text
    assert "lower accuracy than the selected" in text
    assert text.count("Published in the paper") >= 10
    assert "<think>" not in text
    assert "transcripts/index.html" in text


def test_report_leads_to_consultations_of_training_where_they_are_here(
    collected, report_text, reported, monkeypatch
):
    link = "transcripts/index.html#place=training&amp;compared=yes"
    assert link not in report_text  # of this study's training metrics alone are here
    monkeypatch.setattr("analysis.report.sections._has_training", lambda study: True)
    assert link in report.build(collected, reported)


def test_report_of_a_comparable_study_gives_differences(comparable, reported):
    text = report.build(comparable, reported)
    assert "This clinic is synthetic" not in text
    assert "Bayes" not in text
    assert text.count("Published and ours") >= 10
    published_mean = re.search(r">PCQC</td>\s*<td[^>]*>[^<]*</td>\s*<td[^>]*>62\.54", text)
    assert published_mean


def test_commands_write_one_table_and_one_figure(collected, capsys):
    assert main(["tables", str(simulated.STUDY), "--only", "main_accuracy"]) == 0
    assert main(["figures", str(simulated.STUDY), "--only", "learning_curves"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "6 files in results/simulated/drawn/tables",
        "3 files in results/simulated/drawn/figures",
    ]


def refuse(words):
    raise UserError(words)


def test_an_error_in_another_process_is_raised_here():
    words = "the disk is full"
    with pytest.raises(UserError, match=words), report.beside(refuse, words):
        pass
    with pytest.raises(UserError, match="was killed; run it again"), report.beside(os._exit, 9):
        pass


BESIDE = """
import psutil, time
from analysis.report import beside
with beside(time.sleep, 60):
    print(psutil.Process().children()[0].pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's signal at a parent's end")
def test_a_report_that_is_killed_leaves_nobody_who_holds_its_lock():
    command = [sys.executable, "-c", BESIDE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as report:
        child = psutil.Process(int(report.stdout.readline()))
        report.kill()
    assert child in psutil.wait_procs([child], timeout=10)[0]

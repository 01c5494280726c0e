"""MLflow's list of runs, as a reader meets it at the link that `make ui` prints."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest
from browser import CHROMIUM, Browser
from workplace import STUDY

from pcqc.study import ROOT, load_study
from pcqc.system.files import read_json, read_jsonl
from pcqc.tracking.values import LEARNED

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")

NAME = "attributes.`Run Name`"
ACCURACY, TURNS = "metrics.`evaluation/average/accuracy`", "metrics.`evaluation/average/turns`"
FIRST = [ACCURACY, TURNS, "metrics.`reward/mean`", "metrics.`credit/zero_group_share`"]
NAMES = "[...document.querySelectorAll('.ag-cell[col-id*=\"Run Name\"]')]"
# As they stand on the page, which is not how they stand in its source.
COLUMNS = (
    "[...document.querySelectorAll('.ag-header-cell[col-id^=metrics]')]"
    ".sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left)"
)
# A row is drawn in several parts, and of its cells only those in sight.
ROWS = """Object.values([...document.querySelectorAll('.ag-row')].reduce((rows, part) => {
  const row = rows[part.getAttribute('row-id')] ??= {at: part.getBoundingClientRect().top};
  for (const cell of part.querySelectorAll('.ag-cell'))
    row[cell.getAttribute('col-id')] = cell.innerText.split('\\n').pop().trim();
  return rows;
}, {})).sort((row, other) => row.at - other.at)"""

CUT = """(cell => {
  const text = document.createRange(), link = cell.querySelector('a');
  text.selectNodeContents(link);
  return text.getBoundingClientRect().right > link.getBoundingClientRect().right + 1;
})"""
REPORT = "Report, tables, figures, transcripts"
METHODS = [method for method in load_study(STUDY).methods.values() if not method.on_demand]


@pytest.fixture(scope="module")
def link(mini, tmp_path_factory):
    """What `make ui` prints for the finished study, in which one run was made again."""
    place = mini.copied(tmp_path_factory.mktemp("listed") / "copy")
    place.edit(f"config/studies/{STUDY}.yaml", "evaluation_seed: 0", "evaluation_seed: 1")
    place.make("shared_sft")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # `make test` may have started this; a make in a make says so first.
    make = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), "-o", "env", "ui"]
    make += [f"STUDY={STUDY}"]
    served = subprocess.Popen(
        [*make, f"PORT={port}"],
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed = served.stdout.readline()
        assert any("startup complete" in line for line in served.stdout), printed
        yield re.fullmatch(r"Open (\S+)\n", printed)[1], place
    finally:
        os.killpg(served.pid, signal.SIGKILL)
        served.communicate()


@pytest.fixture
def listed(link, tmp_path):
    """The list, opened by a reader who has never been there, on a screen wide enough for it."""
    with Browser(tmp_path / "browser", 2200, 1200) as browser:
        browser.open(link[0])
        browser.wait(f"{ROWS}.some(row => row[{json.dumps(NAME)}] === 'PCQC')")
        browser.wait(f"{COLUMNS}.length >= {len(FIRST)}")
        yield browser


def test_methods_stand_with_mean_accuracy_and_turns_first(listed, link):
    assert listed.value(f"{COLUMNS}.map(c => c.getAttribute('col-id'))")[: len(FIRST)] == FIRST
    rows = {row[NAME]: row for row in listed.value(ROWS)}
    assert set(rows) == {REPORT, *(method.title for method in METHODS)}
    folder = link[1].results / "evaluation" / "pcqc"
    results = [
        read_json(folder / run / "latest" / "manifest.json")["benchmarks"].values() for run in "AB"
    ]
    for column, name in ((ACCURACY, "accuracy"), (TURNS, "turns")):
        mean = sum(result[name] for run in results for result in run) / sum(map(len, results))
        assert float(rows["PCQC"][column]) == pytest.approx(mean)
    trained = [link[1].results / "runs" / "pcqc" / run / "latest/events.jsonl" for run in "AB"]
    for column, name in zip(FIRST[2:], LEARNED, strict=True):
        last = [[row[name] for _, row in read_jsonl(path) if name in row][-1] for path in trained]
        assert float(rows["PCQC"][column]) == pytest.approx(sum(last) / len(last))


def test_letters_open_below_their_method_and_a_superseded_run_says_so(listed):
    listed.value(f"{NAMES}.forEach(cell => cell.querySelector('button')?.click())")
    runs = {m.title: [f"{m.title}, run {letter}" for letter in m.runs] for m in METHODS}
    runs["Shared SFT"].append("superseded: Shared SFT, run A")
    runs[REPORT] = []
    listed.wait(f"{NAMES}.length === {len(runs) + sum(map(len, runs.values()))}")
    children: dict[str, list[str]] = {}
    rows = listed.value(ROWS)
    for row in rows:
        if row[NAME] in runs:
            below = children.setdefault(row[NAME], [])
        else:
            below.append(row[NAME])
    assert {name: sorted(below) for name, below in children.items()} == runs
    assert all(float(row[ACCURACY]) >= 0 for row in rows if row[NAME] != REPORT)
    # The end of a name says what is superseded, so that none may be cut off.
    assert listed.value(f"{NAMES}.filter({CUT}).map(cell => cell.innerText)") == []

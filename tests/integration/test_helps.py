"""`credit-lab helps STUDY` on a tiny study: what it measures, and what it says of it."""

import shutil

import numpy as np
import pytest
from small_runs import small_study

from credit_lab.map import helps
from credit_lab.map.quantities import QUANTITIES
from credit_lab.map.rule import OUTCOMES, Rule
from pcqc.errors import UserError

pytestmark = pytest.mark.numerical
PCQC = {"terminal_group": 2, "question_group": 3, "updates": 1}
METHODS = {"pcqc": PCQC, "grpo": {"terminal_group": 8, "updates": 1}}
NAMES = len(QUANTITIES)
RULE = Rule(
    [0.0] * NAMES, [1.0] * NAMES, {name: [3.0] + [0.0] * NAMES for name in OUTCOMES},
    dict.fromkeys(OUTCOMES, 0.5),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("helps")
    shutil.copytree(prepared / "results", folder / "results", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def test_a_study_is_measured_before_training(folder, monkeypatch):
    study = small_study(folder, methods=METHODS)
    row = helps.measure(study, "small", 6)
    assert list(row) == list(QUANTITIES)
    assert 0 <= row["accuracy"] <= 1
    assert row["question_group"] == pytest.approx(np.log2(3))
    # GRPO holds four times as many consultations; PCQC pays for candidates beside its own.
    assert row["price"] < 2
    assert row == helps.measure(study, "small", 6)
    monkeypatch.setattr(helps, "read_rule", lambda: RULE)
    lines = helps.told(study, "small", 6).splitlines()
    assert lines[0] == "small: Shared SFT on at most 6 training cases, before any training"
    assert sum("   +3.0 [+2.4, +3.6]  " in line for line in lines) == len(OUTCOMES)
    assert sum("likely ahead: by 2 points or more" in line for line in lines) == len(OUTCOMES)
    assert lines[-1] == helps.LIMITS


def test_a_study_without_question_credit_is_refused(folder):
    study = small_study(folder, methods={**METHODS, "pcqc": {**PCQC, "beta": 0.0}})
    with pytest.raises(UserError, match=r"small: methods\.pcqc\.beta is 0"):
        helps.measure(study, "small", 6)

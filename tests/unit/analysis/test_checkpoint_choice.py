"""What the choice of a checkpoint does, on outcomes written by hand."""

import numpy as np
import pytest
from built_tables import build

from analysis.tables.checkpoint_choice import Validated

# Four checkpoints on four cases; the first half of the cases is numbers 0 and 2.
CORRECT = np.array([[0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], float)
TURNS = np.array([[1, 1, 1, 1], [3, 3, 3, 3], [2, 2, 2, 2], [4, 4, 4, 4]], float)


def test_a_checkpoint_is_counted_on_the_cases_that_did_not_choose_it():
    percent = Validated([5, 10, 15, 20], CORRECT, TURNS).accuracies()
    # Cases 0 and 2 choose number 1, which has 1 and 3 wrong; cases 1 and 3 number 2 likewise.
    assert percent["all_other"] == 0
    # On all cases three have 50 %: number 2 asks least of them.
    assert (percent["last"], percent["all_same"]) == (50, 50)
    # Of two, updates 10 and 20: cases 0 and 2 choose update 10 (0 of 1 and 3), cases 1 and 3
    # update 20 (case 0 of 0 and 2).
    assert percent["two_other"] == 25
    assert percent["two_same"] == 50


def test_a_run_with_one_checkpoint_leaves_no_choice():
    percent = Validated([20], CORRECT[3:], TURNS[3:]).accuracies()
    assert set(percent.values()) == {50}


def test_every_trained_method_has_a_row(collected):
    table = build("checkpoint_choice", collected)
    assert [row.key for row in table.rows] == [
        *("grpo", "atpo", "pcqc", "terminal_only", "executed_local", "same_state_q1")
    ]
    assert table.cell("pcqc", "checkpoints") == "6"
    # The selected checkpoint's accuracy on the same cases, read from the validations themselves.
    rows = collected.validations[collected.validations["method"] == "grpo"]
    best = rows.groupby(["run", "update"])["correct"].mean().groupby("run").max().mean()
    assert table.cell("grpo", "all_same").value == pytest.approx(100 * best)

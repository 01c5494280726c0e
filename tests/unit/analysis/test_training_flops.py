"""FLOPs of training from the tokens that its updates log, worked out by hand."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.training_flops import COMPUTE, with_compute
from pcqc_base.settings import Pretrained
from pcqc_study.study_file import load_study

STUDY = load_study("clinic")
# The clinic's models have three layers of width 64: queries, keys, values and output are
# 2 * 64 * (2 + 1) * 32 parameters, the feed-forward 3 * 64 * 96. Two FLOPs for each, and for the
# 83 * 64 of the output layer.
TOKEN, OUTPUT = 2 * 3 * (12_288 + 18_432), 2 * 83 * 64
UPDATE = {
    **{"read/actor": 1000, "sampled/actor": 100, "read/patient": 500, "sampled/patient": 50},
    "tokens/trained": 100,
}


def rows(method, *updates):
    common = {"method": method, "run": "A", "kind": "update"}
    return pd.DataFrame([{**common, "update": n, **row} for n, row in enumerate(updates, start=1)])


def counted(*updates, method="grpo", study=STUDY):
    return with_compute(study, rows(method, *updates))[COMPUTE].tolist()


def test_an_update_reads_samples_and_trains():
    """Forward, backward as two, and the reference: four passes over the trained tokens."""
    once = (1000 + 100 + 500 + 50 + 4 * 100) * TOKEN + (100 + 50 + 4 * 100) * OUTPUT
    assert counted(UPDATE, UPDATE) == [once, 2 * once]


def test_a_scorer_reads_and_names_nothing():
    plain, scored = counted(UPDATE, method="pcqc"), UPDATE | {"read/scorer": 700}
    assert counted(scored, method="pcqc") == [plain[0] + 700 * TOKEN]


def test_a_critic_reads_every_state_and_learns():
    """ATPO's steps need the probabilities before them: five passes. Its critic makes three."""
    own = (1650 + 5 * 100) * TOKEN + (150 + 5 * 100) * OUTPUT
    assert counted(UPDATE, method="atpo") == [own + (1000 + 3 * 100) * TOKEN]
    alone = {name: count for name, count in UPDATE.items() if name != "tokens/trained"}
    assert counted(alone, UPDATE, method="atpo")[0] == 2650 * TOKEN + 150 * OUTPUT


def test_validations_and_the_order_of_rows_count_nothing():
    frame = rows("grpo", UPDATE, UPDATE)
    validation = {"method": "grpo", "run": "A", "kind": "validation", "update": 1, "accuracy": 0.5}
    mixed = pd.concat([frame[::-1], pd.DataFrame([validation])], ignore_index=True)
    known = with_compute(STUDY, mixed).set_index(["kind", "update"])[COMPUTE]
    assert [known["update", 1], known["update", 2]] == counted(UPDATE, UPDATE)
    assert pd.isna(known["validation", 1])


def test_what_is_not_logged_or_not_known_has_no_count():
    frame = rows("grpo", {"trajectories": 96})
    assert COMPUTE not in with_compute(STUDY, frame)
    unknown = replace(STUDY.models, actor=Pretrained("somebody/else", revision="0" * 40))
    study = replace(STUDY, name="elsewhere", models=unknown)
    assert COMPUTE not in with_compute(study, rows("grpo", UPDATE))
    half = pd.concat([rows("grpo", UPDATE), rows("pcqc", {"trajectories": 96})])
    assert with_compute(STUDY, half)[COMPUTE].isna().tolist() == [False, True]


def test_each_role_counts_by_the_size_of_its_model():
    """Qwen3-14B has 40 layers of width 5,120, with 48 heads in all and 17,408 hidden."""
    study, scored = load_study("paper"), UPDATE | {"read/scorer": 10}
    unscored, all_read = (counted(row, method="pcqc", study=study)[0] for row in (UPDATE, scored))
    layer = 2 * 5120 * 48 * 128 + 3 * 5120 * 17_408
    assert all_read - unscored == pytest.approx(10 * 2 * 40 * layer, rel=1e-6)

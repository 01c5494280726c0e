"""A study like another, and an entry of methods like another, but for what they name."""

import dataclasses

import pytest

from pcqc_base.errors import UserError
from pcqc_study.study_file import load_study


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("head_dim: 31", "must be a multiple of 2, not 31"),
        ("heads: 3, kv_heads: 2", "does not divide scratch_model.heads; change one of them"),
    ],
)
def test_a_wrong_size_of_a_model_from_scratch(tmp_path, setting, words):
    path = tmp_path / "mine.yaml"
    path.write_text(f"like: clinic-mini\nscratch_model: {{{setting}}}\n")
    with pytest.raises(UserError, match=words):
        load_study(path)


def test_an_entry_may_be_like_another_but_for_what_it_names(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("like: clinic\nmethods: {atpo: {updates: 7, tree: {budget: 9}}}\n")
    study = load_study(path)
    whole, part = study.methods["atpo"], study.methods["atpo_u1"]
    assert (whole.tree.budget, whole.tree.candidates) == (9, 4)
    assert (part.updates, part.runs, part.role) == (7, ("A",), "ablation")
    assert part.tree == dataclasses.replace(whole.tree, variance_weight=0.0)


def test_a_study_may_be_like_another_but_for_what_it_names(tmp_path):
    small, model = tmp_path / "small.yaml", load_study("clinic-full")
    small.write_text("like: clinic-full\nrl: {clip: 0.3}\nruns: {Z: 99}\n")
    study = load_study(small)
    assert (study.name, study.rl.clip, study.seed("Z")) == ("small", 0.3, 99)
    assert study.methods == model.methods
    assert study.patient_decoding == load_study("clinic").patient_decoding  # of which that is like
    assert study.benchmarks == model.benchmarks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("like: clinc", "no study 'clinc' in .*; did you mean 'clinic'"),
        ("like: [clinic]", "small.yaml:1: like: must name a study"),
        ("like: SELF", "small.yaml:1: like: '.*small.yaml' is like this study; name another"),
        ("like: clinic\nname: x", "small.yaml:2: name: unknown setting"),
        ("like: clinic\nrl: {clp: 1.0}", "small.yaml:2: rl.clp: .* did you mean 'clip'"),
        ("like: clinic\nmethods: {x: {}}", "small.yaml:2: methods.x: unknown method"),
        ("like: clinic\nmethods: 3", "small.yaml:2: methods: must be a group of methods"),
        ("like: clinic\nprotocol: {max_turns: 0}", "small.yaml:2: protocol.max_turns: "),
    ],
)
def test_a_study_that_is_like_none_is_refused(tmp_path, text, message):
    small = tmp_path / "small.yaml"
    small.write_text(text.replace("SELF", str(small)))
    with pytest.raises(UserError, match=message):
        load_study(small)

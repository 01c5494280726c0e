"""The grid of learning rates at which published credits are compared."""

import pytest

from pcqc.errors import UserError
from pcqc.settings import load_study
from pcqc.settings.peer_rates import at_rates


def load(folder, rates):
    path = folder / "own.yaml"
    path.write_text(f"like: clinic-mini\npeer_rates: {rates}\n")
    return load_study(path)


def test_every_compared_method_has_an_entry_at_each_rate_but_its_own(tmp_path):
    plain = load_study("clinic-mini")
    own = plain.rl.learning_rate
    study = load(tmp_path, [own, own * 2])
    rated = sorted(study.methods.keys() - plain.methods.keys())
    compared = ["grpo", "pcqc", *(n for n, m in plain.methods.items() if m.role == "peer")]
    assert rated == sorted(at_rates(study, name)[1] for name in compared)
    assert {study.rl_of(study.method(name)).learning_rate for name in rated} == {own * 2}
    assert at_rates(plain, "pcqc") == ["pcqc"]
    # The rest is the method's; none of it is part of the paper's study.
    other = study.method(at_rates(study, "c3")[1])
    assert (other.method, other.runs) == ("c3", ("A",))
    assert other.on_demand
    assert study.common_runs == plain.common_runs


def test_a_rate_that_is_none_is_refused(tmp_path):
    with pytest.raises(UserError, match="peer_rates"):
        load(tmp_path, [0.0])

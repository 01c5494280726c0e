"""The benchmarks in miniature: both sides do the same work. No test here asserts a time."""

import copy
import dataclasses
import json

import pytest
import torch

from benchmarks import __main__ as run_all
from benchmarks import pcqc_cost, update
from benchmarks.measure import Finding, Quartiles, interleaved, ratios, report
from pcqc.models.folder import load_model
from pcqc.study import load_study
from pcqc.system.files import read_json, write_json
from pcqc.training.sequences import KL


def test_calls_are_interleaved_and_warm_ups_dropped():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = interleaved(calls, repeats=3, warm_up=1)
    assert order == ["a", "b"] * 4
    assert [len(seconds[name]) for name in "ab"] == [3, 3]


def test_a_ratio_is_taken_within_each_round():
    assert ratios([2, 20, 200], [1, 10, 100]) == Quartiles(2.0, 2.0, 2.0, 3)


def test_a_missed_bound_is_reported(capsys):
    findings = [
        Finding("reached", Quartiles(2.0, 1, 9, 5), "times", least=2),
        Finding("missed", 1.9, "times", least=2),
        Finding("without a bound", 1.0, "times"),
    ]
    assert report(findings, more=1) == 1
    printed = json.loads(capsys.readouterr().out)
    assert [row["holds"] for row in printed["findings"]] == [True, False, None]
    assert printed["more"] == 1
    assert report(findings[:1]) == 0


@pytest.fixture(scope="module")
def work():
    return update.make_work(cases=4, group=4)


@pytest.fixture(scope="module")
def start(work, tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark") / "start"
    update.save_start(work, folder)
    return folder


def test_completions_are_rewarded_unequally(work):
    """Else there is no gradient but that of the KL penalty."""
    right = [
        [
            update.parse_action(work.chat.decode(c), case.public.labels).text == case.answer
            for c in g
        ]
        for case, g in zip(work.cases, work.completions, strict=True)
    ]
    assert any(0 < sum(group) < len(group) for group in right)
    assert {len(c) for group in work.completions for c in group} <= set(range(8, 17))


class Gradients(update.TrainerCallback):
    """Keeps what TRL's optimiser is about to apply."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradient = flat_gradient(model)


def flat_gradient(model) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()]).double()


def test_our_gradient_is_trls(work, start, tmp_path):
    """The same weights, reference, completions and rewards: one step's gradient, clipped.

    What is left is TRL's 1e-4 beside the standard deviation of the rewards, for our 1e-6.
    """
    model, theirs = load_model(start), load_model(start)
    torch.manual_seed(0)
    reference = copy.deepcopy(model)
    for parameter in reference.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    kept = Gradients()
    work = dataclasses.replace(work, method=dataclasses.replace(work.method, kl_coefficient=0.1))
    trainer = update.make_trainer(work, theirs, False, 1, start.parent, kept)
    trainer.ref_model.load_state_dict(reference.state_dict())
    trainer.train()
    ours, used = update.Ours(work, model, reference, generate=False), []
    ours.policy.backend.optimizers[0].register_step_pre_hook(
        lambda *_: used.append(flat_gradient(model))
    )
    drawn, updated = ours.step(1)
    assert updated.losses[KL] > 0.01
    assert torch.linalg.norm(used[0] - kept.gradient) < 1e-3 * torch.linalg.norm(kept.gradient)
    assert trainer.state.num_input_tokens_seen == sum(len(s.tokens) for s in drawn.sequences)
    # The weights that both end with, where Adam has amplified every rounding, are alike too.
    moved = torch.cat(
        [(a - b).flatten() for a, b in zip(model.parameters(), theirs.parameters(), strict=True)]
    )
    assert moved.abs().mean() < 0.02 * work.settings.learning_rate


@pytest.mark.parametrize("generate", [False, True])
def test_both_sides_take_their_steps_in_turn(work, generate):
    in_turn = update.compare(work, generate, rounds=2, warm_up=1)
    assert {name: len(s) for name, s in in_turn.seconds.items()} == {"ours": 2, "trl": 2}
    if not generate:
        assert in_turn.tokens["ours"] == in_turn.tokens["trl"]


def test_pcqc_beside_terminal_only(prepared, monkeypatch):
    """The same consultations; what PCQC draws and trains on beyond them is counted."""
    monkeypatch.chdir(prepared)
    study = load_study(prepared / "small.yaml")
    # Candidates enough that some ask: this model has hardly learned to.
    groups = {pcqc_cost.BASE: {}, pcqc_cost.OURS: {"question_group": 16}}
    methods = {
        name: dataclasses.replace(study.method(name), terminal_group=2, **group)
        for name, group in groups.items()
    }
    study = dataclasses.replace(study, methods=methods)
    result = pcqc_cost.measure(study, rounds=1)
    base, ours = (result["counts"][name] for name in (pcqc_cost.BASE, pcqc_cost.OURS))
    assert base["turns"] == ours["turns"]
    assert base["states"] == 0 < ours["states"]
    assert base["sampled_tokens"] < ours["sampled_tokens"]
    assert base["sequence_tokens"] < ours["sequence_tokens"]
    total = result["times"].median - 1
    assert sum(s.median for s in result["parts"].values()) == pytest.approx(total, abs=1e-9)


RATE = {"what": "rate", "unit": "times", "least": 2}
QUARTILES = {"median": 2.51, "low": 2.4, "high": 2.6, "repeats": 9}
RECORD = {
    "machine": {"processor": "P", "cores": 2},
    "benchmarks": {
        "update": {"findings": [{**RATE, "value": QUARTILES, "holds": True}], "rows": [1]},
        "device": {"findings": [], "failed": "exit status 3, no figures"},
    },
}


def test_the_table():
    table = run_all.table(RECORD)
    assert "Measured on: cores 2, processor P." in table
    assert "| update | rate | 2.51 times | 2.4 to 2.6 | at least 2 | yes |" in table
    assert "| device | failed: exit status 3, no figures | | | | no |" in table


def test_one_benchmark_is_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / run_all.RESULT, RECORD)
    again = {"findings": [{**RATE, "value": 1.5, "holds": False}]}
    monkeypatch.setattr(run_all, "run_one", lambda name: again)
    assert run_all.main(["update"]) == 1
    record = read_json(tmp_path / run_all.RESULT)
    assert record["benchmarks"] == {**RECORD["benchmarks"], "update": again}
    table = run_all.table(record)
    assert (tmp_path / "results" / "benchmarks.md").read_text() == table
    assert "1.5 times" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        run_all.main(["no-such"])


def test_a_benchmark_that_breaks_is_reported():
    assert run_all.run_one("update", ["--no-such"])["failed"] == "exit status 2, no figures"

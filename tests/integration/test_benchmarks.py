"""The benchmarks in miniature: both sides do the same work, and what is found is written as found.

No test here asserts a time; those are what `make bench` finds.
"""

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


@pytest.mark.parametrize(
    ("value", "least", "most", "holds"),
    [
        (2.0, 2, None, True),
        (1.9, 2, None, False),
        (0.3, None, 0.3, True),
        (95.0, 94, 96, True),
        (97.0, 94, 96, False),
        (Quartiles(1.9, 1, 9, 5), 2, None, False),
        (1.0, None, None, None),
    ],
)
def test_bounds(value, least, most, holds, capsys):
    finding = Finding("x", value, "times", least, most)
    assert finding.holds is holds
    assert report([finding], more=1) == (1 if holds is False else 0)
    printed = json.loads(capsys.readouterr().out)
    assert printed["findings"][0]["holds"] is holds
    assert printed["more"] == 1


@pytest.fixture(scope="module")
def work():
    return update.make_work(cases=4, group=4)


@pytest.fixture(scope="module")
def start(work, tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark") / "start"
    update.save_start(work, folder)
    return folder


def test_the_model_is_of_the_stated_size(start):
    assert sum(p.numel() for p in load_model(start).parameters()) == 131_776


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
        self.found = flat_gradient(model)


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
    drawn, found = ours.step(1)
    assert found.losses[KL] > 0.01
    assert torch.linalg.norm(used[0] - kept.found) < 1e-3 * torch.linalg.norm(kept.found)
    assert trainer.state.num_input_tokens_seen == sum(len(s.tokens) for s in drawn.sequences)
    # The weights that both end with, where Adam has amplified every rounding, are alike too.
    moved = torch.cat(
        [(a - b).flatten() for a, b in zip(model.parameters(), theirs.parameters(), strict=True)]
    )
    assert moved.abs().mean() < 0.02 * work.settings.learning_rate


@pytest.mark.parametrize("generate", [False, True])
def test_both_sides_take_their_steps_in_turn(work, generate):
    found = update.compare(work, generate, rounds=2, warm_up=1)
    assert {name: len(s) for name, s in found.seconds.items()} == {"ours": 2, "trl": 2}
    if not generate:
        assert found.tokens["ours"] == found.tokens["trl"]
    assert found.ours.policy.settings.learning_rate == work.settings.learning_rate
    row = update.compared(work, generate, rounds=1)
    assert row["times_trl"].median > 0
    assert row["prompt_tokens"] == 24


def test_pcqc_beside_terminal_only(prepared, monkeypatch):
    """The same consultations; what PCQC draws and trains on beyond them is counted."""
    monkeypatch.chdir(prepared)
    study = load_study(prepared / "small.yaml")
    # Candidates enough that some ask: this model has hardly learned to.
    groups = {pcqc_cost.BASE: 0, pcqc_cost.OURS: 16}
    study = dataclasses.replace(
        study,
        methods={
            name: dataclasses.replace(study.method(name), terminal_group=2, question_group=group)
            for name, group in groups.items()
        },
    )
    found = pcqc_cost.measure(study, rounds=1)
    base, ours = (found["counts"][name] for name in (pcqc_cost.BASE, pcqc_cost.OURS))
    assert base["turns"] == ours["turns"]
    assert base["states"] == 0 < ours["states"]
    assert base["sampled_tokens"] < ours["sampled_tokens"]
    assert base["sequence_tokens"] < ours["sequence_tokens"]
    assert set(found["parts"]) == set(pcqc_cost.PARTS)
    total = found["times"].median - 1
    assert sum(s.median for s in found["parts"].values()) == pytest.approx(total, abs=1e-9)
    labels = [finding.what for finding in pcqc_cost.split_findings(found)]
    assert len(labels) == 2 + len(pcqc_cost.PARTS)
    json.dumps(pcqc_cost.plain(found))


FOUND = {
    "machine": {"processor": "P", "cores": 2},
    "benchmarks": {
        "update": {
            "findings": [Finding("rate", Quartiles(2.51, 2.4, 2.6, 9), "times", least=2).to_dict()],
            "rows": [1],
        },
        "broken": {"findings": [], "failed": "exit status 3, no figures"},
    },
}


def test_the_table():
    table = run_all.table(FOUND)
    assert "Measured on: cores 2, processor P." in table
    assert "| update | rate | 2.51 times | 2.4 to 2.6 | at least 2 | yes |" in table
    assert "| broken | failed: exit status 3, no figures | | | | no |" in table
    assert run_all.missed(FOUND)


def test_a_part_of_them_is_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / run_all.RESULT, FOUND)
    again = {"findings": [Finding("rate", 1.5, "times", least=2).to_dict()]}
    monkeypatch.setattr(run_all, "run_one", lambda name: again)
    assert run_all.main(["update"]) == 1
    record = read_json(tmp_path / run_all.RESULT)
    assert record["benchmarks"]["update"] == again
    assert "broken" in record["benchmarks"]
    assert "| no |" in (tmp_path / "results" / "benchmarks.md").read_text()
    assert "1.5 times" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        run_all.main(["no-such"])


def test_a_benchmark_that_breaks_is_told(monkeypatch):
    monkeypatch.setitem(run_all.REDUCED, "bootstrap", ["--no-such-option"])
    assert run_all.run_one("bootstrap")["failed"] == "exit status 2, no figures"


def test_findings_are_kept_in_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- measured -->\nold\n<!-- end -->\n\nAfter.\n")
    run_all.keep(FOUND, page, tmp_path / "record.json")
    kept = read_json(tmp_path / "record.json")
    assert "rows" not in kept["benchmarks"]["update"]
    assert page.read_text() == (
        f"Before.\n\n<!-- measured -->\n\n{run_all.table(kept)}\n<!-- end -->\n\nAfter.\n"
    )


def test_the_page_shows_the_record():
    assert run_all.table(read_json(run_all.RECORD)) in run_all.PAGE.read_text(encoding="utf-8")

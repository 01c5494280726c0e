"""The benchmarks in miniature: both sides do the same work. No test here asserts a time."""

import copy
import dataclasses
import json

import pytest
import torch
from helpers import changed
from learner_material import gradients
from small_runs import small_study

from benchmarks import __main__ as run_all
from benchmarks import first_hour, kernels, pcqc_cost, update
from benchmarks.measure import Finding, Quartiles, report
from pcqc.models.folder import load_model
from pcqc.training.training_sequence import KL
from pcqc_base.errors import UserError
from pcqc_gpu.planning.architecture import Architecture

make_study = small_study


@pytest.fixture(scope="module")
def work():
    return update.make_work(cases=4, group=4)


@pytest.fixture(scope="module")
def start(work, tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark") / "start"
    update.save_start(work, folder)
    return folder


class Gradients(update.TrainerCallback):
    """Keeps what TRL's optimiser is about to apply."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradient = gradients(model)


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
    work = changed(work, "method.kl_coefficient", 0.1)
    trainer = update.make_trainer(work, theirs, False, 1, start.parent, kept)
    trainer.ref_model.load_state_dict(reference.state_dict())
    trainer.train()
    ours, used = update.Ours(work, model, reference, generate=False), []
    ours.policy.backend.optimizers[0].register_step_pre_hook(
        lambda *_: used.append(gradients(model))
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


def test_both_sides_take_their_steps_in_turn(work):
    in_turn = update.compare(work, True, rounds=1, warm_up=1)
    assert {name: len(s) for name, s in in_turn.seconds.items()} == {"ours": 1, "trl": 1}


@pytest.mark.slow
def test_pcqc_beside_terminal_only(study):
    """The same consultations; what PCQC draws and trains on beyond them is measured in parts."""
    # Candidates enough that some ask: this model has hardly learned to.
    groups = {pcqc_cost.BASE: {}, pcqc_cost.OURS: {"question_group": 16}}
    methods = {
        name: dataclasses.replace(study.method(name), terminal_group=2, **group)
        for name, group in groups.items()
    }
    (times, *parts), workers = pcqc_cost.measure(dataclasses.replace(study, methods=methods), 1)
    base, ours = workers.values()
    assert base.metrics["turns"] == ours.metrics["turns"]
    assert base.metrics["tokens/actor_all"] < ours.metrics["tokens/actor_all"]
    assert len(ours.batch.groups) > 0
    assert len(base.batch.sequences) < len(ours.batch.sequences)
    assert sum(part.value.median for part in parts) == pytest.approx(
        times.value.median - 1, abs=1e-9
    )


def test_a_missed_bound_and_a_benchmark_that_breaks_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    missed = Finding("rate", Quartiles(1.51, 1.4, 1.6, 9), "times", least=2)
    assert report([missed]) == 1
    printed = {"rollouts": json.loads(capsys.readouterr().out)}
    broken = {"findings": [], "failed": "exit status 3, no figures"}
    monkeypatch.setattr(run_all, "run_one", lambda name: printed.get(name, broken))
    assert run_all.main() == 1
    table = (tmp_path / "results" / "benchmarks.md").read_text()
    assert "| rollouts | rate | 1.51 times | 1.4 to 1.6 | at least 2 | no |" in table
    assert "| update | failed: exit status 3, no figures | | | | no |" in table


def test_the_first_hour_ends_with_a_step_that_fails_and_tells_the_others(
    tmp_path, monkeypatch, capsys
):
    """The models are made and the measurement is refused: nothing is trained after it."""
    monkeypatch.chdir(tmp_path)

    def refuse(command):
        if "doctor" in command:
            raise UserError("exit status 2: pcqc: error: plan: it does not fit")

    monkeypatch.setattr(first_hour, "finished", refuse)
    assert first_hour.main(["--study", "clinic-mini"]) == 1
    page = (tmp_path / "results" / "clinic-mini" / "first-hour.md").read_text()
    assert page.strip() == capsys.readouterr().out.strip()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    held = [(row[1].strip(), row[3].strip(), row[4].strip()) for row in rows[1:]]
    assert held == [
        ("cases and models", "yes", "made"),
        ("pcqc doctor --measure", "no", "exit status 2: pcqc: error: plan: it does not fit"),
    ]


def test_kernels_and_bytes_by_hand():
    """Views launch nothing; a product's bytes are not counted; an expanded row is read once."""
    a, row = torch.zeros(4, 8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    with kernels.Kernels() as counted:
        b = a.view(32).view(8, 4)
        c = a + row.expand(4, 8)  # 64 + 16 -> 64 bytes
        c.mul_(2)  # 64 -> 64
        c.float()  # 64 -> 128
        b @ a
    assert counted.launched == {"add": 1, "mul_": 1, "_to_copy": 1, "mm": 1}
    assert counted.moved == (64 + 16 + 64) + (64 + 64) + (64 + 128)


TINY = Architecture(64, 1, 4, 2, 16, 96, 120, tied=True)
# Bytes a token of a layer. Two norms of 64, of heads, rotation of 6 x 16, gate of 96, in bf16.
LEAST = 2 * (18 * 64 + 9 * 96 + 8 * 96)


def test_a_layer_is_counted_apart_from_what_surrounds_it():
    parts = {tokens: kernels.by_part(TINY, tokens) for tokens in (64, 256)}
    for few, many in zip(parts[64]["layer"], parts[256]["layer"], strict=True):
        assert few.kernels == many.kernels > 20
        # What remains are the parameters of norms, read once a pass.
        assert many.moved == pytest.approx(few.moved, rel=0.02)
    forward, backward = parts[256]["layer"]
    assert forward.moved + backward.moved > 2 * LEAST


@pytest.mark.slow  # torch compiles a layer
def test_a_compiled_layer_moves_little_more_than_each_part_must():
    """Inputs read once, results written once, by kernels that are fewer than half."""
    plain = kernels.by_part(TINY, 256)["layer"]
    forward, backward = kernels.compiled(TINY, 256)
    assert LEAST < forward.moved + backward.moved < 1.6 * LEAST
    assert 7 < forward.kernels < plain[0].kernels / 2
    assert 14 < backward.kernels < plain[1].kernels / 2


def test_a_share_of_a_products_speed_by_hand():
    """Where nothing is moved only the pass that is repeated costs; then half of the time goes."""
    shape = Architecture(64, 2, 4, 2, 16, 96, 120, tied=True)
    whole = shape.forward_flops(1, kernels.CONTEXT, kernels.SCORED)
    again = shape.forward_flops(1, kernels.CONTEXT, 0)
    assert kernels.predicted(shape, 0, 0, 0) == pytest.approx(3 * whole / (3 * whole + again))
    seconds = (3 * whole + again) / kernels.PRODUCT
    moved = seconds * kernels.MEMORY / shape.layers
    assert kernels.predicted(shape, moved / 2, moved / 2, 0) == pytest.approx(
        kernels.predicted(shape, 0, 0, 0) / 2
    )

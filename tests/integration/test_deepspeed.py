"""Several processes: the steps of one, state that survives, work shared out, one error."""

import json
from pathlib import Path
from types import SimpleNamespace

import deepspeed_worker
import pytest
import torch
from deepspeed_worker import SMALL_STEPS, fine_tune
from helpers import Alone, changed, in_processes, tiny_model
from learner_material import (
    COEFFICIENTS,
    RL,
    SFT,
    UPDATES,
    critic,
    gradients,
    sequences,
    value_sequences,
)
from safetensors.torch import load_file
from scripted_engine import ScriptedEngine

from pcqc.engines.base import Request, Sampling
from pcqc.engines.sharded import ShardedEngine
from pcqc.training.backend import adamw_backend, share
from pcqc.training.policy import Policy
from pcqc.training.state import ModelState, States, load_state
from pcqc.training.token_trees import TokenTree, merge_prefixes
from pcqc_base.errors import UserError
from pcqc_base.settings import LearnerPlacement
from pcqc_base.system.processes import Processes, join, report_to_launcher
from pcqc_gpu.launch import _reason, processes_wanted
from pcqc_study.study_file import load_study

STAGES = ("zero-1", "zero-2", "zero-3")
DEFAULT = ("zero-1", "zero-1-compiled", "zero-3")  # small steps are of zero 2
LONG = ("zero-2", "zero-1-offload", "zero-3-offload")
# What two orders of summing the same gradients promise for one step, in the norm of all weights.
# Each gradient is off by a few units in the last place; Adam divides it by its own size, so the
# step is off by as much, and steps add up. Measured were 2 to 4 units, with AVX-512 and with
# AVX2. Of a single weight nothing is promised: where its gradient is rounding error alone, Adam
# takes a whole step in either direction.
ROUNDING = 32 * torch.finfo(torch.float32).eps


@pytest.fixture(scope="module")
def torch_run():
    """(weights, reports, critic) of the same updates in one process by torch."""
    policy = Policy(tiny_model(0), tiny_model(1), RL)
    reports = [policy.update(sequences(step), COEFFICIENTS) for step in range(UPDATES)]
    values = critic()
    figures = [values.update(value_sequences(step)) for step in range(2)]
    weights = {name: tensor.detach() for name, tensor in policy.weights()}
    return weights, reports, policy, figures, values


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Folder with what two processes trained."""
    folder = tmp_path_factory.mktemp("deepspeed")
    deepspeed_worker.run(folder, 2, *DEFAULT, "small-steps", "waiting")
    return folder


def assert_same_training(mine, reference, steps: int) -> None:
    """Two trainings of `tiny_model(0)` ended in the same weights, but for the order of sums."""
    start = flat(dict(tiny_model(0).named_parameters()))
    assert mine.keys() == reference.keys()
    distance = (flat(mine) - flat(reference)).norm() / (flat(reference) - start).norm()
    assert float(distance) < steps * ROUNDING


def check(folder: Path, name: str, torch_run) -> None:
    weights, reports, policy, figures, values = torch_run
    mine = load_file(folder / f"{name}.safetensors")
    written = json.loads((folder / f"{name}.json").read_text())
    assert_same_training(mine, weights, UPDATES)
    for own, other in zip(written["reports"], reports, strict=True):
        # A loss is a sum whose terms cancel: what is off is a share of the largest of them.
        scale = max(map(abs, other.losses.values()))
        assert own["losses"] == pytest.approx(other.losses, rel=1e-4, abs=1e-4 * scale)
        assert own["statistics"] == pytest.approx(other.statistics, rel=1e-4, abs=1e-5)
    # The norms were clipped, so that the clipping is torch's too.
    assert all(r.statistics["gradient_norm"] > RL.max_gradient_norm for r in reports)
    assert written["exact"], "a resumed run ended in other weights"
    assert written["wide"] < 1e-5
    assert written["overlap"] == name.startswith(("zero-2", "zero-3"))
    refused = "the gradient is not finite; lower rl.learning_rate and resume"
    assert written["refused"] == [refused, refused]
    expected = policy.next_logprobs([[5, 6, 7], [8, 9, 10, 11]], [[3, 4], [5]])
    assert written["next_logprobs"] == [pytest.approx(row, abs=1e-3) for row in expected]
    for own, other in zip(written["critic"], figures, strict=True):
        assert own == pytest.approx(other, rel=1e-4)
    expected = values.values([[4, 5, 6, 7], [4, 5, 9]])
    for own, other in zip(written["values"], expected, strict=True):
        assert own == pytest.approx(other.tolist(), abs=1e-4)


@pytest.fixture(scope="module")
def torch_sft(tmp_path_factory):
    """Losses and weights of SFT in one process by torch."""
    return fine_tune(tiny_model(0), adamw_backend, SFT, tmp_path_factory.mktemp("sft"))


def check_sft(folder: Path, name: str, torch_sft) -> None:
    losses, weights = torch_sft
    mine = load_file(folder / f"{name}-sft.safetensors")
    written = json.loads((folder / f"{name}-sft.json").read_text())
    assert written["losses"] == pytest.approx(losses, rel=1e-5)
    assert_same_training(mine, weights, len(losses))
    assert written["exact"], "a resumed SFT ended elsewhere"


@pytest.mark.parametrize("name", DEFAULT)
def test_two_processes_train_and_fine_tune_as_one(launched, torch_run, torch_sft, name):
    check(launched, name, torch_run)
    check_sft(launched, name, torch_sft)


@pytest.mark.parametrize("stage", STAGES)
def test_an_optimiser_that_waits_on_the_host_takes_no_memory_and_the_same_steps(launched, stage):
    critics = json.loads((launched / "waiting.json").read_text())[stage]
    assert critics["same"]
    beside, waiting = critics["held"][:3], critics["held"][3:]
    # Master weights and two moments, in fp32, of this process's half of the critic.
    whole = sum(p.numel() for p in critic().model.parameters())
    assert beside[1] == beside[2] == pytest.approx(3 * 4 * whole / 2, rel=0.01)
    assert waiting[1:] == [0, 0]


def flat(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weights[name].detach().double().flatten() for name in sorted(weights)])


def masters(state: Path) -> dict[str, torch.Tensor]:
    """The fp32 weights that a state's files hold."""
    files = [load_file(file) for file in state.glob("step-*/model/part-*.safetensors")]
    ending = "/weight"
    named = {n: t for file in files for n, t in file.items() if n.endswith(ending)}
    return {n.removeprefix("model.").removesuffix(ending): t for n, t in named.items()}


def test_small_steps_in_bfloat16_do_not_round_away(launched, tmp_path):
    """The fp32 weights move as SFT in fp32 moves them, within a twentieth of the way (0.05).

    Steps on the bf16 weights themselves would move one in a hundred, and miss all of it (1.00).
    """
    model = tiny_model(0).to(torch.bfloat16).float()
    before = flat(dict(model.named_parameters())).detach()
    _, exact = fine_tune(model, adamw_backend, SMALL_STEPS, tmp_path)
    held = masters(launched / "small-steps")
    wanted, moved = flat(exact) - before, flat(held) - before
    assert float((moved != 0).float().mean()) > 0.95
    assert float((moved - wanted).norm() / wanted.norm()) < 0.1
    computed = load_file(launched / "small-steps.safetensors")
    assert all(torch.equal(t, held[n].to(torch.bfloat16)) for n, t in computed.items())


@pytest.mark.long
def test_unsharded_and_offloaded_train_alike(tmp_path, torch_run, torch_sft):
    deepspeed_worker.run(tmp_path, 2, *LONG)
    for name in LONG:
        check(tmp_path, name, torch_run)
        check_sft(tmp_path, name, torch_sft)


@pytest.mark.long
def test_another_number_of_processes_or_stage_resumes(launched, torch_run):
    deepspeed_worker.run(launched, 1, *DEFAULT)
    for name in DEFAULT:
        mine = load_file(launched / f"{name}-elsewhere.safetensors")
        assert_same_training(mine, torch_run[0], UPDATES)


def test_a_state_of_the_other_kind_is_refused(launched, tmp_path):
    policy = Policy(tiny_model(0), None, RL)
    (state,) = (launched / "states" / "zero-1").glob("step-*")
    with pytest.raises(UserError, match=r"began with placement\.learner and cannot resume without"):
        load_state(state.parent, {"actor": policy.state})
    model = tiny_model(0)
    optimizer = torch.optim.AdamW(model.parameters())
    States(tmp_path, {"actor": ModelState(model, [optimizer])}).save({"step": 1})
    from pcqc_gpu.deepspeed_backend import ShardedState

    with pytest.raises(UserError, match=r"began without placement\.learner and cannot resume with"):
        load_state(tmp_path, {"actor": ShardedState(SimpleNamespace())})


@pytest.mark.parametrize("count", [2, 3, 7])
def test_gradients_of_shares_add_up(count):
    """Every share is divided by the components' weights in all of them."""
    parts, losses = [], []
    for rank in range(count):
        policy = Policy(tiny_model(0), tiny_model(1), RL)
        policy.backend.processes = Alone(rank, count)
        used = []
        policy.backend.step = lambda rate, p=policy, u=used: u.append(gradients(p.model)) or 1.0
        losses.append(policy.update(sequences(), COEFFICIENTS).losses)
        parts += used
    policy, whole = Policy(tiny_model(0), tiny_model(1), RL), []
    policy.backend.step = lambda rate: whole.append(gradients(policy.model)) or 1.0
    expected = policy.update(sequences(), COEFFICIENTS).losses
    assert torch.allclose(sum(parts), whole[0], rtol=1e-4, atol=1e-4)
    summed = {name: sum(loss[name] for loss in losses) for name in expected}
    assert summed == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("budget", [40, 100, 100000])
def test_trees_are_sharded_evenly(count, budget):
    trees = merge_prefixes(sequences(count=30), budget, "cpu")
    nothing = TokenTree([0], [0])
    shares = [share(trees, budget, Processes(rank, count), nothing) for rank in range(count)]
    assert len({len(batches) for batches in shares}) == 1
    dealt = [tree for batches in shares for batch in batches for tree in batch if tree.members]
    assert sorted(map(id, dealt)) == sorted(map(id, trees))
    tokens = [sum(len(t.tokens) for b in batches for t in b if t.members) for batches in shares]
    assert max(tokens) - min(tokens) <= max(len(tree.tokens) for tree in trees)


def test_a_sharded_engine_does_its_share_and_gets_all_results():
    requests = [Request([n], (10 * n, 10 * n + 1)) for n in range(8)]
    sampling = Sampling(1.0, 1.0, 4, (7,))

    def work(processes):
        own = ScriptedEngine(lambda prompt, stream: [stream, 7])
        return ShardedEngine(own, processes).generate(requests, sampling), own.prompts

    results, prompts = zip(*in_processes(3, work), strict=True)
    expected = [[[stream, 7] for stream in request.streams] for request in requests]
    for result in results:
        assert [[completion.tokens for completion in row] for row in result] == expected
    assert prompts == ([(0,), (1,)], [(2,), (3,), (4,)], [(5,), (6,), (7,)])


def failure(exitcode: int, **data) -> SimpleNamespace:
    message = data.get("message", "")
    return SimpleNamespace(exitcode=exitcode, error_file_data=data, message=message)


def test_the_launcher_says_why_once(capsys):
    lost = failure(1, message="Traceback: connection closed by peer", expected=False)
    refused = failure(2, message="the disk is full", expected=True)
    killed, stopped = failure(-9), failure(-15)
    assert _reason({0: lost, 1: killed, 2: stopped}, 3) == (
        "process 1 of 3 was killed (SIGKILL), and the others were stopped; "
        "rerun the same command to resume from the last saved state"
    )
    assert _reason({0: lost, 1: refused, 2: stopped}, 3) == "the disk is full"
    assert capsys.readouterr().err == ""
    assert _reason({0: lost, 1: stopped}, 2).startswith("process 0 of 2 ended with exit status 1")
    assert capsys.readouterr().err == "Traceback: connection closed by peer\n"


def test_the_launcher_reports_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    assert not report_to_launcher(UserError("no"))
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    assert report_to_launcher(UserError("no"))
    assert json.loads((tmp_path / "error.json").read_text())["message"] == "no"


def test_processes_follow_the_placement(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert processes_wanted(load_study("clinic-mini")) == 1
    paper = load_study("paper")
    assert processes_wanted(paper) == 8
    two_nodes = changed(paper, "placement.learner", LearnerPlacement((0, 8)))
    with pytest.raises(UserError, match=r"several nodes: start the job on each of them"):
        processes_wanted(two_nodes)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert processes_wanted(two_nodes) == 1
    with pytest.raises(UserError, match=r"3 processes were launched, but .* names 2 devices"):
        join([0, 1])

"""Processes that train together for `test_deepspeed.py`, and write what came of it."""

import dataclasses
import functools
import json
import os
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from helpers import free_port, tiny_model
from learner_material import (
    COEFFICIENTS,
    RL,
    SAVED,
    SFT,
    UPDATES,
    critic,
    examples,
    sequences,
    value_sequences,
)
from safetensors.torch import save_file

from pcqc.methods.sequences import TERMINAL
from pcqc.training import scoring_head
from pcqc.training.backend import model_weights
from pcqc.training.batching import TokenModel
from pcqc.training.policy import Policy
from pcqc.training.sft import sft_plan
from pcqc.training.state import States, load_state
from pcqc.training.supervised import train_supervised
from pcqc_base.errors import UserError
from pcqc_base.settings import LearnerPlacement, Sft
from pcqc_base.system.processes import join, shutdown
from pcqc_gpu import deepspeed_backend
from pcqc_gpu.deepspeed_backend import DeepSpeedBackend

TWO = (0, 1)
# The learning rate of SFT in the paper.
SMALL_STEPS = dataclasses.replace(SFT, learning_rate=1e-5)
SETTINGS = {
    "zero-1": LearnerPlacement(TWO, zero=1),
    "zero-2": LearnerPlacement(TWO, zero=2, gradient_checkpointing=True),
    "zero-3": LearnerPlacement(TWO, zero=3, gradient_checkpointing=True),
    "zero-1-offload": LearnerPlacement(TWO, zero=1, offload="optimizer"),
    "zero-1-compiled": LearnerPlacement(TWO, zero=1, gradient_checkpointing=True, compile=True),
    "zero-3-offload": LearnerPlacement(TWO, zero=3, offload="optimizer"),
}
SMALL = LearnerPlacement(TWO, zero=2, offload="optimizer")


# All sequences of an update in one micro-batch.
WIDE = dataclasses.replace(RL, tokens_per_micro_batch=32768)


def make_policy(backend, seed: int = 0, settings=RL) -> Policy:
    return Policy(tiny_model(seed), tiny_model(1), settings, backend)


def whole(weights) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights}


def distance(mine: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """How far apart two trainings of `tiny_model(0)` ended, as a share of the second's way."""
    start = tiny_model(0).state_dict()
    apart = torch.cat([(mine[n] - tensor).flatten() for n, tensor in other.items()])
    way = torch.cat([(tensor - start[n]).flatten() for n, tensor in other.items()])
    return float(apart.double().norm() / way.double().norm())


def train(name: str, placement: LearnerPlacement, processes, folder: Path) -> None:
    """All updates at a stretch; then again with a save and a new start before the last."""
    backend = functools.partial(DeepSpeedBackend, placement=placement, processes=processes)
    if placement.zero == 3:
        # Ten tokens at a time: processes have different numbers of parts.
        scoring_head.LOGITS = 10 * 120
    policy, reports = make_policy(backend), []
    for step in range(UPDATES):
        report = policy.update(sequences(step), COEFFICIENTS)
        reports.append({"losses": report.losses, "statistics": report.statistics})
    straight = whole(policy.weights())
    wide = make_policy(backend, settings=WIDE)
    for step in range(UPDATES):
        wide.update(sequences(step), COEFFICIENTS)
    first = make_policy(backend)
    for step in range(SAVED):
        first.update(sequences(step), COEFFICIENTS)
    state = folder / "states" / name
    states = States(state, {"actor": first.state}, processes)
    states.save({"step": SAVED})
    first.update(sequences(SAVED), COEFFICIENTS)  # as training goes on beside
    states.finish()
    second = make_policy(backend, seed=7)
    load_state(state, {"actor": second.state}, processes)
    for step in range(SAVED, UPDATES):
        second.update(sequences(step), COEFFICIENTS)
    resumed = whole(second.weights())
    refused = refuses_what_is_not_finite(second, processes)
    mine = policy.next_logprobs([[5, 6, 7], [8, 9, 10, 11]], [[3, 4], [5]])
    values = critic(backend)
    figures = [values.update(value_sequences(step)) for step in range(2)]
    results = {
        "reports": reports,
        "wide": distance(whole(wide.weights()), straight),
        "overlap": policy.backend.engine.zero_overlap_comm(),
        "exact": all(torch.equal(t, resumed[n]) for n, t in straight.items()),
        "refused": refused,
        "next_logprobs": mine,
        "critic": figures,
        "values": [v.tolist() for v in values.values([[4, 5, 6, 7], [4, 5, 9]])],
    }
    if processes.is_main:
        save_file(straight, folder / f"{name}.safetensors")
        (folder / f"{name}.json").write_text(json.dumps(results))


def refuses_what_is_not_finite(policy: Policy, processes) -> list[str]:
    """What every process says of a step that is not finite in one of them; nothing may change."""
    before, bad = whole(policy.weights()), sequences(0)
    bad[0].terms[TERMINAL].advantages[:] = np.inf
    message = ""
    try:
        policy.update(bad, COEFFICIENTS)
    except UserError as error:
        message = str(error)
    after = whole(policy.weights())
    same = all(torch.equal(t, after[n]) for n, t in before.items())
    return processes.gather(message if same else "weights have changed")


def fine_tune(
    model, make, settings: Sft, state: Path, stop_after: int | None = None
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and weights of SFT, as far as it goes."""
    backend = make(TokenModel(model), settings.learning_rate, settings)
    plan, losses = sft_plan(examples(), settings, "sft", 60), []
    for step, loss in train_supervised(backend, plan, state):
        losses.append(loss)
        if step == stop_after:
            # A process that is killed takes the thread that writes its state along; this one lives.
            while not list(state.glob("step-*")):
                time.sleep(0.01)
            break
    return losses, whole(model_weights(backend))


def supervised(name: str, placement: LearnerPlacement, processes, folder: Path) -> None:
    """SFT at a stretch, and again with a break between two states."""
    make = functools.partial(DeepSpeedBackend, placement=placement, processes=processes)
    states = folder / "sft-states" / name
    losses, weights = fine_tune(tiny_model(0), make, SFT, states / "straight")
    fine_tune(tiny_model(0), make, SFT, states / "broken", stop_after=3)
    again, resumed = fine_tune(tiny_model(7), make, SFT, states / "broken")
    same = all(torch.equal(t, resumed[n]) for n, t in weights.items())
    results = {"losses": losses, "exact": same and again == losses}
    if processes.is_main:
        save_file(weights, folder / f"{name}-sft.safetensors")
        (folder / f"{name}-sft.json").write_text(json.dumps(results))


def small_steps(processes, folder: Path) -> None:
    """SFT in bf16 at the paper's learning rate; its state holds the fp32 weights."""
    make = functools.partial(DeepSpeedBackend, placement=SMALL, processes=processes)
    model = tiny_model(0).to(torch.bfloat16)
    _, weights = fine_tune(model, make, SMALL_STEPS, folder / "small-steps")
    if processes.is_main:
        save_file(weights, folder / "small-steps.safetensors")


def waiting(processes, folder: Path) -> None:
    """A critic in bf16 with its optimiser on the host between steps, and one without; by stage."""
    by_stage = {}
    for stage in (1, 2, 3):
        place, states, values, held = LearnerPlacement(TWO, zero=stage), [], [], []
        for waits in (False, True):

            def make(module, *settings, place=place):
                half = module.to(torch.bfloat16)
                return DeepSpeedBackend(half, *settings, placement=place, processes=processes)

            mine = critic(make)
            for step in range(3):
                with mine.backend.optimizer_on_host() if waits else nullcontext():
                    values.append([v.tolist() for v in mine.values([[4, 5, 6, 7], [4, 5, 9]])])
                    held.append(device_bytes(mine.backend.optimizer))
                mine.update(value_sequences(step))
            (own,) = mine.state.files().values()
            states.append(own)
        same = all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
        by_stage[f"zero-{stage}"] = {
            "same": all(processes.gather(same)) and values[:3] == values[3:],
            "held": held,
        }
    if processes.is_main:
        (folder / "waiting.json").write_text(json.dumps(by_stage))


def device_bytes(optimizer) -> int:
    """Bytes of its master weights and moments, once it has taken a step."""
    kept = [t for state in optimizer.state.values() for t in state.values() if t.numel() > 1]
    return sum(tensor.untyped_storage().nbytes() for tensor in [*kept, *optimizer.state])


def resume(name: str, placement: LearnerPlacement, processes, folder: Path) -> None:
    """Go on by another placement from the state that `train` left."""
    backend = functools.partial(DeepSpeedBackend, placement=placement, processes=processes)
    policy = make_policy(backend, seed=8)
    load_state(folder / "states" / name, {"actor": policy.state}, processes)
    for step in range(SAVED, UPDATES):
        policy.update(sequences(step), COEFFICIENTS)
    kept = whole(policy.weights())
    if processes.is_main:
        save_file(kept, folder / f"{name}-elsewhere.safetensors")


def run(folder: Path, count: int, *names: str) -> None:
    """So many processes; where one fails the others are ended, and its traceback is raised."""
    arguments = (free_port(), folder, count, *names)
    torch.multiprocessing.start_processes(main, arguments, count, start_method="spawn")


def main(rank: int, port: int, folder: Path, count: int, *names: str) -> None:
    """One of the processes, with what a launcher tells each."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    # A process that meets more forms of a layer than these computes others uncompiled, and so for a
    # while the one does what the other does not.
    deepspeed_backend.FORMS = 3
    processes = join(range(count))
    for name in names:
        if processes.count == 1:
            resume(name, LearnerPlacement((0,), zero=4 - SETTINGS[name].zero), processes, folder)
        elif name == "small-steps":
            small_steps(processes, folder)
        elif name == "waiting":
            waiting(processes, folder)
        else:
            train(name, SETTINGS[name], processes, folder)
            supervised(name, SETTINGS[name], processes, folder)
    shutdown(processes)

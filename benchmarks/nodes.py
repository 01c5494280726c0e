"""What one update of a method would take on 1 to 8 nodes: a simulation with the plan's rates.

    python -m benchmarks.nodes [--study paper] [--method pcqc]

Nothing is measured. Dialogues are drawn and played on simulated engines, so that the wait for the
last of them is counted; everything else is bytes or FLOPs over the rates of `pcqc plan` and those
below. The method's batch stays the same, so each device has less of it on more nodes. Prints the
tables of nodes.md.
"""

import argparse
import heapq
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd

import numpy as np
from tabulate import tabulate

from pcqc.planning.architecture import BYTES, architecture
from pcqc.planning.cost import run_cost, update_passes
from pcqc.planning.devices import device
from pcqc.planning.storage import storage
from pcqc.settings import Method, Study, load_study

NODES = (1, 2, 4, 8)
# Bytes a second of each device between nodes: 80 % of 400 Gb/s, as in the clusters for which
# torchtitan reports 128 devices at 97 % of the speed of 8. Assumed.
NETWORK = 40e9
SLOW_NETWORK = 10e9
# Decoding reads all weights in every step, at 60 % of the 3.35 TB/s of the data sheet. Assumed.
MEMORY = 0.6 * 3.35e12
# A response's tokens are log-normal about their mean, with this deviation of the logarithm; whether
# a consultation goes on is drawn anew at each turn. Assumed.
SPREAD = 0.6
ANSWER = 25  # decoding steps of a patient's answer
DRAWS = 10
# Unexpected ends of a job on 16,384 H100: 419 in 54 days (Grattafiori et al. 2024, "The Llama 3
# Herd of Models", Section 3.3.4).
DEVICE_HOURS_PER_FAILURE = 54 * 24 * 16384 / 419


@dataclass(frozen=True)
class Update:
    """Seconds of one update by phase.

    Attributes:
        rollout: until the last dialogue has ended.
        busy: what the rollouts would take if no device ever waited.
        answers: patient and scorer, on the same devices after one another.
        update: the learner's.
        sync: new weights for the engines.
        state: the wait for a state, spread over the updates between two.
    """

    rollout: float
    busy: float
    answers: float
    update: float
    sync: float
    state: float

    @property
    def seconds(self) -> float:
        """One phase after another."""
        return self.rollout + self.answers + self.update + self.sync + self.state


def on_nodes(study: Study, count: int) -> Study:
    """The study with its roles on all devices of so many nodes."""
    return _on(study, count, count * study.placement.devices_per_node)


def _on(study: Study, nodes: int, devices: int) -> Study:
    """With its roles on some devices of so many nodes, and copies that divide them."""
    roles = {}
    for role in ("learner", "actor", "patient", "scorer"):
        if place := getattr(study.placement, role):
            roles[role] = replace(place, devices=tuple(range(devices)))
        if role in ("patient", "scorer") and place:
            split = gcd(place.tensor_parallel, devices)
            roles[role] = replace(roles[role], tensor_parallel=split)
    return replace(study, placement=replace(study.placement, nodes=nodes, **roles))


def stale(study: Study, method: Method) -> float:
    """Seconds of an update whose rollouts are one update old, on the best split of the devices.

    Some devices play the next update's dialogues while the others learn; whoever is ready waits.
    """
    place, splits = study.placement, 8
    best = np.inf
    for part in range(1, splits):
        devices = place.devices * part // splits
        playing = simulate(_on(study, place.nodes, devices), method)
        learning = _learning(_on(study, place.nodes, place.devices - devices), method)
        together = max(playing.rollout + playing.answers, learning)
        best = min(best, together + playing.sync + playing.state)
    return best


def simulate(study: Study, method: Method) -> Update:
    """The phases of one update of a placed study."""
    place, hours = study.placement, run_cost(study, method)
    each = 3600 / method.updates
    rollouts, busy = zip(*(_rollouts(study, method, seed) for seed in range(DRAWS)), strict=True)
    every = study.rl_of(method).save_every
    state = storage(study)["state_gib"] / len(place.learner.devices)
    return Update(
        rollout=float(np.mean(rollouts)),
        busy=float(np.mean(busy)),
        answers=(hours["patient"] + hours["scorer"]) * study.assumptions.full_batches * each,
        update=_learning(study, method),
        sync=hours["sync"] * each,
        state=state / study.assumptions.copying_gib_per_second / every,
    )


def _rollouts(study: Study, method: Method, seed: int) -> tuple[float, float]:
    """Seconds until the last dialogue has ended, and the mean of the devices' work."""
    rng, assumed = np.random.default_rng(seed), study.assumptions
    cases, count = study.rl_of(method).cases_per_update, len(study.placement.actor.devices)
    work = method.work(assumed)
    dialogues = [_dialogue(rng, study) for _ in range(round(cases * work.trajectories))]
    # What a case samples beside its consultations' own turns, such as candidates.
    extra = cases * work.responses - sum(map(len, dialogues))
    alone = rng.choice(len(dialogues), size=max(0, round(extra)))
    groups: list[list[list[float]]] = [[] for _ in range(count)]
    for number, turns in enumerate(dialogues):
        groups[number * count // len(dialogues)].append(turns)
    for number in alone:
        groups[int(number) * count // len(dialogues)].append([_response(rng, study)])
    ends, works = zip(*(_device(group, *_step(study)) for group in groups), strict=True)
    return max(ends), float(np.mean(works))


def _dialogue(rng: np.random.Generator, study: Study) -> list[float]:
    """Tokens of each turn of a consultation."""
    most, inquiries = study.protocol.max_turns, study.assumptions.inquiries
    asked = min(int(rng.geometric(1 / (1 + inquiries))) - 1, most - 1)
    return [_response(rng, study) for _ in range(asked + 1)]


def _response(rng: np.random.Generator, study: Study) -> float:
    mean = study.assumptions.action_tokens
    tokens = rng.lognormal(np.log(mean) - SPREAD**2 / 2, SPREAD)
    return float(min(tokens, study.protocol.action_tokens))


def _step(study: Study) -> tuple[float, float]:
    """Seconds of a decoding step: at least, and for each sequence in the batch."""
    shape, dtype = architecture(study, "actor")[1], study.dtype("actor")
    assumed, peak = study.assumptions, device(study.placement.device).peak(dtype)
    token = shape.forward_flops(1, assumed.prompt_tokens, 1) / (peak * assumed.decoding_utilisation)
    return BYTES[dtype] * shape.parameters / MEMORY, token


def _device(dialogues: list[list[float]], least: float, token: float) -> tuple[float, float]:
    """Seconds until a device has played its dialogues, and what their tokens alone would take.

    All sequences in a batch advance together, so each ends when the batch has advanced by its
    tokens. A patient answers while the others go on, and takes as long as its tokens need.
    """
    now = advanced = 0.0
    ends = [(turns[0], number, 0) for number, turns in enumerate(dialogues)]
    heapq.heapify(ends)
    answered: list[tuple[float, int, int]] = []
    while ends or answered:
        step = max(least, token * len(ends))
        finish = now + (ends[0][0] - advanced) * step if ends else np.inf
        if answered and answered[0][0] <= finish:
            at, number, turn = heapq.heappop(answered)
            advanced += (at - now) / step if ends else 0.0
            now = at
            heapq.heappush(ends, (advanced + dialogues[number][turn], number, turn))
            continue
        now, (advanced, number, turn) = finish, heapq.heappop(ends)
        if turn + 1 < len(dialogues[number]):
            heapq.heappush(answered, (now + ANSWER * least, number, turn + 1))
    return now, token * sum(map(sum, dialogues))


def _learning(study: Study, method: Method, kept: bool = False, network: float = NETWORK) -> float:
    """Seconds of the learner: in each pass of each micro-batch the slower of FLOPs and bytes.

    A forward pass gathers the weights, the recomputing backward pass again, and sums the gradients
    in fp32.

    Args:
        kept: whether a node keeps the weights that a first gather has brought it, as DeepSpeed's
            `zero_hpz_partition_size` has it. The learner does not ask for it.
        network: bytes a second of each device.
    """
    place, assumed = study.placement, study.assumptions
    count, shape = len(place.learner.devices), architecture(study, "actor")[1]
    work = method.work(assumed).times(study.rl_of(method).cases_per_update)
    tokens = work.trained_tokens / count
    batches = ceil(tokens / study.rl.tokens_per_micro_batch)
    peak = device(place.device).peak(study.dtype("actor")) * assumed.update_utilisation
    one_pass = shape.forward_flops(
        tokens / batches, assumed.prompt_tokens, work.credited_tokens / count / batches
    )
    one_pass /= peak
    part = shape.parameters * (count - 1) / count
    near, far = device(place.device).link, network if place.learner_nodes > 1 else np.inf
    gather, crossing = BYTES[study.dtype("actor")] * part, min(near, far)
    summed = 4 * part / crossing
    forwards = update_passes(method, recomputed=False) - 3 + 1
    seconds = 0.0
    for batch in range(batches):
        first = gather / (near if kept and batch else crossing)
        again = gather / (near if kept else crossing)
        seconds += forwards * max(one_pass, first)
        seconds += max((2 + place.learner.gradient_checkpointing) * one_pass, again + summed)
    return seconds


def tables(study: Study, method: Method) -> str:
    """The schedule; the learner's update by network; what a dead process or server costs."""
    phases, learning, failures, first = [], [], [], 0.0
    for count in NODES:
        placed = on_nodes(study, count)
        update, devices = simulate(placed, method), placed.placement.devices
        first, old = first or update.seconds, stale(placed, method)
        hours = update.seconds * devices * method.updates / 3600
        phases.append(
            {
                "nodes": count,
                "rollouts": update.rollout,
                "of it waiting": f"{1 - update.busy / update.rollout:.0%}",
                "answers, scores": update.answers,
                "update": update.update,
                "weights, states": update.sync + update.state,
                "an update": update.seconds,
                "GPU-hours": hours,
                "efficiency": f"{first / count / update.seconds:.0%}",
                "one update stale": old,
                "gain": f"{update.seconds / old - 1:.0%}",
            }
        )
        networks = {"400 Gb/s": NETWORK, "100 Gb/s": SLOW_NETWORK}
        learning.append(
            {"nodes": count}
            | {
                f"{name}, {how}": _learning(placed, method, kept, speed)
                for name, speed in networks.items()
                for how, kept in (("hpZ", True), ("without", False))
            }
        )
        lost = (study.rl_of(method).save_every / 2 + 1) * update.seconds
        failures.append(
            {
                "nodes": count,
                "a process dies in a run": f"{hours / DEVICE_HOURS_PER_FAILURE:.1%}",
                "minutes lost": (study.assumptions.start_seconds + lost) / 60,
                "a server of many dies, seconds an update": update.answers / (devices - 1),
            }
        )
    made = (phases, learning, failures)
    texts = [tabulate(t, headers="keys", tablefmt="github", floatfmt=".1f") for t in made]
    return "\n\n".join(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nodes", description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="paper")
    parser.add_argument("--method", default="pcqc")
    parsed = parser.parse_args(arguments)
    study = load_study(parsed.study)
    print(tables(study, study.method(parsed.method)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

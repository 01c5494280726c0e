"""Steps a second on one core, of a doctor that acts at random: `python -m clinic_env speed`."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from clinic_env.consultation import question_about
from clinic_env.env import ClinicEnv
from clinic_env.vector import VectorClinic

SIDE_BY_SIDE = 1024
LEAST = 1.0  # seconds of processor time for each measurement


def measure() -> Iterator[tuple[str, float]]:
    """What is measured, and its steps a second."""
    rng, vector = np.random.default_rng(0), VectorClinic(SIDE_BY_SIDE)
    acts = [question_about(vector.world, f) for f in range(vector.findings)]
    acts += [f"Final Answer: {label}" for label in "ABCD"]
    numbers = rng.integers(0, len(acts), (64, SIDE_BY_SIDE))
    texts = [[acts[i] for i in row] for row in numbers.tolist()]
    vector.reset(seed=0)
    yield "VectorClinic, numbers", _rate(lambda i: _count(vector.step(numbers[i % 64])))
    yield "VectorClinic, texts", _rate(lambda i: _count(vector.step_texts(texts[i % 64])))
    for name, exact in (("ClinicEnv(exact=False)", False), ("ClinicEnv()", True)):
        env = ClinicEnv(exact=exact)
        env.reset(seed=0)
        yield name, _rate(partial(_play, env, texts))


def _count(_: object) -> int:
    return SIDE_BY_SIDE


def _play(env: ClinicEnv, texts: list[list[str]], call: int) -> int:
    taken = texts[call % len(texts)][:100]
    for text in taken:
        if env.step(text)[2]:
            env.reset()
    return len(taken)


def _rate(steps: Callable[[int], int]) -> float:
    """Steps by processor time; `steps` takes a call's number, and returns how many it took."""
    start, done, calls = time.process_time(), 0, 0
    while (spent := time.process_time() - start) < LEAST:
        done += steps(calls)
        calls += 1
    return done / spent

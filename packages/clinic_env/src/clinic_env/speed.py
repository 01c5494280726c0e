"""Steps a second on one core, of a doctor that acts at random: `python -m clinic_env speed`."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from clinic_env.consultation import question_about
from clinic_env.env import ClinicEnv
from clinic_env.vector import VectorClinic

SIDE_BY_SIDE, ALONE = 1024, 100  # steps of one measured call
LEAST = 1.0  # seconds of processor time for each measurement


def measure() -> Iterator[tuple[str, float]]:
    """What is measured, and its steps a second."""
    rng, vector = np.random.default_rng(0), VectorClinic(SIDE_BY_SIDE)
    acts = [question_about(vector.world, f) for f in range(vector.findings)]
    acts += [f"Final Answer: {label}" for label in "ABCD"]
    numbers = rng.integers(0, len(acts), (64, SIDE_BY_SIDE))
    texts = [[acts[i] for i in row] for row in numbers.tolist()]
    vector.reset(seed=0)
    yield "VectorClinic, numbers", _rate(lambda i: vector.step(numbers[i % 64]), SIDE_BY_SIDE)
    yield "VectorClinic, texts", _rate(lambda i: vector.step_texts(texts[i % 64]), SIDE_BY_SIDE)
    for name, exact in (("ClinicEnv(exact=False)", False), ("ClinicEnv()", True)):
        env = ClinicEnv(exact=exact)
        env.reset(seed=0)
        yield name, _rate(partial(_play, env, texts), ALONE)


def _play(env: ClinicEnv, texts: Sequence[Sequence[str]], call: int) -> None:
    for text in texts[call % len(texts)][:ALONE]:
        if env.step(text)[2]:
            env.reset()


def _rate(play: Callable[[int], object], steps: int) -> float:
    """Steps a second of processor time; `play` gets the number of its call, and takes `steps`."""
    start, calls = time.process_time(), 0
    while (spent := time.process_time() - start) < LEAST:
        play(calls)
        calls += 1
    return calls * steps / spent

"""Steps a second on one core, of a doctor that acts at random: `python -m clinic_env speed`."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from clinic_env.v2.consultations import Consultations
from clinic_env.v2.env import ClinicEnv, question_about
from clinic_env.v2.world import load

SIDE_BY_SIDE, ALONE = 1024, 100  # steps of one measured call
LEAST = 1.0  # seconds of processor time for each measurement


def measure() -> Iterator[tuple[str, float]]:
    """What is measured, and its steps a second."""
    rng, game = np.random.default_rng(0), Consultations(SIDE_BY_SIDE, load())
    findings = game.world.findings
    numbers = rng.integers(0, len(findings) + len(game.world.diseases), (64, SIDE_BY_SIDE))
    acts = [*map(question_about, findings), *(f"Final Answer: {label}" for label in "ABCD")]
    texts = [[acts[i % len(acts)] for i in row] for row in numbers.tolist()]
    yield "numbers, side by side", _rate(lambda i: _turn(game, numbers[i % 64]), SIDE_BY_SIDE)
    for name, exact in (("ClinicEnv(exact=False)", False), ("ClinicEnv()", True)):
        env = ClinicEnv(exact=exact)
        env.reset(seed=0)
        yield name, _rate(partial(_play, env, texts), ALONE)


def _turn(game: Consultations, actions: np.ndarray) -> None:
    game.open(np.nonzero(game.done)[0])
    game.take(actions)


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

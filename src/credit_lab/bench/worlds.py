"""Credits of questions in `clinic-v2`, where the best question is often not the best last one.

No trained policy is asked: a state follows questions at random, candidates are findings at random,
and the scorer is the exact posterior. So what a credit loses here, it loses by its definition.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from clinic_env.v2 import NAMES, CaseValues, ClinicEnv, World
from credit_lab.bench.bundle import each_executed
from credit_lab.bench.score import MEASURES, executed_alone
from turn_credit import CREDITS, Credit, Group
from turn_credit.probes import behaviour
from turn_credit.ranking import Estimate, differing, over_clusters

CASES, CANDIDATES, DRAWS = 250, 4, 8
FEWEST_LEFT = 2  # with one question left there is nothing to plan
READ = {"utilities", "baselines", "expected"}  # what the exact posterior gives a credit
LAST = "*value as the last question*"


@dataclass(frozen=True)
class Choice:
    """Candidates at a state of a world, and what the exact posterior says of them.

    Attributes:
        q_star: float [K], the reward if the best turns follow, the question's price taken off.
        last: float [K], the same if this question is the last one.
        expected: float [K], P(correct option), the mean over options and answers.
        utilities: float [draws, K], P(correct option) after the answer of one patient.
        baselines: float [draws], before it.
    """

    q_star: np.ndarray
    last: np.ndarray
    expected: np.ndarray
    utilities: np.ndarray
    baselines: np.ndarray


def choices(name: str, cases: int = CASES) -> list[Choice]:
    """One state of each of so many training cases of a world."""
    env = ClinicEnv(name, exact=False)
    states = []
    for seed in range(cases):
        env.reset(seed=seed)
        own = env.game.cases
        known = env.values.of(own.options[0], own.complaint[0])
        states.append(_choice(env.world, known, np.random.default_rng(seed)))
    return states


def _choice(world: World, known: CaseValues, rng: np.random.Generator) -> Choice:
    heard = np.zeros((len(world.findings), 2), np.int64)
    asked = int(rng.integers(world.questions - FEWEST_LEFT + 1))
    for finding in rng.permutation(len(heard))[:asked]:
        answer = rng.random() < known.after_each_answer(heard, finding)[1].sum()
        heard[finding, int(answer)] += 1
    open_ = np.flatnonzero(world.fresh | (heard.sum(axis=1) == 0))
    candidates = rng.permutation(open_)[:CANDIDATES]
    joint = np.array([known.after_each_answer(heard, finding) for finding in candidates])
    of_answers = joint.sum(axis=2, keepdims=True)  # [K, 2, 1]
    utilities = joint / of_answers  # [K, 2, options]
    option = rng.choice(joint.shape[2], DRAWS, p=joint[0].sum(axis=0))
    present = (
        rng.random((DRAWS, len(candidates)))
        < (joint[:, 1, option] / joint[:, :, option].sum(axis=1)).T
    )
    return Choice(
        known.ask(heard, world.questions - asked)[candidates],
        known.ask(heard, 1)[candidates],
        (joint * utilities).sum(axis=(1, 2)),
        utilities[np.arange(len(candidates)), present.astype(int), option[:, None]],
        joint[0].sum(axis=0)[option],
    )


def readable(credits: Iterable[Credit]) -> list[Credit]:
    """Those that read nothing but what the exact posterior gives."""
    return [c for c in credits if c.of == "questions" and set(behaviour(c).reads) <= READ]


def groups_of(asked: Sequence[Choice]) -> list[list[Group]]:
    """Of each draw a group at every state; Q* stands in place of continuations, for controls."""
    return [
        [each_executed(c.utilities[draw], c.baselines[draw], c.expected, c.q_star) for c in asked]
        for draw in range(DRAWS)
    ]


def measured(credits: ArrayLike, asked: Sequence[Choice]) -> list[Estimate]:
    """Rank correlation with Q*, and the favourite's regret in points.

    Args:
        credits: float [draws, states, K].
        asked: the states.
    """
    values = np.array([choice.q_star for choice in asked])
    return [
        over_clusters(measure(np.asarray(credits), values).mean(axis=0), np.arange(len(asked)))
        for measure in MEASURES.values()
    ]


def every_world(
    controls: Sequence[Credit], cases: int = CASES
) -> tuple[dict[str, int], dict[str, list[list[Estimate]]]]:
    """World -> states whose candidates differ; and title of a credit -> `measured` in each world.

    Args:
        controls: of questions; they read Q*.
        cases: of each world.
    """
    counts: dict[str, int] = {}
    known: dict[str, list[list[Estimate]]] = defaultdict(list)
    credits = [*readable(CREDITS.values()), *(c for c in controls if c.of == "questions")]
    for name in NAMES:
        asked = [choice for choice in choices(name, cases) if differing(choice.q_star)]
        counts[name], groups = len(asked), groups_of(asked)
        known[LAST].append(measured([[choice.last for choice in asked]], asked))
        for credit in credits:
            drawn = [executed_alone(credit, of_draw) for of_draw in groups]
            known[credit.title].append(measured(drawn, asked))
    return counts, dict(known)

"""Credits of questions in `clinic-v2`, where the best question is often not the best last one.

No trained policy is asked: a state follows questions at random, candidates are findings at random,
and the scorer is the exact posterior. So what a credit loses here, it loses by its definition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinic_env.v2 import NAMES, CaseValues, ClinicEnv, World
from credit_lab.bench.bundle import each_executed
from credit_lab.bench.score import MEASURES, executed_alone
from turn_credit import CREDITS, Credit
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


def readable(credits: Sequence[Credit]) -> list[Credit]:
    """Those that read nothing but what the exact posterior gives."""
    return [c for c in credits if c.of == "questions" and set(behaviour(c).reads) <= READ]


def measured(credit: Credit | None, asked: Sequence[Choice], exact: bool = False) -> list[Estimate]:
    """Rank correlation with Q*, and the favourite's regret in points.

    Args:
        credit: of questions; None for the value as the last question.
        asked: the states.
        exact: feed it Q* in place of continuations' rewards: a control of the bench itself.
    """
    kept = [choice for choice in asked if differing(choice.q_star)]
    values = np.array([choice.q_star for choice in kept])
    if credit is None:
        credits = np.array([[choice.last for choice in kept]])
    else:
        groups = (
            [
                each_executed(
                    choice.utilities[draw],
                    choice.baselines[draw],
                    choice.expected,
                    choice.q_star if exact else None,
                )
                for choice in kept
            ]
            for draw in range(DRAWS)
        )
        credits = np.array([executed_alone(credit, of_draw) for of_draw in groups])
    return [
        over_clusters(measure(credits, values).mean(axis=0), np.arange(len(kept)))
        for measure in MEASURES.values()
    ]


def every_world(
    controls: Sequence[Credit], cases: int = CASES
) -> tuple[dict[str, int], dict[str, list[list[Estimate]]]]:
    """World -> states whose candidates differ; and title of a credit -> `measured` in each world.

    Args:
        controls: credits of questions that are fed Q*.
        cases: of each world.
    """
    asked = {name: choices(name, cases) for name in NAMES}
    every: list[tuple[str, Credit | None, bool]] = [(LAST, None, False)]
    every += [(credit.title, credit, False) for credit in readable(list(CREDITS.values()))]
    every += [(c.title, c, True) for c in controls if c.of == "questions"]
    known = {
        title: [measured(credit, states, exact) for states in asked.values()]
        for title, credit, exact in every
    }
    counts = [rank.count for rank, _ in known[LAST]]
    return dict(zip(NAMES, counts, strict=True)), known

"""Credits in the worlds where planning pays: exact numbers by another path, and the controls."""

import numpy as np
import pytest

from clinic_env.v2 import NAMES, ClinicEnv
from credit_lab.bench.score import executed_alone
from credit_lab.bench.table import CONTROLS, worlds
from credit_lab.bench.worlds import (
    DRAWS,
    FEWEST_LEFT,
    LAST,
    choices,
    every_world,
    groups_of,
    measured,
    readable,
)
from turn_credit import CREDITS
from turn_credit.ranking import differing

CASES = 24


@pytest.fixture(scope="module")
def states():
    return {
        name: [choice for choice in choices(name, CASES) if differing(choice.q_star)]
        for name in NAMES
    }


def test_values_at_an_opening_are_those_that_the_environment_gives_for_words():
    env, seen = ClinicEnv(NAMES[0], exact=False), 0
    for seed, choice in enumerate(choices(NAMES[0], CASES)):
        env.reset(seed=seed)
        if np.random.default_rng(seed).integers(env.world.questions - FEWEST_LEFT + 1):
            continue  # questions came before
        seen += 1
        own = [env.value_of(f"Question: {finding}?") for finding in env.world.findings]
        assert set(np.round(choice.q_star, 12)) <= set(np.round(own, 12))
        assert set(np.round(choice.baselines, 12)) <= set(np.round(env.posterior(), 12))
    assert seen >= 3


def test_utilities_are_drawn_as_expected(states):
    """Over patients the mean utility of a candidate is its expected one."""
    for of_world in states.values():
        drawn = np.array([choice.utilities.mean(axis=0) for choice in of_world])
        expected = np.array([choice.expected for choice in of_world])
        spread = np.array([choice.utilities.std(axis=0) for choice in of_world]).mean()
        error = spread / np.sqrt(drawn.size * DRAWS)
        assert abs((drawn - expected).mean()) < 5 * error


def ranked(credit, of_world):
    """`measured` of a credit at the states of a world."""
    return measured([executed_alone(credit, groups) for groups in groups_of(of_world)], of_world)


def test_controls_rank_as_they_must(states):
    exact = {control.name: control for control in CONTROLS}
    for of_world in states.values():
        rank, regret = ranked(exact["q_star"], of_world)
        assert rank.mean == pytest.approx(1)
        assert regret.mean == pytest.approx(0)
        assert ranked(exact["negated"], of_world)[0].mean == pytest.approx(-1)
        rank, _ = ranked(exact["at_random"], of_world)
        assert rank.low < 0.1


def test_what_pays_only_together_has_less_credit_than_what_pays_alone(states):
    """The page's first finding, of credits and of the value as the last question."""
    together, budget = (states[f"clinic-v2-{name}"] for name in ("together", "budget"))
    for credit in (CREDITS["pcqc"], CREDITS["expected_answer"]):
        assert ranked(credit, together)[0].high < ranked(credit, budget)[0].low
    last = [measured([[c.last for c in world]], world)[0] for world in (together, budget)]
    assert last[0].high < last[1].low


def test_the_table_has_the_credits_that_need_no_continuation():
    titles = [credit.title for credit in readable(CREDITS.values())]
    assert {"PCQC", "Executed-local", "Same-State-Q1", "Expected answer"} == set(titles)
    counts, known = every_world(CONTROLS, 3)
    assert list(counts) == list(NAMES)
    assert list(known) == [LAST, *titles, *(c.title for c in CONTROLS if c.of == "questions")]
    assert len(worlds(3).splitlines()) == 2 + len(known)

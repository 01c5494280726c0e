"""Credits in the worlds where planning pays: exact numbers by another path, and the controls."""

import numpy as np
import pytest

from clinic_env.v2 import NAMES, ClinicEnv
from credit_lab.bench.table import CONTROLS, worlds
from credit_lab.bench.worlds import FEWEST_LEFT, LAST, choices, every_world, measured, readable
from turn_credit import CREDITS

CASES = 24


@pytest.fixture(scope="module")
def states():
    return {name: choices(name, CASES) for name in NAMES}


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
        error = spread / np.sqrt(drawn.size * 8)
        assert abs((drawn - expected).mean()) < 5 * error


def test_controls_rank_as_they_must(states):
    exact = {control.name: control for control in CONTROLS}
    for of_world in states.values():
        rank, regret = measured(exact["q_star"], of_world, exact=True)
        assert rank.mean == pytest.approx(1)
        assert regret.mean == pytest.approx(0)
        assert measured(exact["negated"], of_world, exact=True)[0].mean == pytest.approx(-1)
        rank, _ = measured(exact["at_random"], of_world, exact=True)
        assert rank.low < 0.1


def test_what_pays_only_together_has_less_credit_than_what_pays_alone(states):
    """The page's first finding."""
    for credit in (CREDITS["pcqc"], CREDITS["expected_answer"], None):
        together, budget = (
            measured(credit, states[f"clinic-v2-{name}"])[0] for name in ("together", "budget")
        )
        assert together.high < budget.low


def test_the_table_has_the_credits_that_need_no_continuation():
    titles = [credit.title for credit in readable(list(CREDITS.values()))]
    assert {"PCQC", "Executed-local", "Same-State-Q1", "Expected answer"} == set(titles)
    counts, known = every_world(CONTROLS, 3)
    assert list(counts) == list(NAMES)
    assert list(known) == [LAST, *titles, *(c.title for c in CONTROLS if c.of == "questions")]
    assert len(worlds(3).splitlines()) == 2 + len(known)

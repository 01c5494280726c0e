"""The map: the design, gradients and cost of credit, quantities by hand, learning."""

import dataclasses

import numpy as np
import pytest
from finite_differences import slopes
from scipy.special import softmax

from clinic_env.posterior import posterior
from clinic_env.world import COMPLAINTS, FINDINGS, LABELS, QUESTION, World, state_complaint
from credit_lab.map.policy import see, untrained
from credit_lab.map.quantities import (
    QUANTITIES,
    Groups,
    of_cell,
    quantities,
    read_quantities,
    write_quantities,
)
from credit_lab.map.rollouts import Rollouts, roll_out
from credit_lab.map.settings import (
    CELLS,
    FILE,
    LOCAL,
    METHODS,
    PCQC,
    TERMINAL,
    Axis,
    Cell,
    load_map,
)
from credit_lab.map.simulated import SimulatedClinic
from credit_lab.map.training import (
    full_cost,
    gain_of_the_highest,
    method_gradient,
    question_gradient,
    standardised,
    terminal_gradient,
    train,
    train_block,
)
from credit_lab.parts import Parts
from pcqc.cases.case import Case
from pcqc.errors import UserError
from pcqc.system.seeds import generator
from turn_credit.arithmetic import executed_local_credit, same_state_credit

MAP = load_map()
SMALL = Cell(0.1, 2, 2, 0.2, 0.1, question_group=3, terminal_group=4)


def small_map(**training):
    given = {"updates": 5, "evaluated": 100, **training}
    return dataclasses.replace(MAP, runs=2, training=dataclasses.replace(MAP.training, **given))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  turns: {", "  truns: {", r"axes\.truns: no setting of a cell; did you mean 'turns'"),
        ("[0.02, 0.25]", "[0.02, 0.7]", r":\d+: axes\.noise: must be less than 0\.5"),
        ("among: [1, 2,", "between: [1.0, 2.0], among: [1, 2,", r"turns: must have one of"),
        ("options: {among: [2,", "options: {among: [1,", r"axes\.options: must be greater than"),
        ("block: 8 ", "block: 7 ", r"block: must divide `half` and `cells`"),
    ],
)
def test_wrong_settings_of_the_map_are_named(tmp_path, old, new, message):
    text, path = FILE.read_text(), tmp_path / "map.yaml"
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message):
        load_map(path)


def test_values_lie_on_their_axis_by_hand():
    assert Axis(between=(1.0, 3.0)).at(0.25) == 1.5
    assert Axis(by_factors=(0.25, 4.0)).at(0.5) == 1.0
    assert [Axis(among=(2, 4, 8)).at(u) for u in (0.0, 0.34, 0.99)] == [2, 4, 8]


def test_every_block_fills_the_space_and_the_first_cells_stay_when_more_are_added():
    names = [list(cells) for cells in MAP.blocks.values()]
    assert all(len({name.partition("-")[0] for name in block}) == 1 for block in names)
    for block in MAP.blocks.values():  # eight Sobol points have four in each half of every axis
        betas = [cell.beta for cell in block.values()]
        assert sum(beta < 1 for beta in betas) == len(betas) // 2
    twice = dataclasses.replace(MAP, cells=2 * MAP.cells)
    assert list(twice.design.items())[: MAP.cells] == list(MAP.design.items())


def as_case(cell: Cell) -> tuple[World, Case]:
    """A world like the cell, and a case whose first half of options is likelier."""
    names = FINDINGS[: cell.findings]
    signs = np.where(np.eye(len(names), dtype=bool), 1 - cell.heard, cell.heard)
    prior = SimulatedClinic(cell).complained
    weights = [(float(prior[d]),) if d < cell.options else (1.0,) for d in range(len(names))]
    rows, rates = tuple(tuple(map(float, row)) for row in signs), (1 / len(names),) * len(names)
    world = World(names, names, rows, COMPLAINTS[:1], tuple(weights), rates)
    options = dict(zip(LABELS, names[: cell.options], strict=False))
    opening = state_complaint(COMPLAINTS[0], "plain")
    return world, Case("map-0", "clinic", opening, QUESTION, options, (), LABELS[0])


def test_the_simulated_posterior_is_the_clinics():
    cell = Cell(0.15, 3, 4, 0.0, 0.1)
    world, case = as_case(cell)
    clinic = SimulatedClinic(cell)
    weight, asked = np.log(clinic.complained)[None], np.zeros((1, cell.findings), bool)
    for finding, heard in ((1, True), (5, True), (1, False), (3, False)):
        each = np.array([finding]), np.array([heard]), np.array([True])
        weight, asked = clinic.learn(weight, asked, *each)
    # Finding 1's second answer was not learnt, as no repeated question's is.
    expected = posterior(world, case, {1: True, 5: True, 3: False})
    assert softmax(weight, axis=-1)[0] == pytest.approx(expected, rel=1e-5)


def sampled(group: int, candidates: int) -> tuple[Parts, Rollouts]:
    rng = generator(3, "policy")
    start = untrained(SMALL, 2, 0.3)
    policy = Parts(*(part + 0.5 * rng.standard_normal(part.shape) for part in start))
    clinic = SimulatedClinic(SMALL)
    return policy, roll_out(clinic, policy, clinic.draw(rng, 2, 20), group, candidates, rng)


def log_probability(policy: Parts, batch: Rollouts, credit: np.ndarray) -> float:
    """Sum of credit times log P of what was chosen in run 0, recomputed from features alone."""
    total = 0.0
    for turn in batch.turns:
        seen = turn.seen
        logit = (seen.choice @ policy.choice.swapaxes(1, 2))[..., 0]
        ask = -np.log1p(np.exp(logit))
        question = np.log(softmax(seen.question @ policy.question.swapaxes(1, 2), axis=-1))
        answer = np.log(softmax(seen.answer @ policy.answer.swapaxes(1, 2), axis=-1))
        for m in np.flatnonzero(turn.here[0]):
            ended = turn.answers[0, m]
            own = answer[0, m, turn.named[0, m]] if ended else question[0, m, turn.finding[0, m]]
            own += turn.chosen * (ask[0, m] + ended * logit[0, m])
            total += credit[0, m] * own
    return total


def test_the_terminal_gradient_is_that_of_finite_differences():
    policy, batch = sampled(4, 1)
    rewards = batch.reward.reshape(2, -1, 4)
    spread = rewards.std(axis=-1, ddof=1, keepdims=True)
    credit = np.where(spread > 0, (rewards - rewards.mean(-1, keepdims=True)) / (spread + 1e-6), 0)
    credit = credit.reshape(2, -1)
    tokens = sum((2 if turn.chosen else 1) * turn.here[0].sum() for turn in batch.turns)
    for part, gradient in zip(policy, terminal_gradient(policy, batch, 4), strict=True):
        measured = slopes(part[0], lambda: log_probability(policy, batch, credit)) / tokens
        assert gradient[0] == pytest.approx(measured, abs=1e-6)


def test_question_credit_leaves_choice_and_answers_alone():
    policy, batch = sampled(4, 3)
    alone = question_gradient(policy, batch, 4, PCQC)
    assert np.abs(alone.question).max() > 1e-3
    assert not alone.choice.any()
    assert not alone.answer.any()
    cell = dataclasses.replace(SMALL, beta=0.5)
    whole, terminal = (method_gradient(policy, batch, n, cell) for n in (PCQC, TERMINAL))
    assert whole.question - terminal.question == pytest.approx(0.5 * alone.question, abs=1e-7)


@pytest.mark.parametrize("name", [PCQC, LOCAL])
def test_the_question_gradient_is_the_papers_credit_on_question_tokens(name):
    """Of a single run, added up state by state with the credit of `turn_credit`."""
    policy, batch = sampled(4, 3)
    turns = [(turn, turn.candidates) for turn in batch.turns if turn.candidates]
    places = [
        (t, case) for t, (_, c) in enumerate(turns) for case in np.flatnonzero(c.supervised[0])
    ]
    gains = [turns[t][1].utility[0, c, 0] - turns[t][1].before[0, c] for t, c in places]
    local = executed_local_credit(gains)
    total, tokens = np.zeros_like(policy.question[0]), 0
    for number, (t, case) in enumerate(places):
        turn, compared = turns[t]
        credit = same_state_credit(compared.utility[0, case])
        for k in range(3 if name == PCQC else 1):
            if compared.asks[0, case, k]:
                chosen = np.arange(SMALL.findings) == compared.finding[0, case, k]
                error = chosen - turn.seen.questions[0, 4 * case]
                size = credit[k] if name == PCQC else local[number]
                total += size * np.outer(error, turn.seen.question[0, 4 * case])
                tokens += 1
    own = question_gradient(policy, batch, 4, name).question[0]
    assert own == pytest.approx(total / tokens, abs=1e-5)


def test_credit_of_values_that_count_alone_by_hand():
    """Of 1, 3 and 5 the mean is 3 and the deviation 2; what does not count gets none."""
    values, of = np.array([[1.0, 9.0, 3.0, 5.0]]), np.array([[True, False, True, True]])
    assert standardised(values, of) == pytest.approx(np.array([[-1, 0, 0, 1]]), abs=1e-5)
    assert not standardised(np.full((1, 4), 0.5), np.ones((1, 4), bool)).any()


@pytest.mark.parametrize(("name", "cost"), [(TERMINAL, 4 * 5), (PCQC, 4 * 5 + 2 * 11)])
def test_the_cost_of_consultations_that_ask_to_the_end_by_hand(name, cost):
    """Four consultations of two turns: 5 responses and answers each; a state of four candidates has
    3 more responses, 3 more answers and 5 readings."""
    cell = dataclasses.replace(SMALL, question_group=4)
    clinic, rng = SimulatedClinic(cell), generator(3, "draws")
    never, candidates = untrained(cell, 2, 1e-12), cell.candidates(name)
    batch = roll_out(clinic, never, clinic.draw(rng, 2, 7), 4, candidates, rng)
    assert full_cost(cell.turns, 4, candidates) == cost
    assert (batch.cost == 7 * cost).all()


def test_half_the_states_get_candidates_where_half_are_covered():
    """1,000 states: five standard deviations are 80."""
    cell = dataclasses.replace(SMALL, coverage=0.5, turns=1)
    clinic, rng = SimulatedClinic(cell), generator(3, "draws")
    policy = untrained(cell, 1, 1e-12)
    batch = roll_out(clinic, policy, clinic.draw(rng, 1, 1000), 2, 3, rng)
    assert batch.turns[0].candidates.supervised.sum() == pytest.approx(500, abs=80)


def test_the_quantities_by_hand():
    """Four cases of two consultations, three states; the first consultations have 1, 0, 1, 0.

    Utilities 0.9, 0.3, 0.6 of the three that asked have ranks 3, 1, 2, rewards 1, 0, 1 have ranks
    2.5, 1, 2.5: their correlation is 1.5 / (2 * 1.5) ** 0.5. GRPO: 8 * (2 * 2 + 1) = 40; PCQC:
    2 * 5 + 2 * 0.5 * (3 * 4 - 1) = 21.
    """
    rewards = np.array([[1, 1], [0, 0], [1, 0], [0, 0]], float)
    groups = Groups(rewards, np.array([0.2, 0.0, 0.1]), np.array([0.9, 0.3, 0.6, np.nan]), 2.0)
    sizes = {"grpo_group": 8, "terminal_group": 2, "question_group": 4}
    measured = quantities(groups, **sizes, coverage=0.5, beta=0.5)
    assert list(measured) == list(QUANTITIES)
    expected = {
        "spread": 0.1,
        "flat": 1 / 3,
        "agreement": 3**0.5 / 2,
        "silent": 0.75,
        "accuracy": 3 / 8,
        "turns": 2.0,
        "price": np.log2(40 / 21),
        "question_group": 2.0,
        "coverage": 0.5,
        "beta": -1.0,
    }
    assert measured == pytest.approx(expected)


def test_the_quantities_of_every_cell_are_those_that_were_committed(tmp_path):
    written, design = read_quantities(CELLS), MAP.design
    assert list(written) == list(design)
    name, cell = next(iter(design.items()))
    write_quantities(tmp_path / "cells.csv", {name: of_cell(MAP, cell)}, {name: cell})
    assert read_quantities(tmp_path / "cells.csv")[name] == pytest.approx(written[name], abs=2e-3)
    fresh, committed = (path.read_text().splitlines() for path in (tmp_path / "cells.csv", CELLS))
    assert fresh[0] == committed[0]
    assert fresh[1].split(",")[:11] == committed[1].split(",")[:11]


@pytest.mark.parametrize("name", METHODS)
def test_training_improves_the_policy_within_its_budget(name):
    cell = Cell(0.1, 2, 3, terminal_group=4, question_group=4)
    short, long = (small_map(updates=updates, learning_rate=0.08) for updates in (1, 30))
    before, after = (train(settings, cell, name) for settings in (short, long))
    assert (after["accuracy"] > before["accuracy"] + 5).all()
    assert (after["accuracy"] <= after["bayes"] + 1e-3).all()  # by the posterior, both
    # No update costs more than a full one, so that the budget is exceeded by less than that.
    full = full_cost(2, cell.consultations(name), cell.candidates(name))
    assert (after["updates"] >= 30 * full_cost(2, 4, 4) / full).all()


def test_following_the_highest_utility_pays_nothing_where_answers_say_nothing():
    """A patient who answers by chance: no question moves the posterior."""
    settings = small_map(evaluated=50)
    for error, least, most in ((0.5, 0.0, 0.0), (0.0, 5.0, 50.0)):
        cell = Cell(0.05, 1, 4, patient_error=error)
        gain = gain_of_the_highest(settings, SimulatedClinic(cell), untrained(cell, 2, 0.2))
        assert (gain >= least - 1e-4).all()
        assert (gain <= most + 1e-4).all()


def test_a_block_is_the_same_bytes_again(tmp_path):
    settings = dataclasses.replace(small_map(updates=1), cells=2, block=2, half=2)
    for name in ("one", "other"):
        train_block(settings, "fitting-000", tmp_path / name)
    one, other = ((tmp_path / name / "cells.json").read_bytes() for name in ("one", "other"))
    assert one == other


def test_a_repeated_question_says_nothing_to_the_scorer():
    clinic = SimulatedClinic(SMALL)
    patients = clinic.draw(generator(1, "p"), 1, 3)
    weight, asked = clinic.opening(patients)
    before = np.take_along_axis(softmax(weight, axis=-1), patients.option[..., None], -1)
    asked[..., 0] = True
    again = np.zeros((1, 3, 1), int)
    read = np.ones((1, 3, 1), bool)
    assert clinic.utility(weight, asked, patients, again, read) == pytest.approx(before)
    assert see(untrained(SMALL, 1, 0.2), weight, asked, 0.0).answering == pytest.approx(0.2)

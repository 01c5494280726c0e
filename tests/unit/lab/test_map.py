"""The map: exact values by hand, gradients of credit, predictions of every cell, learning."""

import dataclasses

import numpy as np
import pytest

from clinic_env.posterior import posterior
from credit_lab.map.exact import as_case, best_over_average, fidelity, headroom, predict
from credit_lab.map.job import read_predictions, train_cell, write_predictions
from credit_lab.map.policy import see, untrained
from credit_lab.map.rollouts import Rollouts, Streams, roll_out
from credit_lab.map.settings import FILE, Cell, load_map
from credit_lab.map.simulated import SimulatedClinic
from credit_lab.map.training import (
    budgets,
    full_cost,
    method_gradient,
    question_gradient,
    terminal_gradient,
    train,
)
from credit_lab.parts import Parts, softmax
from pcqc.errors import UserError
from pcqc.study import load_study
from pcqc.system.seeds import generator

MAP = load_map()
METHODS = load_study("paper").methods
ONE_QUESTION = Cell(0.1, 1, 2, 4, 0.0, 0.0)
SMALL = Cell(0.1, 2, 2, 3, 0.2, 0.1)


def small_map(**training) -> object:
    given = {"budgets": (5, 10), "budget": 10, "evaluated": 200, **training}
    return dataclasses.replace(MAP, runs=2, training=dataclasses.replace(MAP.training, **given))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  turns: [2, 4, 6]", "  turns: [2, 4]\n  options: [2]", r"grid: must have two settings"),
        ("  options: [2, 8]", "  optoins: [2, 8]", r"axes\.optoins: no setting of a cell; did you"),
        ("[0.02, 0.1, 0.2, 0.3]", "[0.02, 0.7]", r":\d+: grid\.noise: must be less than 0\.5"),
        ("  options: [2, 8]", "  options: [2, 2.5]", r"axes\.options: must be a valid integer"),
        ("budget: 200", "budget: 300", r"training\.budget: must be one of training\.budgets"),
        ("methods: [grpo,", "methods: [grop,", r"methods: no method 'grop'; did you mean 'grpo'"),
        ("methods: [grpo,", "methods: [executed_local,", r"cannot train 'executed_local'; remove"),
        ("methods: [grpo,", "methods: [igpo,", r"cannot train 'igpo'; remove"),
        ("methods: [grpo, ", "methods: [", r"own_rates: must name the methods, no more: 'grpo'"),
    ],
)
def test_wrong_settings_of_the_map_are_named(tmp_path, old, new, message):
    text, path = FILE.read_text(), tmp_path / "map.yaml"
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message):
        load_map(path)


def test_a_best_over_an_average_question_by_hand():
    """Prior 3/4 and 1/4. Either sign: right in 0.9; a finding that says nothing: in 0.75.

    Two of four findings are signs: the average question gives (0.9 + 0.75) / 2 = 0.825.
    """
    assert best_over_average(ONE_QUESTION) == pytest.approx(7.5)
    assert headroom(ONE_QUESTION) == pytest.approx(7.5)
    # A patient who errs is more noise: 0.1 * 0.8 + 0.9 * 0.2 = 0.26 is more than the prior's 1/4.
    assert best_over_average(Cell(0.1, 1, 2, 4, 0.0, 0.2)) == pytest.approx(0)


@pytest.mark.parametrize(("error", "expected"), [(0.0, 0.8), (0.3, 0.32), (0.5, 0.0)])
def test_the_fidelity_of_credit_by_hand(error, expected):
    """A sign beats a finding that says nothing where its answer is read rightly.

    That is missed with 0.1 (1 - e) + 0.9 e, so that the fidelity is 1 less twice that. 40,000
    states, two thirds of which compare a sign with such a finding: 4 standard errors are 0.025.
    """
    cell = dataclasses.replace(ONE_QUESTION, scorer_error=error)
    assert fidelity(cell, 40_000, generator(1, "test")) == pytest.approx(expected, abs=0.025)


def test_the_simulated_posterior_is_the_clinics():
    cell = Cell(0.15, 3, 4, 4, 0.0, 0.1)
    world, case = as_case(cell)
    clinic = SimulatedClinic(cell)
    weight, asked = np.log(clinic.complained)[None], np.zeros((1, cell.findings), bool)
    for finding, heard in ((1, True), (5, True), (1, False), (3, False)):
        each = np.array([finding]), np.array([heard]), np.array([True])
        weight, asked = clinic.learn(weight, asked, *each)
    # Finding 1's second answer was not learnt, as no repeated question's is.
    expected = posterior(world, case, {1: True, 5: True, 3: False})
    assert softmax(weight)[0] == pytest.approx(expected)


def sampled(group: int, candidates: int) -> tuple[Parts, Rollouts]:
    rng = generator(3, "policy")
    start = untrained(SMALL, 2, 0.3)
    policy = Parts(*(part + 0.5 * rng.standard_normal(part.shape) for part in start))
    clinic, draws = SimulatedClinic(SMALL), Streams(3, 2, "draws")
    return policy, roll_out(clinic, policy, draws.patients(clinic, 20), group, candidates, draws)


def log_probability(policy: Parts, batch: Rollouts, credit: np.ndarray) -> float:
    """Sum of credit times log P of what was chosen in run 0, recomputed from features alone."""
    total = 0.0
    for turn in batch.turns:
        seen = turn.seen
        logit = (seen.choice @ policy.choice.swapaxes(1, 2))[..., 0]
        ask = -np.log1p(np.exp(logit))
        question = np.log(softmax(seen.question @ policy.question.swapaxes(1, 2)))
        answer = np.log(softmax(seen.answer @ policy.answer.swapaxes(1, 2)))
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
    found, step = terminal_gradient(policy, batch, 4), 1e-5
    for part, gradient in zip(policy, found, strict=True):
        for place in np.ndindex(part[0].shape):
            kept, sides = part[0][place], []
            for moved in (kept + step, kept - step):
                part[0][place] = moved
                sides.append(log_probability(policy, batch, credit))
            part[0][place] = kept
            slope = (sides[0] - sides[1]) / (2 * step * tokens)
            assert gradient[0][place] == pytest.approx(slope, abs=1e-7)


def test_question_credit_leaves_choice_and_answers_alone():
    policy, batch = sampled(4, 3)
    alone = question_gradient(policy, batch, 4)
    assert np.abs(alone.question).max() > 1e-3
    assert not alone.choice.any()
    assert not alone.answer.any()
    whole, terminal = (
        method_gradient(policy, batch, METHODS[n]) for n in ("pcqc", "terminal_only")
    )
    assert whole.question - terminal.question == pytest.approx(alone.question)


@pytest.mark.parametrize(("name", "cost"), [("terminal_only", 4 * 5), ("pcqc", 4 * 5 + 2 * 11)])
def test_the_cost_of_consultations_that_ask_to_the_end_by_hand(name, cost):
    """Four consultations of two turns: 5 responses and answers each; a state of four candidates has
    3 more responses, 3 more answers and 5 readings."""
    method, cell = METHODS[name], dataclasses.replace(SMALL, question_group=4)
    clinic, draws = SimulatedClinic(cell), Streams(3, 2, "draws")
    never = untrained(cell, 2, 1e-12)
    candidates = getattr(method, "question_group", 1)
    cases = draws.patients(clinic, 7)
    batch = roll_out(clinic, never, cases, method.terminal_group, candidates, draws)
    assert full_cost(cell.turns, 7, method) == 7 * cost
    assert (batch.cost == 7 * cost).all()


def test_a_prediction_is_there_for_every_cell_and_is_the_rules(tmp_path):
    written = read_predictions()
    assert list(written) == list(MAP.cells)
    assert len(written) >= 12
    fresh = tmp_path / "predictions.csv"
    few = {"options": [2], "scorer_error": [0.3]}
    write_predictions(dataclasses.replace(MAP, axes=few), fresh)
    for name, row in read_predictions(fresh).items():
        assert row == written[name]


def test_the_rule_has_thresholds():
    """Two options, as many turns as findings: best and random questions end alike."""
    found = predict(MAP, "options-2")
    assert found.headroom == pytest.approx(0)
    assert found.predicted == found.predicted_scaled == "none"
    assert predict(MAP, "noise-0.02_turns-2").predicted == "ahead"


@pytest.mark.parametrize("name", ["grpo", "terminal_only", "pcqc"])
def test_training_improves_the_policy_within_its_budgets(name):
    settings = small_map(budgets=(20, 60), budget=60)
    cell = Cell(0.1, 2, 3, 4, 0.0, 0.0)
    costs = budgets(settings, cell)
    found = train(settings, cell, name, 0.08)
    accuracy, updates = found["accuracy"], found["updates"]
    assert (accuracy[-1] > accuracy[0] + 5).all()
    assert (accuracy <= found["bayes"] + 1e-9).all()
    assert (updates[1] < updates[2]).all()
    # No update costs more than a full one, so that the budget is exceeded by less than that.
    most = full_cost(cell.turns, settings.training.cases, METHODS[name])
    assert (updates[-1] >= costs[-1] / most).all()


def test_a_cell_is_the_same_bytes_again(tmp_path):
    settings = small_map()
    for name in ("one", "other"):
        train_cell(settings, "options-2", tmp_path / name)
    one, other = ((tmp_path / name / "cell.json").read_bytes() for name in ("one", "other"))
    assert one == other


def test_a_repeated_question_says_nothing_to_the_scorer():
    clinic = SimulatedClinic(SMALL)
    patients = Streams(1, 1, "p").patients(clinic, 3)
    weight, asked = clinic.opening(patients)
    before = np.take_along_axis(softmax(weight), patients.option[..., None], -1)
    asked[..., 0] = True
    again = np.zeros((1, 3, 1), int)
    read = np.ones((1, 3, 1), bool)
    assert clinic.utility(weight, asked, patients, again, read) == pytest.approx(before)
    assert see(untrained(SMALL, 1, 0.2), weight, asked, 0.0).answering == pytest.approx(0.2)

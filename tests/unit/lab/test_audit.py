"""The audit: the tiny clinic is exact, and expected gradients are what sampling gives."""

import numpy as np
import pytest
from finite_differences import slopes, together

from credit_lab.audit.enumerable_clinic import (
    ANSWER,
    ASK,
    CLINIC,
    TabularPolicy,
    TinyClinic,
    diagnostician,
    exact_gradient,
    policies,
    questions,
    random_policy,
    reward,
    visited,
)
from credit_lab.audit.gradients import compare, cosine, question_gradient, terminal_gradient
from credit_lab.audit.turn_credits import across_update, group_credits, shifts_of
from credit_lab.bench.table import reinforce
from credit_lab.two_token_policies import Parts
from turn_credit import CREDITS, Credit, ProcessGroup, credit_update

REINFORCE = Credit("reinforce", "REINFORCE", "turns", "group", reinforce)
RANDOM = random_policy(CLINIC, 5)


def expected(policy, amount) -> float:
    return sum(
        patient.probability * policy.course_probability(patient, course) * amount(patient, course)
        for patient in CLINIC.patients
        for course in CLINIC.courses
    )


@pytest.mark.parametrize("amount", [reward, questions])
def test_the_exact_gradient_is_that_of_finite_differences(amount):
    policy = random_policy(CLINIC, 5)
    gradient = together(exact_gradient(policy, amount))

    def moved():
        return expected(TabularPolicy(CLINIC, policy.logits), amount)

    measured = together(Parts(*(slopes(logits, moved) for logits in policy.logits)))
    assert np.abs(gradient).max() > 0.01
    assert gradient == pytest.approx(measured, abs=1e-8)


def test_patients_and_courses_are_all_there_are():
    assert sum(p.probability for p in CLINIC.patients) == pytest.approx(1)
    for patient in CLINIC.patients:
        shares = [RANDOM.course_probability(patient, course) for course in CLINIC.courses]
        assert sum(shares) == pytest.approx(1)
        assert RANDOM.value(patient, ()) == pytest.approx(
            np.dot(shares, [reward(patient, course) for course in CLINIC.courses])
        )


def test_the_posterior_is_bayes_and_a_repeat_says_nothing():
    # P(sign 0 absent | option) = 0.1, 0.9, 0.9 beside the prior 0.4, 0.35, 0.25.
    weight = np.array([0.04, 0.315, 0.225])
    for state in (((0, False),), ((0, False), (0, False))):
        assert CLINIC.posterior(state) == pytest.approx(weight / weight.sum())


@pytest.mark.parametrize("group", [2, 3])
def test_leave_one_out_rewards_give_the_exact_gradient(group):
    """Its only difference is the division by the expected number of tokens."""
    exact = together(exact_gradient(RANDOM))
    credits = group_credits(RANDOM, REINFORCE, group, None)
    gradient = together(terminal_gradient(RANDOM, credits))
    pairs = [(p, c) for p in CLINIC.patients for c in CLINIC.courses]
    tokens = sum(2 * len(c) * p.probability * RANDOM.course_probability(p, c) for p, c in pairs)
    assert gradient == pytest.approx(exact / tokens, abs=1e-12)


def test_vineppo_with_exact_values_points_where_the_exact_gradient_points():
    gradient = terminal_gradient(RANDOM, across_update(RANDOM, "vineppo"))
    assert cosine(together(gradient), together(exact_gradient(RANDOM))) == pytest.approx(
        1, abs=1e-9
    )


# With two findings, the question part of a state has one direction: a cosine is only a sign.
THREE = TinyClinic(CLINIC.prior, np.array([[0.9, 0.1, 0.1], [0.2, 0.7, 0.2], [0.3, 0.3, 0.6]]))


def test_c3_compares_the_questions_of_every_state_as_the_exact_gradient_does():
    """Its weights of states differ: a state has more candidates where the policy asks more."""
    policy = random_policy(THREE, 5)
    gradient = question_gradient(policy, CREDITS["c3"], False).question
    exact = exact_gradient(policy).question
    asked = [row for row in range(len(exact)) if np.abs(exact[row]).max() > 1e-9]
    assert len(asked) == 7  # with an answer to come: the opening, and after one question
    for row in asked:
        assert cosine(gradient[row], exact[row]) == pytest.approx(1, abs=1e-9)
    assert 0.9 < cosine(gradient, exact) < 1 - 1e-6
    # Equal chances of asking in all states: equal weights.
    policy = diagnostician(THREE)
    gradient, exact = question_gradient(policy, CREDITS["c3"], False), exact_gradient(policy)
    assert cosine(gradient.question, exact.question) == pytest.approx(1, abs=1e-9)


def test_a_shift_compares_the_next_act_with_and_without_the_answer():
    """Bayes' diagnosis after the first sign: present 36 / 42, before it 0.4; both stop as often."""
    patient = next(p for p in CLINIC.patients if p.option == 0 and p.findings[0])
    shifts = shifts_of(diagnostician(CLINIC), patient, ((ASK, 0), (ANSWER, 0)))
    assert shifts == pytest.approx([np.log(36 / 42 / 0.4) / 2, 0])


@pytest.mark.parametrize(
    ("name", "reader"),
    [("igpo", RANDOM), ("tips", None), ("gigpo", None), ("mt_grpo", None), ("infopo", None)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_turn_credits_are_those_of_sampled_groups(name, reader):
    """Mean credit of each kind of course against the mean over sampled groups of two."""
    patient = CLINIC.patients[0]
    shares = [RANDOM.course_probability(patient, course) for course in CLINIC.courses]
    rng = np.random.default_rng(1)
    exact = group_credits(RANDOM, name, 2, reader, name == "infopo")
    differences = []
    for drawn in rng.choice(len(shares), (4000, 2), p=shares):
        row = [CLINIC.courses[i] for i in drawn]
        beliefs = [_beliefs(reader, patient, course) for course in row]
        states = [[frozenset(state) for state in visited(patient, course)] for course in row]
        rewards = np.array([reward(patient, course) for course in row])
        shifts = [shifts_of(RANDOM, patient, course) for course in row]
        group = ProcessGroup(rewards, states=states, beliefs=beliefs, shifts=shifts)
        [credited] = credit_update(name, [group])
        difference = np.zeros(CLINIC.turns)
        difference[: len(row[0])] = credited[0] - exact[patient, row[0]]
        differences.append(difference)
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0) / np.sqrt(4000)
    assert (error > 0).all()
    assert (np.abs(mean) < 4 * error).all()


def _beliefs(reader, patient, course) -> np.ndarray:
    """Of the correct option before every turn, by a policy or by the exact posterior."""
    states = visited(patient, course)
    if reader:
        rows = [reader.probabilities.answer[CLINIC.states[state]] for state in states]
    else:
        rows = [CLINIC.posterior(state) for state in states]
    return np.array(rows)[:, patient.option]


@pytest.mark.slow
def test_a_credit_is_compared_at_every_policy():
    besides = compare(REINFORCE, {"rewards"}, "scorer", False)
    assert list(besides) == list(policies(CLINIC))
    for name, beside in besides.items():
        assert (beside.choice, beside.asking) == pytest.approx((1, 0), abs=1e-9)
        # A doctor that does not listen has no question part to compare with.
        assert np.isnan(beside.question) == np.isnan(beside.norm) == (name == "uniform")
        assert name == "uniform" or beside.question == pytest.approx(1, abs=1e-9)
    asked = compare(CREDITS["pcqc"], {"utilities"}, "scorer", False)
    assert all(np.isnan(beside.choice) for beside in asked.values())


# A claim of CreditBench's page that its tables do not show.


@pytest.mark.parametrize(
    ("seed", "drawn", "prepared"),
    [(3, -1.0, 0.98), (4, 0.91, 0.97), (7, 0.24, 0.89), (18, -0.96, 0.99)],
)
def test_pcqc_agrees_where_the_doctor_uses_answers_and_goes_on_evenly(seed, drawn, prepared):
    """Of the random policies 1 to 20 these have the least and the largest cosines."""
    zero, own = CLINIC.zeros(), random_policy(CLINIC, seed).logits
    asking = Parts(zero.choice, own.question, diagnostician(CLINIC).logits.answer)
    for logits, expected in ((own, drawn), (asking, prepared)):
        policy = TabularPolicy(CLINIC, logits)
        credited = question_gradient(policy, CREDITS["pcqc"], False).question
        agreed = cosine(credited, exact_gradient(policy).question)
        assert agreed == pytest.approx(expected, abs=0.005)

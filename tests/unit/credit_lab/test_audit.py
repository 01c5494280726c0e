"""The audit: the tiny clinic is exact, and expected gradients are what sampling gives."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch

from credit_lab.audit.gradients import method_gradient, question_gradient, terminal_gradient
from credit_lab.audit.table import (
    ALONE,
    REFERENCE,
    audit,
    cosine,
    diagnostician,
    random_policy,
    write_audit,
)
from credit_lab.audit.tabular import (
    ANSWER,
    ASK,
    CLINIC,
    TabularPolicy,
    TinyClinic,
    content_of,
    exact_gradient,
    questions,
    reward,
    visited,
)
from credit_lab.audit.turn_credits import reference_credits, turn_credits
from credit_lab.parts import Parts
from pcqc.cases.case import Case
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER, Exchange
from pcqc.consultation import Consultation, Turn
from pcqc.consultation.turns import read_response
from pcqc.engines.base import Completion
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.study import load_study
from pcqc.training.policy_loss import Clip, clipped_policy_loss
from pcqc.training.sequences import token_counts
from turn_credit import Group, credit_update
from turn_credit.arithmetic import terminal_advantages

METHODS = load_study("paper").methods
RANDOM = random_policy(CLINIC, 5)


def together(table: Parts) -> np.ndarray:
    return np.concatenate([part.ravel() for part in table])


def expected(policy, amount) -> float:
    return sum(
        patient.probability * policy.course_probability(patient, course) * amount(patient, course)
        for patient in CLINIC.patients
        for course in CLINIC.courses
    )


@pytest.mark.parametrize("amount", [reward, questions])
def test_the_exact_gradient_is_that_of_finite_differences(amount):
    step, policy = 1e-5, random_policy(CLINIC, 5)
    gradient = together(exact_gradient(policy, amount))
    measured = []
    for logits in policy.logits:
        for place in np.ndindex(logits.shape):
            kept, sides = logits[place], []
            for moved in (kept + step, kept - step):
                logits[place] = moved
                sides.append(expected(TabularPolicy(CLINIC, policy.logits), amount))
            logits[place] = kept
            measured.append((sides[0] - sides[1]) / (2 * step))
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


@pytest.mark.parametrize("group", [2, 4])
def test_leave_one_out_rewards_give_the_exact_gradient(group):
    """Its only difference is the division by the expected number of tokens."""
    exact = together(exact_gradient(RANDOM))
    gradient = together(terminal_gradient(RANDOM, reference_credits(RANDOM, group)))
    pairs = [(p, c) for p in CLINIC.patients for c in CLINIC.courses]
    tokens = sum(2 * len(c) * p.probability * RANDOM.course_probability(p, c) for p, c in pairs)
    assert gradient == pytest.approx(exact / tokens, abs=1e-12)


def test_vineppo_with_exact_values_points_where_the_exact_gradient_points():
    gradient = method_gradient(RANDOM, METHODS["vineppo"])
    assert cosine(together(gradient), together(exact_gradient(RANDOM))) == pytest.approx(
        1, abs=1e-9
    )


# With two findings, the question part of a state has one direction: a cosine is only a sign.
THREE = TinyClinic(CLINIC.prior, np.array([[0.9, 0.1, 0.1], [0.2, 0.7, 0.2], [0.3, 0.3, 0.6]]))


def test_c3_compares_the_questions_of_every_state_as_the_exact_gradient_does():
    """Its weights of states differ: a state has more candidates where the policy asks more."""
    policy = random_policy(THREE, 5)
    gradient = question_gradient(policy, METHODS["c3"]).question
    exact = exact_gradient(policy).question
    asked = [row for row in range(len(exact)) if np.abs(exact[row]).max() > 1e-9]
    assert len(asked) == 7  # with an answer to come: the opening, and after one question
    for row in asked:
        assert cosine(gradient[row], exact[row]) == pytest.approx(1, abs=1e-9)
    assert 0.9 < cosine(gradient, exact) < 1 - 1e-6
    # Equal chances of asking in all states: equal weights.
    policy = diagnostician(THREE)
    gradient, exact = question_gradient(policy, METHODS["c3"]), exact_gradient(policy)
    assert cosine(gradient.question, exact.question) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["igpo", "tips", "gigpo", "mt_grpo"])
def test_turn_credits_are_those_of_sampled_groups(name):
    """Mean credit of each kind of course against the mean over sampled groups of two."""
    method = dataclasses.replace(METHODS[name], terminal_group=2)
    patient = CLINIC.patients[0]
    shares = [RANDOM.course_probability(patient, course) for course in CLINIC.courses]
    rng = np.random.default_rng(1)
    exact = turn_credits(RANDOM, method)
    differences = []
    for drawn in rng.choice(len(shares), (4000, 2), p=shares):
        row = [CLINIC.courses[i] for i in drawn]
        beliefs = [_beliefs(method, patient, course) for course in row]
        states = [[frozenset(state) for state in visited(patient, course)] for course in row]
        rewards = np.array([reward(patient, course) for course in row])
        group = Group(rewards, states=states, beliefs=beliefs)
        [credited] = credit_update(method.turn_credit, [group])
        difference = np.zeros(CLINIC.turns)
        difference[: len(row[0])] = credited[0] - exact[patient, row[0]]
        differences.append(difference)
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0) / np.sqrt(4000)
    assert (error > 0).all()
    assert (np.abs(mean) < 4 * error).all()


def _beliefs(method, patient, course) -> np.ndarray:
    """Of the correct option before every turn."""
    states = visited(patient, course)
    if method.belief == "actor":
        rows = [RANDOM.probabilities.answer[CLINIC.states[state]] for state in states]
    else:
        rows = [CLINIC.posterior(state) for state in states]
    return np.array(rows)[:, patient.option]


class Words:
    """The tiny clinic's consultations as the methods train on them; one token is one phrase.

    It has what `read_response` needs of a `ChatFormat`.
    """

    labels = ("A", "B", "C")
    texts: ClassVar = [QUESTION_MARKER, ANSWER_MARKER, "Is sign 0 present?", "Is sign 1 present?"]
    texts += [*labels, "Absent.", "Present."]

    def decode(self, ids) -> str:
        return " ".join(self.texts[i] for i in ids)

    def thinking_stop(self, action) -> int:
        return 0

    def tokens(self, act) -> list[int]:
        """A response: its marker, then its question or label."""
        kind, content = act
        return [kind, 2 + content + (CLINIC.findings if kind == ANSWER else 0)]

    def answer(self, shown: bool) -> int:
        return len(self.texts) - 2 + shown

    def turn(self, state, acts, patient) -> Turn:
        """A state and the responses there, answered unless it is the last turn's."""
        read, exchanges, responses = [], [], []
        for finding, shown in state:
            read += [*self.tokens((ASK, finding)), self.answer(shown)]
            exchanges.append(Exchange(self.texts[2 + finding], self.texts[self.answer(shown)]))
        for act in acts:
            response = read_response(self, Completion(self.tokens(act), [0, 0], True), self.labels)
            if act[0] == ASK and len(state) < CLINIC.turns - 1:
                answer = self.texts[self.answer(patient.findings[act[1]])]
                response = dataclasses.replace(response, answer=answer)
            responses.append(response)
        return Turn(read, tuple(exchanges), tuple(responses))

    def consultation(self, patient, course) -> Consultation:
        options = {label: f"disease {label}" for label in self.labels}
        case = Case("case", "tiny", "Unwell.", "Which?", options, (), self.labels[patient.option])
        pairs = zip(visited(patient, course), course, strict=True)
        turns = [self.turn(state, [act], patient) for state, act in pairs]
        return Consultation(case.public, rollout=0, prompt=[], turns=turns)

    def place(self, tokens, place) -> tuple[int, int, int]:
        """State, kind of response and content (-1: the marker) of a sampled token."""
        start = place - place % 3
        exchanges = np.reshape(tokens[:start], (-1, 3))
        state = tuple((q - 2, bool(a == self.answer(True))) for _, q, a in exchanges)
        kind = tokens[start]
        content = tokens[place] - 2 - (CLINIC.findings if kind == ANSWER else 0)
        return CLINIC.states[state], kind, -1 if place == start else content


def draw(rng, policy, state):
    """A response of the policy."""
    acts = [(ASK, f) for f in range(CLINIC.findings)] + [(ANSWER, y) for y in range(CLINIC.options)]
    return acts[rng.choice(len(acts), p=[policy.probability(state, act) for act in acts])]


def sampled_case(rng, policy, method):
    """A case as PCQC trains on it: its sequences, of consultations that are really sampled."""
    words = Words()
    patients = CLINIC.patients
    patient = patients[rng.choice(len(patients), p=[p.probability for p in patients])]
    row, groups, rewards = [], [], []
    for rollout in range(method.terminal_group):
        state, course = (), []
        while not course or (course[-1][0] == ASK and len(course) < CLINIC.turns):
            course.append(draw(rng, policy, state))
            if rollout == 0 and course[-1][0] == ASK and len(state) < CLINIC.turns - 1:
                others = [draw(rng, policy, state) for _ in range(method.question_group - 1)]
                groups.append(scored(words, patient, state, [course[-1], *others]))
            if course[-1][0] == ASK:
                state = (*state, (course[-1][1], patient.findings[course[-1][1]]))
        row.append(words.consultation(patient, tuple(course)))
        rewards.append(reward(patient, tuple(course)))
    method.credit(groups)
    return method.case_sequences(row, terminal_advantages(np.array(rewards)), groups)


def scored(words, patient, state, acts) -> QuestionGroup:
    """Candidates with the exact posterior as the scorer."""
    states = [
        (*state, (which, patient.findings[which])) if kind == ASK else state for kind, which in acts
    ]
    utilities = np.array([CLINIC.posterior(read)[patient.option] for read in states])
    baseline, turn = CLINIC.posterior(state)[patient.option], words.turn(state, acts, patient)
    return QuestionGroup(None, len(state), turn, baseline, utilities, 0 * utilities)


def learner_gradient(policy, sequences, term) -> tuple[np.ndarray, float]:
    """Of the learner's own loss of a term, by autograd, before its division by the tokens."""
    logits = Parts(*(torch.tensor(part, requires_grad=True) for part in policy.logits))
    of_parts = Parts(*(torch.log_softmax(part, 1) for part in logits))
    logprobs, advantages = [], []
    for sequence in sequences:
        chosen = sequence.terms.get(term)
        for place in np.flatnonzero(chosen.weights) if chosen else ():
            number, kind, content = Words().place(sequence.tokens, place)
            part = of_parts.choice if content < 0 else content_of(of_parts, kind)
            logprobs.append(part[number, kind if content < 0 else content])
            advantages.append(chosen.advantages[place])
    if not logprobs:
        return np.zeros(together(policy.logits).size), 0.0
    stacked = torch.stack(logprobs)
    loss = clipped_policy_loss(
        stacked, stacked.detach(), torch.tensor(advantages), Clip(0.2, 0.2)
    ).sum()
    gradient = torch.autograd.grad(-loss, list(logits), allow_unused=True, materialize_grads=True)
    return np.concatenate([part.numpy().ravel() for part in gradient]), token_counts(sequences)[
        term
    ]


def worst_score(pairs, gradient) -> float:
    """Largest deviation of sampled gradients from an expected one, in standard errors.

    A ratio of means is right if numerator less ratio times denominator has the mean 0.
    """
    sampled, tokens = np.array([g for g, _ in pairs]), np.array([n for _, n in pairs])
    errors = sampled - tokens[:, None] * together(gradient)
    seen = (sampled != 0).sum(axis=0) >= 50  # fewer say little of their own deviation
    scores = errors.mean(axis=0)[seen] / errors.std(axis=0)[seen] * np.sqrt(len(pairs))
    return float(np.abs(scores).max())


@pytest.mark.numerical
@pytest.mark.parametrize("name", ["pcqc", "same_state_q1"])
def test_expected_gradients_are_means_of_the_learners(name):
    """Against sampled cases, whose sequences and loss are the ones that training has."""
    method = dataclasses.replace(METHODS[name], terminal_group=2, question_group=3)
    # No act is rare: one that a sample lacks would make its deviation look small.
    policy = TabularPolicy(CLINIC, RANDOM.logits.times(0.3))
    rng = np.random.default_rng(2)
    cases = [sampled_case(rng, policy, method) for _ in range(1000)]
    for term, exact in (
        (TERMINAL, terminal_gradient(policy, turn_credits(policy, method))),
        (QUESTION, question_gradient(policy, method)),
    ):
        pairs = [learner_gradient(policy, case, term) for case in cases]
        assert worst_score(pairs, exact) < 4
        # And the sample is large enough to tell: the opposite is refused.
        assert worst_score(pairs, exact.times(-1)) > 5
        if term == QUESTION:
            assert max(np.abs(g[: exact.choice.size]).max() for g, _ in pairs) < 1e-6


def test_the_table_has_every_method_at_every_policy(tmp_path):
    chosen = {name: METHODS[name] for name in ("grpo", "atpo", "pcqc", "shared_sft")}
    at = {"one": RANDOM, "deaf": TabularPolicy(CLINIC, CLINIC.zeros())}
    rows = audit(chosen, at)
    names = [REFERENCE, "GRPO", "PCQC", f"PCQC, {ALONE}"]
    assert list(zip(rows["policy"], rows["method"], strict=True)) == [
        (policy, name) for policy in at for name in names
    ]
    # A doctor that does not listen has no question part to compare with.
    assert np.isnan(rows["cosine_question"].iloc[-2])
    text = write_audit(chosen, at, tmp_path)
    assert "| PCQC, question loss alone | — |" in text
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == text
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + len(rows)

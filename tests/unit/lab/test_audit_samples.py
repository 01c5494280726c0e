"""The audit's expected gradients are means of what the learner computes on sampled cases."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch
from finite_differences import together

from credit_lab.audit.enumerable_clinic import (
    ANSWER,
    ASK,
    CLINIC,
    TabularPolicy,
    content_of,
    random_policy,
    reward,
    visited,
)
from credit_lab.audit.gradients import question_gradient, terminal_gradient
from credit_lab.audit.turn_credits import group_credits
from credit_lab.two_token_policies import Parts
from pcqc.cases.case import Case
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER, Exchange
from pcqc.consultation import Consultation, Turn
from pcqc.consultation.turns import read_response
from pcqc.engines.base import Completion
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.policy_loss import Clip, clipped_policy_loss
from pcqc.training.training_sequence import token_counts
from pcqc_study.study_file import load_study
from turn_credit import CREDITS
from turn_credit.arithmetic import terminal_advantages


class Words:
    """The tiny clinic's consultations as the methods train on them; one token is one phrase.

    It has what `read_response` needs of a `ChatFormat`.
    """

    labels = ("A", "B", "C")
    texts: ClassVar = [QUESTION_MARKER, ANSWER_MARKER, "Is sign 0 present?", "Is sign 1 present?"]
    texts += [*labels, "Absent.", "Present."]

    def response(self, ids) -> str:
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
            response = read_response(self, Completion(self.tokens(act), [0, 0]), self.labels)
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
    return QuestionGroup(None, len(state), turn, baseline, utilities)


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
    method = dataclasses.replace(
        load_study("paper").method(name), terminal_group=2, question_group=3
    )
    # No act is rare: one that a sample lacks would make its deviation look small.
    policy = TabularPolicy(CLINIC, random_policy(CLINIC, 5).logits.times(0.3))
    rng = np.random.default_rng(2)
    cases = [sampled_case(rng, policy, method) for _ in range(1000)]
    for term, exact in (
        (TERMINAL, terminal_gradient(policy, group_credits(policy, "grpo", 2, None))),
        (QUESTION, question_gradient(policy, CREDITS[name], name == "same_state_q1", 3)),
    ):
        pairs = [learner_gradient(policy, case, term) for case in cases]
        assert worst_score(pairs, exact) < 4
        # And the sample is large enough to tell: the opposite is refused.
        assert worst_score(pairs, exact.times(-1)) > 5
        if term == QUESTION:
            assert max(np.abs(g[: exact.choice.size]).max() for g, _ in pairs) < 1e-6

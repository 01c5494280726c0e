"""The continuation study's candidates against exact values: its questions, and its scorer."""

from dataclasses import dataclass

import numpy as np

from analysis.collected import Collected
from analysis.continuation import Continued
from analysis.instrument import Instrument
from pcqc.clinic.posterior import posterior
from pcqc.clinic.world import read_findings
from pcqc.evaluation.choice import selected_success


@dataclass(frozen=True)
class FirstQuestions:
    """Candidates at the initial states of cases.

    Attributes:
        picks: rule -> [states] chance that it takes a question after one best finding, no other.
        chance: [states] share of best findings among all: a random doctor's.
        scorer_error: [states] distance of the scorer's probability of the correct option from the
            exact one on the same answer, in points, mean over candidates.
    """

    picks: dict[str, np.ndarray]
    chance: np.ndarray
    scorer_error: np.ndarray


def first_questions(collected: Collected, policy: Continued) -> FirstQuestions:
    """Judge every candidate of one policy's study."""
    instrument = Instrument(collected, collected.study.development)
    cases = [instrument.cases[case_id] for case_id in policy.case_ids]
    best, chance, exact = [], [], []
    for case, questions, answers in zip(cases, policy.questions, policy.answers, strict=True):
        turns = [
            {"action": "question", "question": question, "answer": answer}
            for question, answer in zip(questions, answers, strict=True)
        ]
        judged = [instrument.judged(case, {"turns": [turn]})[0] for turn in turns]
        best.append([question.best for question in judged])
        chance.append(judged[0].chance)
        correct = list(case.options).index(case.answer)
        exact.append(
            [
                posterior(
                    instrument.world, case, read_findings(instrument.world, text), instrument.rates
                )[correct]
                for text in answers
            ]
        )
    shape = policy.utility.shape
    error = np.abs(policy.utility - np.array(exact, float).reshape(shape))
    hits = np.array(best, float).reshape(shape)
    return FirstQuestions(
        selected_success(policy.utility, hits), np.array(chance), 100 * error.mean(axis=1)
    )

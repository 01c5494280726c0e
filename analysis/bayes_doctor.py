"""What a Bayes-optimal doctor would make of the answers that each method's questions brought.

A consultation's evidence is what its patient stated. The Bayes diagnosis on that evidence says how
good the questions were; the method's own diagnosis can only do as well, so that the distance
between the two is the diagnosis's part. Only the clinic knows these posteriors exactly.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from analysis.collected import Collected
from analysis.continuation import Continued
from analysis.load import CasesById, read_world, world_path
from clinic_env import posterior
from clinic_env.world import World, read_findings
from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange
from pcqc.evaluation.choice import selected_success
from pcqc.seeds import generator
from pcqc_base.system.files import sha256_file
from pcqc_clinic import quality
from pcqc_clinic.consultations import best_exchanges, random_exchanges, still_likely
from pcqc_clinic.quality import AskedQuestion

DRAWS = 8  # consultations of a case with random questions


@dataclass(frozen=True)
class Consultations:
    """One run on one benchmark, (cases,) each: accuracies in percent, questions as a number."""

    accuracy: np.ndarray
    bayes: np.ndarray  # of the Bayes diagnosis on the evidence collected; ties share the credit
    questions: np.ndarray  # asked


@dataclass(frozen=True)
class ExactDoctor:
    """Means over cases of a Bayes diagnosis, where at most 0, 1, 2, ... questions may be asked.

    It asks a case's facts as a patient without errors would tell them, and stops as recorded
    consultations do, when one option is left: a method that stops early where a case is easy can
    beat a doctor who asks as many questions of every case.

    Attributes:
        asked: [limits] questions asked.
        accuracy: [limits] of the Bayes diagnosis on their answers, in percent.
    """

    asked: np.ndarray
    accuracy: np.ndarray

    def after(self, questions: float) -> float:
        """Accuracy at a mean number of questions, from the straight line between two limits."""
        return float(np.interp(questions, self.asked, self.accuracy))


def exact_doctor(
    world: World, held: Sequence[tuple[Case, list[Exchange]]], rates: np.ndarray, most: int
) -> ExactDoctor:
    """What a doctor reaches with its questions, by how many of them may be asked.

    Args:
        world: the clinic.
        held: cases with the questions asked and their answers.
        rates: base rates of the D diseases, for the diagnosis.
        most: questions that may be asked.
    """
    asked = np.minimum.outer(range(most + 1), [len(exchanges) for _, exchanges in held])
    right = []
    for case, exchanges in held:
        answered: dict[int, bool] = {}
        chances = [quality.diagnosis(world, case, answered, rates)]
        for exchange in exchanges:
            answered |= read_findings(world, exchange.answer)
            chances.append(quality.diagnosis(world, case, answered, rates))
        right.append(chances + [chances[-1]] * (most - len(exchanges)))
    return ExactDoctor(asked.mean(axis=1), 100 * np.mean(right, axis=0))


class BayesDoctor:
    """Bayes figures of a synthetic study's development benchmark, each computed once.

    Studies on other base models have the same cases: what depends on no doctor is theirs too.
    """

    def __init__(self, collected: Collected):
        self.collected, self.benchmark = collected, collected.study.development
        self.world = read_world(collected.study)
        self.cases = CasesById(collected.study, self.benchmark)
        base_rates = collected.benchmarks[self.benchmark].base_rates
        self.rates = self.world.rates(base_rates)
        self._most_questions = collected.study.protocol.max_turns - 1
        files = sha256_file(world_path(collected.study)), sha256_file(self.cases.path)
        self._clinic = _KNOWN.setdefault((*files, base_rates, self._most_questions), {})
        self._own: dict[Hashable, Any] = {}
        self._values = once(self._clinic, "values", lambda: quality.Values(self.world, self.rates))

    @property
    def best(self) -> ExactDoctor:
        """Asks best questions."""
        return once(self._clinic, "best", lambda: self._exact(self.cases.values(), best_exchanges))

    @property
    def random(self) -> ExactDoctor:
        """Asks random questions, `DRAWS` times on each case."""
        rng = generator(0, "random questions")
        drawn = [case for case in self.cases.values() for _ in range(DRAWS)]
        ask = partial(random_exchanges, rng=rng)
        return once(self._clinic, "random", lambda: self._exact(drawn, ask))

    def _exact(self, cases: Iterable[Case], exchanges: Callable) -> ExactDoctor:
        world, most = self.world, self._most_questions
        held = [(case, exchanges(world, case, most)) for case in cases]
        return exact_doctor(world, held, self.rates, most)

    def runs(self, method: str) -> list[Consultations]:
        """Every run of a method."""
        return [self.consultations(method, run) for run in self.collected.runs(method)]

    def consultations(self, method: str, run: str) -> Consultations:
        """Every consultation of a run, in the order of its file."""
        return once(self._own, (method, run), lambda: self._consultations(method, run))

    def _consultations(self, method: str, run: str) -> Consultations:
        rows: list[tuple[float, float, int]] = []
        for case, dialogue in self.dialogues(method, run):
            asked = sum(turn["action"] == "question" for turn in dialogue["turns"])
            rows.append((float(dialogue["correct"]), self.diagnosis(case, dialogue), asked))
        accuracy, diagnosis, asked = np.array(rows).T
        return Consultations(100 * accuracy, 100 * diagnosis, asked)

    def questions(self, method: str, run: str) -> list[tuple[Case, list[AskedQuestion]]]:
        """Every consultation's answered questions, in the order of the run's file."""
        every = self.dialogues(method, run)
        return once(
            self._own,
            ("questions", method, run),
            lambda: [(case, self.judged(case, dialogue)) for case, dialogue in every],
        )

    def early(self, method: str, run: str) -> list[AskedQuestion]:
        """The first `quality.EARLY` answered questions of all consultations of a run."""
        every = self.questions(method, run)
        return [question for _, asked in every for question in asked[: quality.EARLY]]

    def judged(self, case: Case, dialogue: dict) -> list[AskedQuestion]:
        """A dialogue's answered questions, beside the others that could be asked."""
        return once(
            self._clinic,
            ("judged", case.case_id, *utterances(dialogue)),
            lambda: quality.judge_questions(self._values, case, dialogue, self._most_questions),
        )

    def dialogues(self, method: str, run: str) -> Iterator[tuple[Case, dict]]:
        """Every dialogue of a run with its case, in the order of the file."""
        read = partial(self.collected.dialogues, method, run, self.benchmark)
        for dialogue in once(self._own, ("dialogues", method, run), lambda: list(read())):
            yield self.cases[dialogue["case_id"]], dialogue

    def likely(self, world: World, case: Case, exchanges: list[Exchange]) -> list[str]:
        """What `still_likely` returns."""
        key = ("likely", case.case_id, *exchanges)
        return once(self._clinic, key, lambda: still_likely(world, case, exchanges))

    def diagnosis(self, case: Case, dialogue: dict) -> float:
        """Chance that the Bayes diagnosis on the dialogue's evidence is right; ties are drawn."""

        def diagnosed() -> float:
            answered = posterior.evidence(self.world, dialogue)
            return quality.diagnosis(self.world, case, answered, self.rates)

        answers = (turn.get("answer") for turn in dialogue["turns"])
        return once(self._clinic, ("diagnosis", case.case_id, *answers), diagnosed)


# Digests of world and cases, their rates and questions -> what is computed of them.
_KNOWN: dict[tuple, dict[Hashable, Any]] = {}


def once(known: dict[Hashable, Any], key: Hashable, compute: Callable[[], Any]) -> Any:
    """What is known under a key, computed where nothing is."""
    if key not in known:
        known[key] = compute()
    return known[key]


def utterances(dialogue: dict) -> Iterator[tuple]:
    """What of each turn the judgement of questions depends on."""
    for turn in dialogue["turns"]:
        yield turn["action"], turn.get("question"), turn.get("answer")


@lru_cache
def bayes_doctor_of(collected: Collected) -> BayesDoctor:
    """The Bayes-optimal doctor of a study's first base model."""
    return BayesDoctor(collected)


@dataclass(frozen=True)
class FirstQuestions:
    """The continuation study's candidates at the initial states of cases, against exact values.

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
    bayes = bayes_doctor_of(collected)
    world = bayes.world
    best, chance, exact = [], [], []
    for case_id, *asked in zip(policy.case_ids, policy.questions, policy.answers, strict=True):
        case = bayes.cases[case_id]
        correct = list(case.options).index(case.answer)
        for question, answer in zip(*asked, strict=True):
            turn = {"action": "question", "question": question, "answer": answer}
            (judged,) = bayes.judged(case, {"turns": [turn]})
            best.append(judged.best)
            evidence = read_findings(world, answer)
            exact.append(posterior.posterior(world, case, evidence, bayes.rates)[correct])
        chance.append(judged.chance)
    shape = policy.utility.shape
    error = np.abs(policy.utility - np.array(exact, float).reshape(shape))
    hits = np.array(best, float).reshape(shape)
    return FirstQuestions(
        selected_success(policy.utility, hits), np.array(chance), 100 * error.mean(axis=1)
    )

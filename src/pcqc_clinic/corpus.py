"""The pretraining corpus of the clinic's base model.

Every document is about a new patient, drawn from a stream of its own, not from a split's cases. A
small model needs a curriculum (measured: without it, accuracy stays at chance). It first learns to
look up an option's label (`glossary`) or a fact (`recall`), then to diagnose from much evidence
(`summary`), then the texts of its roles (`evidence`, `patient`, `consultation`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from clinic_env.world import LABELS, QUESTION, Patient, World, ask, draw_patient, state_finding
from pcqc.cases import prompts
from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import Exchange
from pcqc.training.supervised import Example
from pcqc_base.settings import Benchmark
from pcqc_clinic.consultations import best_question, spoken_turns
from pcqc_clinic.world import as_case

_PLAIN = Benchmark("Plain", "held_out", wording="plain")
_REPORTED = Benchmark("Reported", "held_out", wording="reported")
# A question has many correct wordings and a label has one: without a low weight, the loss of
# questions would dominate.
QUESTION_WEIGHT = 0.1
LABEL_WEIGHT = 4.0  # one token beside the many of a thought
# Of the token that says present or absent. At the weight of the sign's name, which is copied, a
# model that always says absent has a low loss on look-ups; some models never learned more.
STATE_WEIGHT = 4.0
MOST_EXCHANGES = 9
UNANSWERED = 0.1  # share of questions that the patient cannot answer
LOOKUPS = 12  # per glossary
RECALLED = 5  # questions per recall document


@dataclass(frozen=True)
class Subject:
    """What a document is about.

    Attributes:
        rng: draws what else is random in the document.
        patient: with what is true of it.
        case: the patient's, as a doctor gets it.
        order: numbers of all findings, at random.
        wording: in which complaint and answers are put.
    """

    world: World
    chat: ChatFormat
    rng: np.random.Generator
    patient: Patient
    case: Case
    order: list[int]
    wording: str

    def answer(self, finding: int) -> str:
        """The sentence that says whether the patient has a finding."""
        name, present = self.world.findings[finding], self.patient.present[finding]
        return state_finding(name, present, self.wording)

    def question(self, finding: int) -> str:
        """The question about a finding."""
        return ask(self.world.findings[finding])

    def exchanges(self, best: bool) -> list[Exchange]:
        """Questions and answers, random ones or the best; one in ten has no answer."""
        count, exchanges = int(self.rng.integers(0, MOST_EXCHANGES + 1)), list[Exchange]()
        random = iter(self._random_order())
        while len(exchanges) < count:
            if best:
                finding = best_question(self.world, self.case, exchanges)
            else:
                finding = next(random, None)
            if finding is None:
                break
            answered = self.rng.random() > UNANSWERED
            answer = self.answer(finding) if answered else prompts.UNANSWERABLE
            exchanges.append(Exchange(self.question(finding), answer))
        return exchanges

    def _random_order(self) -> list[int]:
        """All findings; each is a sign of an option with probability 1/2, while both kinds last."""
        signs = [f for f in self.order if f in self.patient.options]
        others = [f for f in self.order if f not in self.patient.options]
        order = []
        while signs and others:
            order.append((signs if self.rng.random() < 0.5 else others).pop())
        return order + signs + others


class _Text:
    """Builds a document from pieces of text; each piece sets the loss weight of its tokens."""

    def __init__(self, chat: ChatFormat):
        self.chat = chat
        self.example = Example([], [])

    def add(self, text: str, weight: float = 0.0) -> "_Text":
        return self.add_ids(self.chat.encode(text), weight)

    def add_ids(self, ids: list[int], weight: float = 0.0) -> "_Text":
        self.example.tokens.extend(ids)
        self.example.weights.extend([weight] * len(ids))
        return self


def most_options(world: World) -> int:
    """The most options that a case can have."""
    return min(len(LABELS), len(world.diseases))


def draw_subject(world: World, chat: ChatFormat, rng: np.random.Generator) -> Subject:
    """Draw a patient with 4 to 8 options; half have the `reported` wording."""
    options = int(rng.integers(4, most_options(world) + 1))
    patient = draw_patient(world, rng, options, world.rates("uniform"))
    benchmark = _REPORTED if rng.random() < 0.5 else _PLAIN
    case = as_case(world, patient, "corpus-0", benchmark, rng)
    order = [int(f) for f in rng.permutation(len(world.findings))]
    return Subject(world, chat, rng, patient, case, order, benchmark.wording)


def glossary(subject: Subject, most: int, spaced: float) -> Example:
    """Options, then names followed by their labels.

    Args:
        subject: only its world is used.
        most: largest number of options; the smallest is two.
        spaced: share of look-ups with prompt text between name and label.
    """
    world, rng = subject.world, subject.rng
    count = int(rng.integers(2, most + 1))
    chosen = rng.choice(len(world.diseases), count, replace=False)
    options = {label: world.diseases[d] for label, d in zip(LABELS, chosen, strict=False)}
    inline = rng.random() < 0.5
    lines = "".join(f"\n{label}. {name}" for label, name in options.items())
    problem, question = (f"{word}: {QUESTION}\nOptions:" for word in ("Problem", "Question"))
    text = _Text(subject.chat).add(f"{problem} {options}\n" if inline else f"{question}{lines}\n")
    for label in rng.choice(list(options), LOOKUPS):
        name = options[str(label)]
        if rng.random() < spaced:
            others = rng.permutation([n for n in options.values() if n != name])
            listed = ", ".join([*others[: rng.integers(len(options))], name])
            thinking = f"{prompts.THINK_OPEN}{listed}{prompts.THINK_CLOSE}{prompts.ANSWER_MARKER}"
            text.add(thinking if inline else f"{name}{prompts.ANSWER_CUE}")
        else:
            text.add(name)
        text.add(f" {label}", 1.0).add("\n")
    return text.example


def recall(subject: Subject, spaced: float) -> Example:
    """Facts, then some questions on them with their answers.

    Args:
        subject: what it is about.
        spaced: share of questions with the rest of the patient's prompt before the answer.
    """
    subject, chat = _with_random_findings(subject), subject.chat
    facts, hidden = _facts(subject)
    text = _Text(chat).add("\n".join(facts) + "\n\n")
    count = min(RECALLED, len(subject.order))
    for finding in subject.rng.choice(subject.order, count, replace=False).tolist():
        question = subject.question(finding)
        if subject.rng.random() < spaced:
            prompt, last = chat.patient([], question), chat.encode(question)[-2]
            start = len(prompt) - prompt[::-1].index(last)
            text.add_ids(chat.encode(question)[:-1]).add_ids(prompt[start:])
        else:
            text.add(f"{question}\n")
        _add_answer(text, subject, finding, hidden).add("\n")
    return text.example


def _add_answer(text: _Text, subject: Subject, finding: int, hidden: set[int]) -> _Text:
    """Add the patient's answer: the sign's name, then whether it has it; or that it has none."""
    if finding in hidden:
        return text.add(prompts.UNANSWERABLE, 1.0)
    sign, state = subject.answer(finding).split(" ", 1)
    return text.add(sign, 1.0).add(f" {state}", STATE_WEIGHT)


def _with_random_findings(subject: Subject) -> Subject:
    """The subject with random findings: most patients have few, and would teach to answer no."""
    present = tuple(bool(p) for p in subject.rng.random(len(subject.world.findings)) < 0.5)
    return replace(subject, patient=replace(subject.patient, present=present))


def _facts(subject: Subject) -> tuple[list[str], set[int]]:
    """Facts in the order of findings without some hidden ones; and the hidden findings."""
    hidden = set(subject.order[: int(subject.rng.integers(0, len(subject.order) // 2))])
    return [subject.answer(f) for f in sorted(subject.order) if f not in hidden], hidden


def summary(subject: Subject, named: bool) -> Example:
    """A scorer's prompt with findings in place of questions, the diagnosis's sign among them.

    Args:
        subject: what it is about.
        named: the target is the diagnosis's name, without options in the prompt, not its label.
    """
    rng, patient = subject.rng, subject.patient
    others = rng.random() ** 2  # share of the other findings that is shown, mostly small
    shown = [f for f in subject.order if f == patient.disease or rng.random() < others]
    stated = "".join(f"\n{subject.answer(finding)}" for finding in shown)
    head, tail = prompts.scorer_prompt(subject.case.public, ()).split("\nQuestion:")
    prompt, text = f"{head}{stated}\nQuestion:{tail}", _Text(subject.chat)
    if named:
        text.add(f"{prompt.split('Options:')[0]}Options:{prompts.ANSWER_CUE}")
        return text.add(subject.case.options[subject.case.answer], 1.0).example
    return text.add(prompt).add(f" {subject.case.answer}", 1.0).example


def evidence(subject: Subject) -> Example:
    """A scorer's prompt and the correct label."""
    prompt, _ = _evidence(subject)
    return _Text(subject.chat).add(prompt).add(f" {subject.case.answer}", 1.0).example


def reasoned_evidence(subject: Subject) -> Example:
    """A scorer's prompt, the options still likely, and the label of the last of them."""
    prompt, exchanges = _evidence(subject)
    ((thinking, answer),) = spoken_turns(subject.world, subject.case, exchanges)[-1:]
    label = answer.removeprefix(prompts.ANSWER_MARKER)
    text = _Text(subject.chat).add(prompt.removesuffix(prompts.ANSWER_CUE) + "\n")
    return text.add(thinking, 1.0).add(prompts.ANSWER_CUE).add(label, LABEL_WEIGHT).example


def _evidence(subject: Subject) -> tuple[str, list[Exchange]]:
    exchanges = subject.exchanges(best=bool(subject.rng.random() < 0.5))
    return prompts.scorer_prompt(subject.case.public, exchanges), exchanges


def patient_answer(subject: Subject) -> Example:
    """A patient's prompt and its answer."""
    subject = _with_random_findings(subject)
    facts, hidden = _facts(subject)
    finding = int(subject.rng.choice(subject.order))
    text = _Text(subject.chat)
    text.add_ids(subject.chat.patient(facts, subject.question(finding)))
    _add_answer(text, subject, finding, hidden)
    return text.add_ids([subject.chat.end_of_turn], 1.0).example


def consultation(subject: Subject) -> Example:
    """A whole consultation; only the doctor's tokens have weight.

    It ends with the option that its last thought names last. Random questions have a low weight,
    the best ones none.
    """
    best = bool(subject.rng.random() < 0.5)
    exchanges, chat = subject.exchanges(best), subject.chat
    turns = spoken_turns(subject.world, subject.case, exchanges)
    text = _Text(chat).add_ids(chat.open(subject.case.public))
    for turn, (thinking, action) in enumerate(turns):
        last = turn == len(exchanges)
        start = len(text.example.tokens)
        text.add(thinking, 1.0)
        if last:  # low weight: whether to ask or to answer is as open as which question to ask
            label = action.removeprefix(prompts.ANSWER_MARKER)
            text.add(prompts.ANSWER_MARKER, QUESTION_WEIGHT).add(label, LABEL_WEIGHT)
        else:
            text.add(action, 0.0 if best else QUESTION_WEIGHT)
        text.add_ids([chat.end_of_turn], QUESTION_WEIGHT)
        if not last:
            action_ids = text.example.tokens[start:]
            text.add_ids(chat.after_action(action_ids, exchanges[turn].answer))
    return text.example


def weighted(example: Example, total: float) -> Example:
    """The example with weights that sum to `total`: long documents count no more than others."""
    scale = total / sum(example.weights)
    return Example(example.tokens, [weight * scale for weight in example.weights])


KINDS: dict[str, Callable[[Subject], Example]] = {
    "glossary": lambda subject: glossary(subject, most_options(subject.world), spaced=1.0),
    "recall": lambda subject: recall(subject, spaced=1.0),
    "labelled summary": lambda subject: summary(subject, named=False),
    "named summary": lambda subject: summary(subject, named=True),
    "evidence": evidence,
    "reasoned evidence": reasoned_evidence,
    "patient": patient_answer,
    "consultation": consultation,
}

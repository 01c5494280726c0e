"""Documents of the base model's corpus: their words are known, and their targets are Bayes's."""

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import pytest

from clinic_env.posterior import posterior
from clinic_env.world import read_findings
from pcqc.cases.chat import ChatFormat
from pcqc.training.supervised import Example
from pcqc_clinic.corpus import (
    KINDS,
    Subject,
    draw_subject,
    reasoned_evidence,
    recall,
    summary,
    weighted,
)
from pcqc_clinic.pretrain import FACTS
from pcqc_clinic.tokenizer import make_tokenizer
from pcqc_clinic.world import make_world
from pcqc_study.study_file import load_study


def subjects(count: int, **settings: float) -> Iterator[Subject]:
    """Subjects in the world of the study `clinic` but for some settings."""
    study = load_study("clinic")
    instruction = study.clinic.instruction
    world = make_world(dataclasses.replace(study.clinic, **settings))
    chat = ChatFormat(make_tokenizer(world, instruction), instruction)
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield draw_subject(world, chat, rng)


def read(subject: Subject, example: Example) -> tuple[str, str]:
    """Text of a document without the loss, and with it."""
    parts = ([], [])
    for token, weight in zip(example.tokens, example.weights, strict=True):
        parts[weight > 0].append(token)
    without, having = (subject.chat.tokenizer.decode(part) for part in parts)
    return without, having


@pytest.mark.parametrize("diseases", [4, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_the_clinics_tokenizer_knows_every_word(kind, diseases):
    wordings = set()
    for subject in subjects(60, diseases=diseases):
        document = KINDS[kind](subject)
        assert subject.chat.tokenizer.unk_token_id not in document.tokens
        assert sum(document.weights) > 0 == min(document.weights)
        wordings.add(subject.wording)
    assert wordings == {"plain", "reported"}


def test_reasoned_evidence_ends_in_what_bayes_says_of_its_answers():
    """Options asked about in vain come first, in their own order."""
    several = in_vain = 0
    for subject in subjects(100):
        prompt, target = read(subject, reasoned_evidence(subject))
        thought, label = re.fullmatch(r"<think>(.+)</think> (\w)", target).groups()
        stated = read_findings(subject.world, prompt)
        probability = posterior(subject.world, subject.case, stated)
        options = dict(zip(subject.case.options.values(), probability, strict=True))
        named = thought.split(", ")
        signs = {n: subject.world.diseases.index(n) for n in named}
        vain = [n for n, f in signs.items() if subject.question(f) in prompt and f not in stated]
        # Nothing is near the bound of a tenth: likelihoods differ 49 times, complaints 3 times.
        assert set(named) == {n for n, p in options.items() if p > 0.1 * max(probability)}
        assert named[: len(vain)] == vain
        for part in (vain, named[len(vain) :]):
            assert [options[n] for n in part] == pytest.approx(sorted(options[n] for n in part))
        assert subject.case.options[label] == named[-1]
        several, in_vain = several + (len(named) > 1), in_vain + (0 < len(vain) < len(named))
    assert 20 < several < 100
    assert in_vain > 5


@pytest.mark.parametrize("named", [False, True])
def test_without_noise_a_summary_ends_in_what_bayes_says(named):
    shown = set()
    for subject in subjects(50, noise=1e-12):
        prompt, target = read(subject, summary(subject, named))
        stated = read_findings(subject.world, prompt)
        assert stated == {f: subject.patient.present[f] for f in stated}
        probability = posterior(subject.world, subject.case, stated)
        label = list(subject.case.options)[int(probability.argmax())]
        assert probability.max() == pytest.approx(1)
        assert target == (subject.case.options[label] if named else f" {label}")
        assert named is not any(f"{c}. " in prompt for c in subject.case.options)
        shown.add(len(stated))
    assert len(shown) > 5


def test_a_consultation_ends_in_the_likeliest_option_of_its_last_thought():
    for subject in subjects(40):
        document = KINDS["consultation"](subject)
        text = subject.chat.tokenizer.decode(document.tokens)
        thought, label = re.search(r"<think>([^<]+)</think>Final Answer: (\w)", text).groups()
        stated = read_findings(subject.world, text)
        probability = posterior(subject.world, subject.case, stated)
        last = thought.split(", ")[-1]
        assert subject.case.options[label] == last
        chosen = list(subject.case.options.values()).index(last)
        assert probability[chosen] == pytest.approx(probability.max())
        context, _ = read(subject, document)
        assert all(f"{subject.answer(f)}" in context for f in stated)


def test_look_ups_are_not_learned_by_who_copies_and_guesses():
    """One who copies the sign, knows glossaries, and guesses its state fails every level."""
    losses = []
    for subject in subjects(200):
        document = weighted(recall(subject, spaced=0.5), 1.0)
        texts = [subject.chat.tokenizer.decode([token]) for token in document.tokens]
        states = [bool(re.search("present|absent|reported|denied", text)) for text in texts]
        losses.append(np.log(2) * np.dot(states, document.weights))
    assert FACTS * np.mean(losses) > load_study("clinic-scratch").scratch_model.look_up_loss

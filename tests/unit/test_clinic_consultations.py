"""Consultations of the clinic's training data: random, recorded, and an expert's."""

import dataclasses

import pytest
from small_worlds import FIVE_DISEASES, drawn

from clinic_env.posterior import Values
from clinic_env.world import ask, asked_findings, read_findings, state_finding
from pcqc.cases.prompts import Exchange, parse_action
from pcqc.seeds import generator
from pcqc_base.errors import UserError
from pcqc_base.settings import Benchmark
from pcqc_clinic import build
from pcqc_clinic.build import TRAINING, _Sampler
from pcqc_clinic.consultations import (
    best_exchanges,
    best_question,
    random_exchanges,
    recorded_conversation,
    still_likely,
)
from pcqc_clinic.pretrain import LEVELS, WINDOW, draw_batch
from pcqc_clinic.world import make_world
from pcqc_study.study_file import load_study


@pytest.fixture(scope="module")
def world():
    return make_world(FIVE_DISEASES)


def test_random_questions_differ_are_answered_from_the_facts_and_end_when_one_option_is_left(world):
    rng, ends = generator(5, "x"), set()
    for case, _ in drawn(world):
        facts = read_findings(world, " ".join(case.facts))
        for most in (0, 2, 5):
            exchanges = random_exchanges(world, case, most, rng)
            (*before, left) = [
                len(still_likely(world, case, exchanges[:n])) for n in range(len(exchanges) + 1)
            ]
            assert all(options > 1 for options in before)
            assert len(exchanges) == most or left == 1
            ends.add((len(exchanges) == most, left == 1))
            asked = [min(asked_findings(world, exchange.question)) for exchange in exchanges]
            assert len(set(asked)) == len(exchanges)
            for finding, exchange in zip(asked, exchanges, strict=True):
                known = {finding: facts[finding]} if finding in facts else {}
                assert read_findings(world, exchange.answer) == known
    assert {(True, False), (False, True)} <= ends


def test_a_recorded_conversation_asks_and_ends_with_the_right_answer(world):
    """One with another diagnosis is not kept."""
    case, _ = drawn(world)[0]
    rng = generator(5, "x")
    asked = [random_exchanges(world, case, 3, rng) for _ in range(20)]
    tries = [recorded_conversation(world, case, "Instruction", exchanges) for exchanges in asked]
    assert None in tries
    exchanges, messages = next(pair for pair in zip(asked, tries, strict=True) if all(pair))
    roles = ["system", "user", *["assistant", "user"] * len(exchanges), "assistant"]
    assert [m["role"] for m in messages] == roles
    *questions, final = [parse_action(m["content"], tuple(case.options)) for m in messages[2::2]]
    assert [(a.kind, a.text) for a in questions] == [("question", e.question) for e in exchanges]
    assert (final.kind, final.text) == ("final", case.answer)
    assert [m["content"] for m in messages[3::2]] == [e.answer for e in exchanges]


def test_an_expert_asks_best_questions_until_nothing_is_open(world):
    """Of what the facts do not record it learns nothing, and does not ask again."""
    for case, _ in drawn(world):
        exchanges = best_exchanges(world, case, 9)
        facts = read_findings(world, " ".join(case.facts))
        asked = [asked_findings(world, exchange.question) for exchange in exchanges]
        assert len(set().union(*asked)) == sum(map(len, asked)) == len(exchanges)
        for number, (named, exchange) in enumerate(zip(asked, exchanges, strict=True)):
            assert named == {best_question(world, case, exchanges[:number])}
            known = {finding: facts[finding] for finding in named if finding in facts}
            assert read_findings(world, exchange.answer) == known
        assert best_question(world, case, exchanges) is None
        assert best_exchanges(world, case, 1) == exchanges[:1]


def test_the_best_question_is_about_the_likeliest_option_not_asked_about(world):
    """It is one of highest value, until one option is left."""
    for case, patient in drawn(world, 6):
        exchanges, answered = [], {}
        while (finding := best_question(world, case, exchanges)) is not None:
            values = Values(world)(case, answered, [], 1)
            assert values[finding] == pytest.approx(max(values.values()))
            answered[finding] = patient.present[finding]
            name = world.findings[finding]
            exchanges.append(Exchange(ask(name), state_finding(name, patient.present[finding])))
        assert len(still_likely(world, case, exchanges)) == 1 or len(exchanges) == 3


def test_a_world_with_too_few_cases_says_so(world, monkeypatch):
    monkeypatch.setattr(build, "TRIES_PER_CASE", 3)
    sparse = Benchmark("x", "held_out", options=(2,), recorded_facts=0.2)
    sampler = _Sampler(world, 1, [])
    assert len(sampler.cases("train", TRAINING, 20)) == 20
    assert sampler.cases("none", TRAINING, 0) == []
    with pytest.raises(UserError, match=r"too few different cases: .* drawn for 'dev'"):
        sampler.cases("dev", sparse, 2000)


def test_look_ups_offer_no_more_options_than_there_are_diseases(chat):
    study = load_study("clinic-mini")
    few = make_world(dataclasses.replace(study.clinic, diseases=4))
    passed = [0.0] * WINDOW * (len(LEVELS) - 1)  # losses that end in the last level
    batch = draw_batch(few, chat, study.scratch_model, len(passed), passed)
    assert len(batch) == study.scratch_model.documents_per_step

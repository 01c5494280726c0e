"""The clinic's world and its exact answers, against enumeration over every patient there can be."""

import dataclasses
import itertools
from functools import partial

import numpy as np
import pytest
from small_worlds import FIVE_DISEASES, drawn

from clinic_env.posterior import (
    Values,
    best_accuracy,
    evidence,
    posterior,
    random_accuracy,
)
from clinic_env.world import draw_patient, read_findings
from pcqc.seeds import generator
from pcqc_base.errors import UserError
from pcqc_base.settings import Benchmark
from pcqc_clinic.build import TRAINING
from pcqc_clinic.world import as_case, load_world, make_world, save_world


@pytest.fixture(scope="module")
def world():
    return make_world(FIVE_DISEASES)


def enumerated(world, case, rates=None):
    """State of all findings -> joint weight per option."""
    options = [world.diseases.index(text) for text in case.options.values()]
    rates = world.rates("uniform") if rates is None else rates
    prior = (rates * world.complaint_likelihood(case))[options]
    return {
        state: prior * np.where(state, world.table[options], 1 - world.table[options]).prod(1)
        for state in itertools.product((False, True), repeat=len(world.findings))
    }


def accuracy_after(joint, questions, known, choose, silent=()):
    """Accuracy of the Bayes diagnosis by recursion over what can be asked."""
    states = {s: w for s, w in joint.items() if all(s[f] == v for f, v in known.items())}
    unknown = {*range(len(next(iter(joint))))} - {*known, *silent}
    if questions == 0 or not unknown:
        return max(sum(states.values())) / sum(w.sum() for w in states.values())
    after = partial(accuracy_after, joint, questions - 1, choose=choose, silent=silent)
    return choose([value_of(joint, known, finding, after) for finding in sorted(unknown)])


def value_of(joint, known, finding, after):
    """Mean over the two answers about a finding of what `after` says of the knowledge then."""
    states = {s: w for s, w in joint.items() if all(s[f] == v for f, v in known.items())}
    total, value = sum(w.sum() for w in states.values()), 0.0
    for answer in (False, True):
        share = sum(w.sum() for s, w in states.items() if s[finding] == answer) / total
        value += share * after({**known, finding: answer})
    return value


@pytest.mark.parametrize("questions", [0, 1, 2])
def test_accuracies_are_those_of_an_enumeration(world, questions):
    for case, _ in drawn(world, 3):
        joint = enumerated(world, case)
        for accuracy, choose in ((best_accuracy, max), (random_accuracy, np.mean)):
            expected = accuracy_after(joint, questions, {}, choose)
            assert accuracy(world, case, questions) == pytest.approx(expected)


@pytest.mark.parametrize("questions", [1, 2])
def test_the_value_of_a_question_is_that_of_an_enumeration(world, questions):
    """With one finding answered, one about which the patient cannot answer, and the rest open."""
    differing = 0
    for case, patient in drawn(world, 4):
        joint = enumerated(world, case)
        first, silent, *left = patient.options[0], *(f for f in range(5) if f != patient.options[0])
        known = {first: patient.present[first]}
        after = partial(accuracy_after, joint, questions - 1, choose=max, silent=[silent])
        expected = {f: value_of(joint, known, f, after) for f in left}
        expected |= dict.fromkeys([first, silent], after(known))
        values = Values(world)(case, known, [silent], questions)
        assert values == pytest.approx(expected)
        differing += len({round(value, 9) for value in values.values()}) > 1
    assert differing


def test_the_best_question_after_a_random_one_is_that_of_an_enumeration(world):
    for case, _ in drawn(world, 3):
        joint = enumerated(world, case)
        after = partial(accuracy_after, joint, 1, choose=max)
        expected = np.mean([value_of(joint, {}, f, after) for f in range(5)])
        assert best_accuracy(world, case, 1, after_random=1) == pytest.approx(expected)


def test_exchangeable_findings_are_worth_the_same(world):
    """Two findings of equal likelihoods, of which one is known; a third that says nothing."""
    table = world.table.copy()
    table[:, 1], table[:, 2] = table[:, 0], 0.5
    world = dataclasses.replace(world, probability=tuple(tuple(map(float, row)) for row in table))
    case, _ = drawn(world)[0]
    joint = enumerated(world, case)
    values = Values(world)(case, {}, [], 3)
    after = partial(accuracy_after, joint, 2, choose=max)
    assert values[0] == values[1] == pytest.approx(value_of(joint, {}, 1, after))
    assert values[2] == pytest.approx(after({}))


def test_base_rates_move_posterior_and_accuracy(world):
    rates = world.rates("skewed")
    ((case, _),) = drawn(world, 1)
    joint = enumerated(world, case, rates)
    expected = sum(joint.values())
    assert posterior(world, case, {}, rates) == pytest.approx(expected / expected.sum())
    assert posterior(world, case, {}) != pytest.approx(posterior(world, case, {}, rates))
    after = partial(accuracy_after, joint, 0, choose=max)
    values = Values(world, rates)(case, {}, [], 1)
    assert values == pytest.approx({f: value_of(joint, {}, f, after) for f in range(5)})


def test_the_posterior_is_that_of_an_enumeration(world):
    case, _ = drawn(world)[1]
    joint = enumerated(world, case)
    states = [w for s, w in joint.items() if s[0] and not s[1]]
    expected = sum(states) / sum(states).sum()
    assert posterior(world, case, {0: True, 1: False}) == pytest.approx(expected)


def test_cases_are_drawn_from_the_posterior_that_bayes_assumes(world):
    """Over many patients the Bayes diagnosis is right as often as it says it is."""
    rng, rates = generator(2, "test"), world.rates("uniform")
    claimed, right = [], []
    for i in range(1500):
        patient = draw_patient(world, rng, 3, rates)
        case = as_case(world, patient, f"test-{i}", TRAINING, rng)
        asked = {f: patient.present[f] for f in (0, 1)}
        belief = posterior(world, case, asked)
        claimed.append(belief.max())
        right.append(list(case.options)[int(belief.argmax())] == case.answer)
    assert np.mean(right) == pytest.approx(np.mean(claimed), abs=0.035)


@pytest.mark.parametrize("wording", ["plain", "reported"])
def test_a_case_states_what_its_patient_has(world, wording):
    benchmark = Benchmark("x", "held_out", wording=wording)
    for case, patient in drawn(world, benchmark=benchmark):
        name = world.complaints[patient.complaint]
        assert (
            case.initial == {"plain": f"{name} present.", "reported": f"{name} reported."}[wording]
        )
        assert read_findings(world, case.initial) == {}
        stated = read_findings(world, " ".join(case.facts))
        assert len(case.facts) == len(stated) == 5
        assert all(patient.present[f] == present for f, present in stated.items())
        assert case.options[case.answer] == world.diseases[patient.disease]


def test_a_sparse_benchmark_records_fewer_facts(world):
    sparse = Benchmark("x", "held_out", recorded_facts=0.6)
    assert {len(case.facts) for case, _ in drawn(world, benchmark=sparse)} == {3}


def test_evidence_is_what_the_patient_said(world):
    name = world.findings
    dialogue = {
        "turns": [
            {"answer": f"{name[0]} spots absent."},
            {"answer": None},
            {"answer": f"{name[2]} spots reported."},
            {"answer": "The patient cannot answer this question."},
        ]
    }
    assert evidence(world, dialogue) == {0: False, 2: True}


def test_a_world_is_the_same_after_a_round_trip(world, tmp_path):
    save_world(world, tmp_path / "world.json")
    assert load_world(tmp_path / "world.json") == world
    assert make_world(FIVE_DISEASES) == world
    assert make_world(dataclasses.replace(FIVE_DISEASES, seed=4)) != world


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"diseases": 3}'])
def test_a_file_that_is_no_world_is_refused(world, tmp_path, content):
    path = tmp_path / "world.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"world\.json: not a clinic's world; remove it"):
        load_world(path)
    save_world(dataclasses.replace(world, findings=world.findings[1:]), path)
    with pytest.raises(UserError, match="not a clinic's world"):
        load_world(path)


def test_each_disease_has_its_sign_and_each_complaint_its_half(world):
    assert world.table.tolist() == np.where(np.eye(5) > 0, 0.9, 0.1).tolist()
    assert (np.array(world.complaint_probability) == 3).sum(0).tolist() == [2, 2]
    assert world.rates("skewed").sum() == pytest.approx(1)

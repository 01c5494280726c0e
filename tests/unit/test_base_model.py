"""The base model's curriculum: when a round of the mixture is followed by another."""

from dataclasses import replace

import pytest

from pcqc_clinic.pretrain import LEVELS, WINDOW, is_finished, learning_rate
from pcqc_study.study_file import load_study

SETTINGS = replace(
    load_study("clinic-scratch").scratch_model,
    mixture_steps=20,
    least_rounds=1,
    warmup_steps=1,
    least_patient_accuracy=0.99,
    most_scorer_gap=0.08,
)
# Losses that pass each level of the look-ups, and the summaries, in one window.
LEARNED = [0.0] * WINDOW * (len(LEVELS) + 1)
SOUND = {"patient_accuracy": 0.995, "bayes_accuracy": 0.68, "scorer_accuracy": 0.61}
DENIES = SOUND | {"patient_accuracy": 0.948}
MISJUDGES = SOUND | {"scorer_accuracy": 0.558}


def after(mixture: int) -> list[float]:
    return LEARNED + [1.0] * mixture


def finished(mixture: int, scores: dict[str, float]) -> bool:
    return is_finished(after(mixture), SETTINGS, lambda step: scores)


@pytest.mark.parametrize("mixture", [0, 1, 19, 21])
def test_a_model_is_judged_only_at_the_end_of_a_round(mixture):
    def judged(step):
        raise AssertionError(f"validated at step {step}")

    assert not is_finished(after(mixture), SETTINGS, judged)


def test_a_sound_model_ends_with_the_round():
    assert finished(20, SOUND)


@pytest.mark.parametrize("scores", [DENIES, MISJUDGES], ids=["patient", "scorer"])
def test_an_unsound_model_has_another_round(scores):
    assert not finished(20, scores)
    assert finished(40, SOUND)


def test_a_model_has_its_least_rounds_before_it_is_judged():
    def ends_after(mixture):
        twice = replace(SETTINGS, least_rounds=2)
        return is_finished(after(mixture), twice, lambda step: SOUND)

    assert [mixture for mixture in (20, 40, 60) if ends_after(mixture)] == [40, 60]


def test_each_round_of_the_mixture_lowers_the_learning_rate_anew():
    first, second = (
        [learning_rate(len(LEARNED) + step, after(step), SETTINGS) for step in steps]
        for steps in (range(20), range(20, 40))
    )
    assert first == second
    assert first[0] == 1.0
    assert first[-1] < 0.1
    assert sorted(first, reverse=True) == first

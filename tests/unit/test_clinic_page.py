"""The Bayes figures of docs/clinic.md are those of the clinic."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clinic_env.posterior import best_accuracy, random_accuracy
from pcqc_base.system.checkout import ROOT
from pcqc_clinic.build import draw_cases
from pcqc_clinic.world import make_world
from pcqc_study.study_file import load_study

ROW = re.compile(r"^\| (Clinic-\w+) \|[^|]*\| (best|random) \|((?: [\d.]+ \|)+)$", re.M)
ACCURACY = {"best": best_accuracy, "random": random_accuracy}


@pytest.fixture(scope="module")
def clinic():
    """The world and the first 40 cases of each benchmark; each has a stream of its own."""
    study = load_study("clinic-full")
    world, seed = make_world(study.clinic), study.clinic.seed
    cases = {
        benchmark.title: draw_cases(world, seed, name, replace(benchmark, cases=40))
        for name, benchmark in study.benchmarks.items()
    }
    return world, cases


def test_the_page_prints_the_bayes_figures(clinic):
    world, cases = clinic
    rows = ROW.findall((ROOT / "docs" / "clinic.md").read_text())
    assert len(rows) == 2 * len(cases)
    for title, kind, printed in rows:
        for questions, figure in enumerate(re.findall(r"[\d.]+", printed)):
            mean = np.mean([ACCURACY[kind](world, case, questions) for case in cases[title]])
            assert f"{100 * mean:.1f}" == figure, (title, kind, questions)
            if kind == "best" and questions:
                chance = np.mean([random_accuracy(world, c, questions) for c in cases[title]])
                assert mean - chance > 0.08


def test_the_page_prints_what_a_question_adds(clinic):
    """By turn, after random earlier questions; a repeated one adds nothing by definition."""
    world, cases = clinic
    dev = cases["Clinic-Dev"]
    chance = [np.mean([random_accuracy(world, case, n) for case in dev]) for n in range(10)]
    best = [np.mean([best_accuracy(world, c, 1, after_random=n) for c in dev]) for n in range(9)]
    assert min(np.array(best) - chance[1:]) > 0.03, "a best question is worth several points more"
    page = (ROOT / "docs" / "clinic.md").read_text()
    for kind, after in (("best", best), ("random", chance[1:])):
        (printed,) = re.findall(rf"^\| a {kind} question adds \|(.*)\|$", page, re.M)
        added = [100 * (a - b) for a, b in zip(after, chance, strict=False)]
        assert [f"{value:.1f}" for value in added] == re.findall(r"[\d.]+", printed)

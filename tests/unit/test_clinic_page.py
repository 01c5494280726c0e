"""The Bayes figures of docs/clinic.md are those of the clinic."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clinic_env.posterior import best_accuracy, random_accuracy
from pcqc.cases.case import read_cases
from pcqc.system.checkout import ROOT
from pcqc_clinic.build import build_clinic
from pcqc_clinic.world import load_world
from pcqc_study.settings import load_study

ROW = re.compile(r"^\| (Clinic-\w+) \|[^|]*\| (best|random) \|((?: [\d.]+ \|)+)$", re.M)
ACCURACY = {"best": best_accuracy, "random": random_accuracy}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """The world and the first 40 cases of each benchmark; each has a stream of its own."""
    study, folder = load_study("clinic-full"), tmp_path_factory.mktemp("clinic")
    settings = replace(study.clinic, training_cases=1, sft_conversations=1)
    benchmarks = {name: replace(b, cases=40) for name, b in study.benchmarks.items()}
    build_clinic(settings, benchmarks, study.protocol.instruction, folder)
    cases = {b.title: read_cases(folder / f"{name}.jsonl") for name, b in benchmarks.items()}
    return load_world(folder / "world.json"), cases


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

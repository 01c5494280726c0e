"""Rollouts sample from the policy that the loss has; validation decodes as evaluation does."""

from dataclasses import replace

import pytest
from small_runs import small_study

from pcqc.engines.metered import MeteredEngine
from pcqc.jobs import rl_loop
from pcqc_base.system.processes import SINGLE_PROCESS
from pcqc_study.graph import Jobs
from pcqc_study.run_job import task_of

DECODED = (0.7, 0.9)  # temperature and top-p of the study's evaluation and of its patient


def make_study(folder):
    settings = {"terminal_group": 2, "question_group": 2, "updates": 1}
    return small_study(folder, methods={"pcqc": settings, "c3": {**settings, "continuations": 1}})


@pytest.mark.parametrize("method", ["pcqc", "c3"])
def test_only_the_actor_of_rollouts_samples_from_the_policy_itself(study, monkeypatch, method):
    """C3's continuations are rollouts too."""
    drawn = []
    for name in ("submit", "generate"):
        monkeypatch.setattr(MeteredEngine, name, noting(drawn, getattr(MeteredEngine, name)))
    run = rl_loop.Run(task_of(study, Jobs(study).job("train", method, "A")), SINGLE_PROCESS)
    cases = rl_loop.cases_of_update(run.cases, run.seed, 1, study.rl.cases_per_update)
    run.collect_rollouts(1, cases, rl_loop.Phases())
    assert {at for engine, at in drawn if engine is run.context.actor.engine} == {(1.0, 1.0)}
    assert {at for engine, at in drawn if engine is run.context.patient.engine} == {DECODED}
    drawn.clear()
    run.rl = replace(run.rl, rollout_top_p=0.8)
    run.collect_rollouts(1, cases, rl_loop.Phases())
    assert {at for engine, at in drawn if engine is run.context.actor.engine} == {(1.0, 0.8)}
    drawn.clear()
    run._resume()
    run._checkpoint(1)
    assert {at for _, at in drawn} == {DECODED}


def noting(drawn: list, original):
    """Like the engine's own, and appends the engine, temperature and top-p of each call."""

    def called(engine, requests, sampling):
        drawn.append((engine, (sampling.temperature, sampling.top_p)))
        return original(engine, requests, sampling)

    return called

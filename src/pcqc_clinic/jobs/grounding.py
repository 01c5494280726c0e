"""Eligible answers in the clinic, whose rules judge them exactly."""

from collections.abc import Sequence

from pcqc.evaluation.grounding import Answered
from pcqc.jobs import grounding
from pcqc_base.system.manifest import checked
from pcqc_base.task import Task
from pcqc_clinic.judge import ClinicJudge
from pcqc_clinic.world import load_world


def run(task: Task) -> None:
    """Write `grounding.csv` and the sheet for review, as `pcqc.jobs.grounding` does."""
    grounding.run(task, by_rules)


def by_rules(task: Task, items: Sequence[Answered]) -> grounding.Votes:
    """What the clinic's rules say of every answer."""
    world = load_world(checked(task.inputs["world"]))
    return {"rules": ClinicJudge(world).judge(items)}

"""The continuation study in the clinic, whose patient can be made to answer without grounds."""

from dataclasses import replace
from typing import cast

from pcqc.cases.case import Case
from pcqc.jobs import continuation
from pcqc.jobs.continuation import StateSet, StudiedCheckpoint
from pcqc.roles import Patient
from pcqc_base.system.manifest import checked
from pcqc_base.system.processes import SINGLE_PROCESS, Processes
from pcqc_base.task import Task
from pcqc_clinic.ungrounded import UngroundedPatient
from pcqc_clinic.world import load_world


def run(task: Task, processes: Processes = SINGLE_PROCESS) -> dict:
    """Draw the study of one policy, as `pcqc.jobs.continuation` does."""
    return continuation.run(task, processes, UngroundedStateSet)


class UngroundedStateSet(StateSet):
    """States at which the clinic's patient is made to give some answers without grounds."""

    def __init__(self, task: Task, name: str, policy: StudiedCheckpoint):
        super().__init__(task, name, policy)
        world = load_world(checked(task.inputs["world"]))
        share, seed = self.settings.ungrounded.share, self.settings.seed
        self.patient = UngroundedPatient(policy.context.patient, world, share, seed)
        self.asking = replace(policy.context, patient=cast(Patient, self.patient))

    def _ask(self, cases: list[Case]) -> list:
        """Candidates with the truth of their answers."""
        facts = {case.case_id: case.facts for case in cases}
        drawn = super()._ask(cases)
        for candidate in (c for group in drawn for c in group or ()):
            key = (facts[candidate["case_id"]], candidate["question"], candidate["answer"])
            candidate["ungrounded"] = key in self.patient.changed
        return drawn

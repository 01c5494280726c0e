"""The clinic's own judge of answers: its texts are few enough to be read exactly."""

import re
from collections.abc import Sequence

from data_prep.clinic.bayes import read_findings
from data_prep.clinic.questions import asked_findings
from data_prep.clinic.world import World
from pcqc.config import Study
from pcqc.evaluation.grounding import Answered, Judgement
from pcqc.paths import Paths
from pcqc.protocol import UNANSWERABLE

_SENTENCE = re.compile(r"[^.]+\.?")


class ClinicJudge:
    """Rules over the clinic's findings and diseases; nothing is left open.

    Supported: every sentence states a finding as the facts do or, alone, that the question cannot
    be answered where no fact answers it. Confined: every finding stated was asked about. Free: no
    disease is named.
    """

    def __init__(self, world: World):
        self.world = world

    def judge(self, items: Sequence[Answered]) -> list[Judgement]:
        """See `Judge.judge`."""
        return [self._judged(item) for item in items]

    def _judged(self, item: Answered) -> Judgement:
        facts = read_findings(self.world, " ".join(item.case.facts)).items()
        recorded = {finding for finding, _ in facts}
        asked = asked_findings(self.world, item.question)
        statements = [self._statement(part) for part in _SENTENCE.findall(item.answer)]
        if item.answer == UNANSWERABLE:
            supported = not asked & recorded
        else:
            supported = bool(statements) and all(s is not None and s in facts for s in statements)
        stated = set(read_findings(self.world, item.answer))
        diseases = any(name in item.answer for name in self.world.diseases)
        return Judgement(supported, stated <= asked, not diseases, "rules")

    def _statement(self, sentence: str) -> tuple[int, bool] | None:
        """The finding that a sentence of two words states, and how; None for any other text."""
        found = read_findings(self.world, sentence)
        return next(iter(found.items())) if found and len(sentence.split()) == 2 else None


def clinic_judge(study: Study) -> ClinicJudge:
    """The judge of a synthetic study's world."""
    return ClinicJudge(World.load(Paths.of(study).world))

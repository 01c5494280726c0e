"""Judges the clinic's answers by exact rules: its language is small enough."""

import re
from collections.abc import Sequence

from clinic_env.world import World, asked_findings, read_findings
from pcqc.cases.prompts import UNANSWERABLE
from pcqc.evaluation.grounding import Answered, Judgement

_SENTENCE = re.compile(r"[^.]+\.?")


class ClinicJudge:
    """Judges by rules over the clinic's findings and diseases; every answer gets a verdict.

    - Supported: every sentence states a finding as the facts do. "Cannot answer" is supported if
      no fact answers the question.
    - Confined: the question asked about every finding that the answer states.
    - Free: the answer names no disease.
    """

    def __init__(self, world: World):
        self.world = world

    def judge(self, items: Sequence[Answered]) -> list[Judgement]:
        """One judgement for each answer, by the exact clinic."""
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
        # A colour that no spots follow is the disease.
        words = re.findall(r"\w+(?! spots)\b", item.answer)
        diseases = not set(words).isdisjoint(self.world.diseases)
        return Judgement(supported, stated <= asked, not diseases, "rules")

    def _statement(self, sentence: str) -> tuple[int, bool] | None:
        """(finding, present) of a sentence of three words; None for any other text."""
        stated = read_findings(self.world, sentence)
        return next(iter(stated.items())) if stated and len(sentence.split()) == 3 else None

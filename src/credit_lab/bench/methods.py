"""Any credit as a method: what it reads is sampled for it, and it is trained on.

Entry points offer these to every study (docs/add-a-method.md); `creditbench train` makes an entry
for a file's credit. A credit of turns is trained as `turn_credit` is, one of questions as `pcqc`.
"""

import runpy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, groupby
from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.consultation import RolloutContext
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import Firsts, Judged, QuestionGroup
from pcqc_base.errors import UserError, nearest, reason
from pcqc_base.settings.types import STRICT, Whole
from pcqc_peers.c3 import C3
from pcqc_peers.expected_answer import ExpectedAnswer
from pcqc_peers.turn_credit import TurnCredit
from turn_credit import CREDITS, Credit, Group, credit_update
from turn_credit.probes import Behaviour, behaviour

# What training has for a credit: fields of `Group`.
HAD = {
    "turns": {"rewards", "states", "beliefs", "values"},
    "questions": {"utilities", "baselines", "continued", "expected"},
}

PLAYED_ON = {"values", "continued"}  # fields that need continuations


@cache
def credits_of(file: str) -> list[Credit]:
    """The credits that a Python file registers; it is run, once.

    Raises:
        UserError: there is no such file, or it registers none, or one of a name that is taken.
    """
    before = {*CREDITS}
    try:
        runpy.run_path(file)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; name a Python file") from None
    except ValueError as problem:
        raise UserError(f"{file}: {problem}") from problem
    except Exception as problem:  # whatever a stranger's file may raise
        kind = type(problem).__name__
        raise UserError(f"{file}: {kind}: {reason(problem)}; fix the file") from problem
    own = [credit for name, credit in CREDITS.items() if name not in before]
    for credit in own:
        if credit.of not in HAD:
            del CREDITS[credit.name]
            meant = nearest(credit.of, HAD)
            raise UserError(f"{file}: credit '{credit.name}' is of '{credit.of}'{meant}")
    if not own:
        raise UserError(
            f"{file}: it defines no credit; put `@turn_credit.credit(title, of)` above a function "
            "of a group"
        )
    return own


@cache
def known(of: str, name: str, file: str | None, continuations: int) -> Behaviour:
    """What a credit of turns or questions reads; of that name, from the file or `turn_credit`.

    Raises:
        UserError: there is none, or it reads what training does not have.
    """
    if file:
        credits_of(file)
    names = [credit.name for credit in CREDITS.values() if credit.of == of]
    if name not in names:
        raise UserError(f"no credit of {of} is called '{name}'; known are {', '.join(names)}")
    own = behaviour(CREDITS[name])
    if own.missing:
        raise UserError(f"credit '{name}' cannot be trained here: {own.missing}")
    if stray := own.reads - HAD[of]:
        raise UserError(
            f"credit '{name}' reads {', '.join(sorted(stray))}; for a credit of {of} training has "
            f"{', '.join(sorted(HAD[of]))}"
        )
    if own.reads & PLAYED_ON and not continuations:
        raise UserError(f"credit '{name}' reads what was played on; set `continuations`")
    return own


@settings(frozen=True, config=STRICT)
class CreditedTurns(TurnCredit):
    """A credit of turns, `turn_credit` by its name; one that reads values needs `continuations`."""

    turn_credit: str = field(kw_only=True)  # type: ignore[assignment]
    file: str | None = None  # that registers it; a credit of the package needs none

    def __post_init__(self):
        """Any credit is allowed here; `known` checks it when it is used."""

    @property
    def reads_beliefs(self) -> bool:
        """Whether the credit reads the correct option's probability before each turn."""
        return "beliefs" in known("turns", self.turn_credit, self.file, self.continuations).reads


@dataclass
class KnownGroup(QuestionGroup):
    """A state's candidates with all that their credit reads.

    Attributes:
        continued, expected: float [K], as of `turn_credit.Group`.
    """

    continued: np.ndarray | None = None
    expected: np.ndarray | None = None


@settings(frozen=True, config=STRICT)
class CreditedQuestions(Pcqc):
    """A credit of questions, `question_credit` by its name."""

    question_credit: str = field(kw_only=True)
    file: str | None = None  # see `CreditedTurns`
    continuations: Whole = 0  # of each candidate, for a credit that reads what was played on

    imagined_answers: ClassVar[int] = 0  # see `ExpectedAnswer`

    def __post_init__(self):
        if self.divide != Pcqc.divide or self.least_spread != Pcqc.least_spread:
            raise ValueError(
                "divide and least_spread are for method: pcqc; the function that question_credit "
                "names has a form of its own"
            )

    @property
    def scorer_during_rollouts(self) -> bool:  # type: ignore[override]
        """Whether the scorer alone, which may read while dialogues go on, has all that it reads."""
        return self._reads <= {"utilities", "baselines"}

    @property
    def _reads(self) -> set[str]:
        return known("questions", self.question_credit, self.file, self.continuations).reads

    @property
    def needs(self) -> frozenset[str]:
        """Services that its runs are lent: the world, the scorer, as its credit reads."""
        own = {"world"} if "expected" in self._reads else set()
        own |= {"scorer"} if self._reads & {"utilities", "baselines"} else set()
        return super().needs - {"scorer"} | own

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """Candidates of each case's first consultation, with all that the credit reads."""
        given = services, context, firsts, stage
        judged = {}
        if self._reads & {"utilities", "baselines"}:
            judged["utilities"] = super().judge(*given)
        if "continued" in self._reads:
            judged["continued"] = C3.judge(self, *given)  # type: ignore[arg-type]
        if "expected" in self._reads:
            judged["expected"] = ExpectedAnswer.judge(self, *given)  # type: ignore[arg-type]
        rows = zip(*(each.groups for each in judged.values()), strict=True)
        groups: list[list[QuestionGroup]] = [
            [self._joined(dict(zip(judged, same, strict=True))) for same in zip(*row, strict=True)]
            for row in rows
        ]
        return Judged(
            groups,
            sum(each.consultations for each in judged.values()),
            sum(each.sampled_tokens for each in judged.values()),
        )

    def _joined(self, judged: dict[str, QuestionGroup]) -> KnownGroup:
        """One state, as each judge has it."""
        first = next(iter(judged.values()))
        more = {n: g.utilities for n, g in judged.items() if n != "utilities"}
        return KnownGroup(
            first.case, first.number, first.turn, first.baseline, first.utilities, **more
        )

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """Credit candidates in place; the states of a case are one group."""
        cases = [[*row] for _, row in groupby(groups, key=lambda group: group.case.case_id)]
        groups_of = [self._group(row) for row in cases]
        credited = credit_update(self.question_credit, groups_of, unknown="nan")
        for group, own in zip(groups, chain.from_iterable(credited), strict=True):
            trained = slice(self.trained_candidates)
            group.credits[trained] = np.nan_to_num(own)[trained]

    def _group(self, states: Sequence[QuestionGroup]) -> Group:
        names = self._reads & {"continued", "expected"}
        more: dict[str, Any] = {n: [getattr(state, n) for state in states] for n in names}
        return Group(
            utilities=[state.utilities for state in states],
            baselines=[state.baseline for state in states],
            **more,
        )

"""Where a doctor loses its points: in asking, remembering, concluding or stopping.

The clinic knows what an exact doctor would do in each of these places. So consultations are played
again with some places taken over by it, in every combination, and Shapley's average over the orders
of taking over splits what the doctor loses. The four parts of a case add up to what it loses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np

from clinic_env.posterior import SAME, Values, posterior
from clinic_env.world import ask
from pcqc.cases.case import Case
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER, THINK_CLOSE, THINK_OPEN
from pcqc.consultation import Consultation, RolloutContext, require_answers
from pcqc.consultation.log import Dialogue
from pcqc.consultation.play import open_dialogues
from pcqc.consultation.turns import advance, ask_patient, is_open, read_response, streams_of
from pcqc.engines.base import Completion
from pcqc_clinic.consultations import still_likely
from pcqc_clinic.known_world import heard
from pcqc_clinic.quality import diagnosis
from pcqc_clinic.world import PLACES

# Some of `PLACES`. A question of the doctor is replaced by one of greatest Q*; its thought by the
# options that the answers leave; its diagnosis by the posterior's; and it stops when no question
# adds accuracy.
Places = frozenset[str]


def split(
    context: RolloutContext, values: Values, cases: Sequence[Case], *, seed: int, benchmark: str
) -> dict[str, np.ndarray]:
    """Split the points that a policy loses on each case.

    Args:
        context: roles and rules.
        values: exact values of the clinic's questions under the benchmark's base rates.
        cases: the benchmark's.
        seed: that of the evaluation's sampling schedule; the policy's own consultations are those
            of the evaluation.
        benchmark: its name.

    Returns:
        Arrays [cases], in shares of a right diagnosis: `policy`, as the policy plays; `exact`, the
        chance to be right where every place is exact; and each of `PLACES`, which add up to
        `exact - policy` case by case.

    Raises:
        UserError: the patient, served elsewhere, failed.
    """
    worth: dict[Places, np.ndarray] = {}
    for places in _subsets(set(PLACES) - {"concluding"}):
        context.actor.engine.reset_cache()
        player = ExactPlaces(context, values, places, f"{seed}/evaluation/{benchmark}")
        played = player.play(cases)
        require_answers(played)
        pairs = list(zip(cases, played, strict=True))
        worth[places] = np.array([float(c.is_correct(case)) for case, c in pairs])
        # The diagnosis is the last thing said: the same consultation has both.
        worth[places | {"concluding"}] = np.array([_bayes(values, *pair) for pair in pairs])
    policy, exact = worth[frozenset()], worth[frozenset(PLACES)]
    return {"policy": policy, "exact": exact} | shapley(worth)


def shapley(worth: dict[Places, np.ndarray]) -> dict[str, np.ndarray]:
    """Each place's gain, averaged over all orders in which the places can be made exact.

    Args:
        worth: [cases] of every subset of `PLACES`.

    Returns:
        Place -> [cases]; the sum over places is `worth` of all less `worth` of none.
    """
    parts = {}
    for place in PLACES:
        part = np.zeros_like(worth[frozenset()])
        for before in _subsets(set(PLACES) - {place}):
            orders = factorial(len(before)) * factorial(len(PLACES) - 1 - len(before))
            part += orders * (worth[before | {place}] - worth[before])
        parts[place] = part / factorial(len(PLACES))
    return parts


def _subsets(names: set[str]) -> list[Places]:
    return [
        frozenset(chosen)
        for size in range(len(names) + 1)
        for chosen in combinations(sorted(names), size)
    ]


def _bayes(values: Values, case: Case, consultation: Consultation) -> float:
    """Chance of the Bayes diagnosis to be right; 0 where the consultation ended without one."""
    if consultation.ending not in ("answer", "invalid_answer"):
        return 0.0
    return diagnosis(values.world, case, heard(values.world, consultation)[0], values.rates)


@dataclass(frozen=True)
class ExactPlaces:
    """Plays consultations in which some places are exact and the policy has the others.

    Attributes:
        places: some of `PLACES`; not `concluding`, which needs no consultation of its own.
        name: begins those of the random streams, `<seed>/<stage>`.
    """

    context: RolloutContext
    values: Values
    places: Places
    name: str

    def play(self, cases: Sequence[Case]) -> list[Consultation]:
        """One consultation of each case, all side by side."""
        dialogues = open_dialogues(self.context, cases)
        while ongoing := [d for d in dialogues if is_open(d, self.context.protocol.max_turns)]:
            drafts = self._actions(ongoing, self._thoughts(ongoing))
            completions = [Completion(tokens, []) for tokens in drafts]
            groups = [
                [read_response(self.context.chat, completion, dialogue.case.public.labels)]
                for dialogue, completion in zip(ongoing, completions, strict=True)
            ]
            answered = ask_patient(self.context, ongoing, groups, self.name)
            for dialogue, group in zip(ongoing, answered, strict=True):
                advance(self.context, dialogue, group)
        return [dialogue.consultation for dialogue in dialogues]

    def _thoughts(self, ongoing: Sequence[Dialogue]) -> list[list[int]]:
        """Each response, up to where the policy goes on by itself: after an exact thought."""
        if "remembering" not in self.places:
            return [[] for _ in ongoing]
        likely = [
            still_likely(self.values.world, d.case, list(d.consultation.exchanges)) for d in ongoing
        ]
        encode = self.context.chat.encode
        return [encode(f"{THINK_OPEN}{', '.join(names)}{THINK_CLOSE}") for names in likely]

    def _actions(self, ongoing: Sequence[Dialogue], begun: Sequence[list[int]]) -> list[list[int]]:
        """The whole responses, as tokens."""
        drafts = self._sampled(ongoing, begun)
        if "stopping" in self.places:
            drafts = self._stopped(ongoing, drafts)
        if "asking" in self.places:
            drafts = [self._asked(d, draft) for d, draft in zip(ongoing, drafts, strict=True)]
        return drafts

    def _sampled(self, ongoing: Sequence[Dialogue], begun: Sequence[list[int]]) -> list[list[int]]:
        """Responses that begin as given, and go on as the policy does."""
        states = [[*d.state, *start] for d, start in zip(ongoing, begun, strict=True)]
        streams = [streams_of(self.name, dialogue, 1) for dialogue in ongoing]
        with self.context.timed("rollout"):
            sampled = self.context.actor.act(states, streams)
        return [[*start, *one.tokens] for start, (one,) in zip(begun, sampled, strict=True)]

    def _stopped(self, ongoing: Sequence[Dialogue], drafts: list[list[int]]) -> list[list[int]]:
        """Responses that ask where a question adds accuracy, and conclude where none does."""
        chat, kept, other = self.context.chat, list(drafts), []
        for i, (dialogue, draft) in enumerate(zip(ongoing, drafts, strict=True)):
            wanted = "final" if self._best(dialogue) is None else "question"
            if self._kind(dialogue, draft) != wanted:
                marker = ANSWER_MARKER if wanted == "final" else QUESTION_MARKER
                kept[i] = [*draft[: chat.thinking_stop(draft)], *chat.encode(marker)]
                other.append(i)
        if other:
            again = self._sampled([ongoing[i] for i in other], [kept[i] for i in other])
            for i, tokens in zip(other, again, strict=True):
                kept[i] = tokens
        return kept

    def _asked(self, dialogue: Dialogue, draft: list[int]) -> list[int]:
        """The response with its question replaced by a best one, if one is left."""
        best = self._best(dialogue)
        if best is None or self._kind(dialogue, draft) != "question":
            return draft
        chat = self.context.chat
        question = f"{QUESTION_MARKER} {ask(self.values.world.findings[best])}"
        return [*draft[: chat.thinking_stop(draft)], *chat.encode(question), chat.end_of_turn]

    def _kind(self, dialogue: Dialogue, draft: list[int]) -> str:
        completion = Completion(draft, [])
        return read_response(self.context.chat, completion, dialogue.case.public.labels).action.kind

    def _best(self, dialogue: Dialogue) -> int | None:
        """The finding of greatest Q*; None where no question adds accuracy or can be answered."""
        left = self.context.protocol.max_turns - 1 - dialogue.turn
        if left < 1:
            return None
        stated, asked = heard(self.values.world, dialogue.consultation)
        worth = self.values(dialogue.case, stated, asked - stated.keys(), left)
        unasked = [finding for finding in worth if finding not in asked]
        if not unasked:
            return None
        best = max(unasked, key=lambda finding: worth[finding])
        now = posterior(self.values.world, dialogue.case, stated, self.values.rates).max()
        return best if worth[best] > now + SAME else None

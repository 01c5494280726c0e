"""Random sequences with the lengths and branches of what PCQC and GRPO train on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.training_sequence import Term, TrainingSequence

Range = tuple[int, int]


@dataclass(frozen=True)
class Kind:
    """What a method trains on: consultations that share a case's prompt.

    Attributes:
        cases: of an update.
        rollouts: of each case.
        candidates: questions that branch off at each turn.
        turns, prompt, says, hears: turns, tokens of a prompt, of a response and of an answer: from
            the first number to below the second.
    """

    cases: int
    rollouts: int
    candidates: int
    turns: Range = (3, 8)
    prompt: Range = (700, 701)
    says: Range = (40, 160)
    hears: Range = (20, 60)


KINDS = {"PCQC": Kind(8, 4, candidates=3), "GRPO": Kind(4, 32, candidates=0)}


def shrunk(kind: Kind) -> Kind:
    """A batch of the same form for the tiny size."""
    return replace(kind, cases=1, turns=(1, 4), prompt=(60, 61), says=(4, 16), hears=(2, 6))


class Draw:
    """Random sequences over a vocabulary.

    Args:
        vocabulary: how many token ids there are.
        seed: of all draws.
    """

    def __init__(self, vocabulary: int, seed: int):
        self.vocabulary, self.random = vocabulary, np.random.default_rng(seed)

    def tokens(self, lengths: Range) -> list[int]:
        """Token ids, as many as a number within `lengths`."""
        return self.random.integers(5, self.vocabulary, self.random.integers(*lengths)).tolist()

    def batch(self, kind: Kind) -> list[TrainingSequence]:
        """The sequences of an update."""
        made: list[TrainingSequence] = []
        for _ in range(kind.cases):
            prompt = self.tokens(kind.prompt)
            for _ in range(kind.rollouts):
                made += self.consultation(prompt, kind)
        return made

    def consultation(self, prompt: list[int], kind: Kind) -> Iterator[TrainingSequence]:
        """The candidates of each turn, then what was executed."""
        tokens, spans = list(prompt), []
        for _ in range(self.random.integers(*kind.turns)):
            for _ in range(kind.candidates):
                asked = [*tokens, *self.tokens(kind.says)]
                yield self.credited(asked, [(len(tokens), len(asked))], QUESTION)
            start = len(tokens)
            tokens += self.tokens(kind.says)
            spans.append((start, len(tokens)))
            tokens += self.tokens(kind.hears)
        yield self.credited(tokens[: spans[-1][1]], spans, TERMINAL)

    def credited(self, tokens: list[int], spans: list[Range], name: str) -> TrainingSequence:
        """Token ids with a random advantage on each span."""
        term = Term.zeros(len(tokens))
        for start, stop in spans:
            term.select(start, stop, self.random.normal())
        # An update counts the gap to an engine: no number here, only as many.
        return TrainingSequence(tokens, {name: term}, np.full(len(tokens), -5.0))

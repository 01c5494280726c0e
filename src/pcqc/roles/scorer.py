"""The diagnostic scorer: reads `scorer_prompt` of `cases/prompts.py`, gives probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases.prompts import Exchange, scorer_prompt
from pcqc.cases.public_case import PublicCase
from pcqc.cases.text_encoder import TextEncoder
from pcqc.engines.base import Engine, Failure
from pcqc_base.errors import UserError

Evidence = tuple[PublicCase, tuple[Exchange, ...]]  # a case with the exchanges so far
Key = tuple[str, tuple[str, ...]]  # quoted prompt and labels, which determine what is read
Pass = tuple[list[int], list[int]]  # of the model: a prompt's ids, and those that may come next


class Scorer:
    """s_phi of the paper: a frozen model's option probabilities (eq:scorer_option_probabilities).

    It sees initial information, question, options and answered questions (`scorer_prompt`), never
    facts. It never learns which option is correct; the caller picks that entry from what it
    returns.

    Attributes:
        read_during_rollouts: log-probabilities of labels that were read before they are asked for;
            the next call of `probabilities` uses and forgets them.
    """

    def __init__(self, engine: Engine, tokenizer):
        self.engine = engine
        self.encoder = TextEncoder(tokenizer)
        self.read_during_rollouts: dict[Key, list[float]] = {}

    def probabilities(self, evidence: Sequence[Evidence]) -> list[np.ndarray | Failure]:
        """Option probabilities on each evidence, in the order of the case's labels.

        Each label is appended to the prompt, and the log-probability of its tokens is read; of a
        label of one token as in the paper. Equal evidence is read once, and not again if it was
        read during rollouts. A served scorer may fail.
        """
        keys = [self.key(item) for item in evidence]
        logprobs: dict[Key, list[float] | Failure] = {**self.read_during_rollouts}
        self.read_during_rollouts = {}
        new = [key for key in dict.fromkeys(keys) if key not in logprobs]
        readings = [self.reading(key) for key in new]
        flat = [each for reading in readings for each in reading.passes]
        rows = iter(self.engine.next_logprobs([p for p, _ in flat], [ids for _, ids in flat]))
        for key, reading in zip(new, readings, strict=True):
            logprobs[key] = reading.logprobs([next(rows) for _ in reading.passes])
        return [normalise(logprobs[key]) for key in keys]

    def key(self, evidence: Evidence) -> Key:
        """What is read of the evidence."""
        (case, known), quote = evidence, self.encoder.quote
        return quote(scorer_prompt(case, known)), case.labels

    def reading(self, key: Key) -> "Reading":
        """How the labels are read.

        Prompt and label are tokenised together, since a label may join the prompt's last character.
        """
        prompt, labels = key
        texts = [f"{prompt} {self.encoder.quote(label)}" for label in labels]
        return Reading.of([self.encoder.encode(text) for text in texts])


@dataclass(frozen=True)
class Reading:
    """Passes of a model, and how the log-probabilities of labels come of what they give.

    Attributes:
        passes: one for each place at which labels differ; one where they differ in one token.
        places: for each label its tokens, from the first that not all share: number of the pass,
            and place among the tokens that may come next there.
    """

    passes: list[Pass]
    places: list[list[tuple[int, int]]]

    @classmethod
    def of(cls, labels: Sequence[list[int]]) -> "Reading":
        """The reading of labels, each given as the token ids of prompt and label."""
        shared, tails = split_labels(labels)
        following: dict[tuple[int, ...], list[int]] = {}  # tokens read so far -> what may come next
        steps = [[(tuple(tail[:i]), token) for i, token in enumerate(tail)] for tail in tails]
        for before, token in dict.fromkeys(step for of_label in steps for step in of_label):
            following.setdefault(before, []).append(token)
        number = {before: n for n, before in enumerate(following)}
        places = [[(number[b], following[b].index(t)) for b, t in of_label] for of_label in steps]
        return cls([([*shared, *b], tokens) for b, tokens in following.items()], places)

    def logprobs(self, rows: Sequence[list[float] | Failure]) -> list[float] | Failure:
        """Log-probability of each label: the sum over its tokens; or the first failure of a pass.

        Args:
            rows: those of each pass.
        """
        read: list[list[float]] = []
        for row in rows:
            if isinstance(row, Failure):
                return row
            read.append(row)
        return [sum(read[n][place] for n, place in of_label) for of_label in self.places]


def split_labels(whole: Sequence[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Token ids that all texts share at their start, and the rest of each, never empty."""
    shared = 0
    while all(len(w) > shared + 1 and w[shared] == whole[0][shared] for w in whole):
        shared += 1
    return whole[0][:shared], [w[shared:] for w in whole]


def normalise(logprobs: list[float] | Failure) -> np.ndarray | Failure:
    """Probabilities that sum to one; a failure stays one; UserError where a number is none."""
    if isinstance(logprobs, Failure):
        return logprobs
    if np.isnan(logprobs).any():
        raise UserError(
            "the model gives no probabilities for the options: its logits are not finite; check "
            "the weights"
        )
    weights = np.exp(np.array(logprobs) - max(logprobs))
    return weights / weights.sum()

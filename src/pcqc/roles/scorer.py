"""The diagnostic scorer: reads `scorer_prompt` of `cases/prompts.py`, gives probabilities."""

from collections.abc import Sequence

import numpy as np

from pcqc.cases.prompts import Exchange, scorer_prompt
from pcqc.cases.public_case import PublicCase
from pcqc.cases.text_encoder import TextEncoder
from pcqc.engines.base import Engine, Failure

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

        Each label is appended to the prompt, and only its last token's log-probability is read, as
        in the paper. Labels that differ in one token are read in one pass. Equal evidence is read
        once, and not again if it was read during rollouts. A served scorer may fail.
        """
        keys = [self.key(item) for item in evidence]
        logprobs: dict[Key, list[float] | Failure] = {**self.read_during_rollouts}
        self.read_during_rollouts = {}
        new = [key for key in dict.fromkeys(keys) if key not in logprobs]
        passes = [self.passes(key) for key in new]
        flat = [each for of_key in passes for each in of_key]
        rows = iter(self.engine.next_logprobs([p for p, _ in flat], [ids for _, ids in flat]))
        for key, of_key in zip(new, passes, strict=True):
            logprobs[key] = of_labels([next(rows) for _ in of_key])
        return [normalise(logprobs[key]) for key in keys]

    def key(self, evidence: Evidence) -> Key:
        """What is read of the evidence."""
        (case, known), quote = evidence, self.encoder.quote
        return quote(scorer_prompt(case, known)), case.labels

    def passes(self, key: Key) -> list[Pass]:
        """One pass for all labels that differ in one token, else one for each label's last token.

        Prompt and label are tokenised together, since a label may join the prompt's last character.
        """
        prompt, labels = key
        texts = [f"{prompt} {self.encoder.quote(label)}" for label in labels]
        shared, tails = split_labels([self.encoder.encode(text) for text in texts])
        if all(len(tail) == 1 for tail in tails):
            return [(shared, [tail[0] for tail in tails])]
        return [(shared + tail[:-1], [tail[-1]]) for tail in tails]


def of_labels(rows: Sequence[list[float] | Failure]) -> list[float] | Failure:
    """Log-probability of each label from the rows of a key's passes."""
    logprobs: list[float] = []
    for row in rows:
        if isinstance(row, Failure):
            return row
        logprobs += row
    return logprobs


def split_labels(whole: Sequence[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Token ids that all texts share at their start, and the rest of each, never empty."""
    shared = 0
    while all(len(w) > shared + 1 and w[shared] == whole[0][shared] for w in whole):
        shared += 1
    return whole[0][:shared], [w[shared:] for w in whole]


def normalise(logprobs: list[float] | Failure) -> np.ndarray | Failure:
    """Probabilities that sum to one; a failure stays one."""
    if isinstance(logprobs, Failure):
        return logprobs
    weights = np.exp(np.array(logprobs) - max(logprobs))
    return weights / weights.sum()

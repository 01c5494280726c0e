"""The diagnostic scorer: reads the evidence, gives each option a probability."""

from collections.abc import Sequence

import numpy as np

from pcqc.engines.base import Engine, Failure
from pcqc.protocol import Exchange, scorer_prompt
from pcqc.public_case import PublicCase
from pcqc.text_encoder import TextEncoder

Evidence = tuple[PublicCase, tuple[Exchange, ...]]


class Scorer:
    """s_phi of the paper: a frozen model's option probabilities (eq:scorer_option_probabilities).

    It never learns which option is correct; the caller picks that entry from what it returns.
    """

    def __init__(self, engine: Engine, tokenizer):
        self.engine = engine
        self.encoder = TextEncoder(tokenizer)

    def probabilities(self, evidence: Sequence[Evidence]) -> list[np.ndarray | Failure]:
        """Option probabilities on each evidence, in the order of the case's labels.

        Each label is appended to the prompt, and only its last token's log-probability is read, as
        in the paper. Labels that differ in one token are read in one pass. Equal evidence is read
        once. A served scorer may fail.
        """
        prompts = [scorer_prompt(case, exchanges) for case, exchanges in evidence]
        labels = [case.labels for case, _ in evidence]
        unique = list(dict.fromkeys(zip(prompts, labels, strict=True)))
        results = dict(zip(unique, self._label_logprobs(unique), strict=True))
        return [normalise(results[key]) for key in zip(prompts, labels, strict=True)]

    def _label_logprobs(
        self, items: list[tuple[str, tuple[str, ...]]]
    ) -> list[list[float] | Failure]:
        encoded = [self._encode(prompt, labels) for prompt, labels in items]
        single = [i for i, (_, tails) in enumerate(encoded) if all(len(t) == 1 for t in tails)]
        results: list[list[float] | Failure | None] = [None] * len(items)
        scores = self.engine.next_logprobs(
            [encoded[i][0] for i in single], [[t[0] for t in encoded[i][1]] for i in single]
        )
        for i, row in zip(single, scores, strict=True):
            results[i] = row
        for i, (prompt, tails) in enumerate(encoded):
            if results[i] is None:
                results[i] = self._final_logprobs(prompt, tails)
        return results

    def _encode(self, prompt: str, labels: tuple[str, ...]) -> tuple[list[int], list[list[int]]]:
        """Token ids that all labels share, and the rest of each label.

        Prompt and label are tokenised together, since a label may join the prompt's last character.
        """
        texts = [self.encoder.quote(f"{prompt} {label}") for label in labels]
        return split_labels([self.encoder.encode(text) for text in texts])

    def _final_logprobs(self, prompt: list[int], tails: list[list[int]]) -> list[float] | Failure:
        """Log-probability of each label's last token, after its earlier ones."""
        rows = self.engine.next_logprobs(
            [prompt + tail[:-1] for tail in tails], [[tail[-1]] for tail in tails]
        )
        read: list[float] = []
        for row in rows:
            if isinstance(row, Failure):
                return row
            read.append(row[0])
        return read


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

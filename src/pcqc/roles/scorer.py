"""The diagnostic scorer: reads the evidence, gives each option a probability."""

from collections.abc import Sequence

import numpy as np

from pcqc.cases import PublicCase
from pcqc.engines.base import Engine, Failure
from pcqc.protocol import Exchange, scorer_prompt

Evidence = tuple[PublicCase, tuple[Exchange, ...]]


class Scorer:
    """s_phi of the paper: a frozen model's option probabilities (Eq. 23, Appendix B.3).

    It never learns which option is correct; the caller picks that entry from what it returns.
    """

    def __init__(self, engine: Engine, tokenizer):
        self.engine = engine
        self.tokenizer = tokenizer

    def probabilities(self, evidence: Sequence[Evidence]) -> list[np.ndarray | Failure]:
        """Option probabilities on each evidence, in the order of the case's labels.

        Each label is appended to the prompt, and the log-probability of its final token is read, as
        in the paper: of a label of several tokens the earlier ones only lead there. Labels that
        differ in a single token are read in one pass. Equal evidence is read once. A scorer that is
        served elsewhere may fail.
        """
        prompts = [scorer_prompt(case, exchanges) for case, exchanges in evidence]
        labels = [case.labels for case, _ in evidence]
        unique = list(dict.fromkeys(zip(prompts, labels, strict=True)))
        results = dict(zip(unique, self._label_logprobs(unique), strict=True))
        return [_normalise(results[key]) for key in zip(prompts, labels, strict=True)]

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
        """Token ids that all labels share, and each label's own rest.

        Tokenising prompt and label together finds the tokens that the model knows, also where a
        label joins the prompt's last character.
        """
        whole = [
            self.tokenizer.encode(f"{prompt} {label}", add_special_tokens=False) for label in labels
        ]
        shared = 0
        while all(len(w) > shared + 1 and w[shared] == whole[0][shared] for w in whole):
            shared += 1
        return whole[0][:shared], [w[shared:] for w in whole]

    def _final_logprobs(self, prompt: list[int], tails: list[list[int]]) -> list[float] | Failure:
        """Of each label's last token, after its others."""
        rows = self.engine.next_logprobs(
            [prompt + tail[:-1] for tail in tails], [[tail[-1]] for tail in tails]
        )
        for row in rows:
            if isinstance(row, Failure):
                return row
        return [row[0] for row in rows]


def _normalise(logprobs: list[float] | Failure) -> np.ndarray | Failure:
    if isinstance(logprobs, Failure):
        return logprobs
    weights = np.exp(np.array(logprobs) - max(logprobs))
    return weights / weights.sum()

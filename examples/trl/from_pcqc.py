"""An update of this repository as rows for `PCQCTrainer`."""

from collections.abc import Mapping, Sequence

import numpy as np

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.training_sequence import TrainingSequence
from turn_credit import Term
from turn_credit.adapters.trl import Rows


def rows_of(sequences: Sequence[TrainingSequence], coefficients: Mapping[str, float]) -> Rows:
    """Rows of the sequences that a method's `collect_rollouts` made.

    Args:
        sequences: of consultations and of candidates.
        coefficients: weight of the terminal and of the question term.
    """
    if not sequences:
        return Rows([], [], {}, [])
    # TRL pads prompts and completions apart: with prompts alike, neither is padded by much.
    start = min(int(np.argmax(sequence.selected)) for sequence in sequences)
    terms = {}
    for name in (TERMINAL, QUESTION):
        spans, credits = [], []
        for row, sequence in enumerate(sequences):
            if name in sequence.terms:
                term = sequence.terms[name]
                for token in np.flatnonzero(term.weights):
                    spans.append((row, token - start, token - start + 1))
                    credits.append(term.advantages[token])
        if spans and coefficients.get(name):
            terms[name] = Term(spans, credits, coefficients[name])
    return Rows(
        [sequence.tokens[:start] for sequence in sequences],
        [sequence.tokens[start:] for sequence in sequences],
        terms,
        [None] * len(sequences),
        [own[start:] if len(own := s.engine_logprobs) else None for s in sequences],
    )

"""Option probabilities: each label's final token, in one pass where labels are single tokens."""

import numpy as np
import pytest
from helpers import ROUNDING, make_case, make_tokenizer, plain_logprobs

from pcqc.cases.prompts import Exchange, scorer_prompt
from pcqc.engines.transformers import TransformersEngine
from pcqc.roles import Scorer

EXCHANGE = Exchange("any cough?", "No cough.")


def expected(model, tokenizer, case, exchanges) -> np.ndarray:
    """eq:scorer_option_probabilities: each label's final token, by a plain pass over both."""
    final = []
    for label in case.labels:
        ids = tokenizer.encode(f"{scorer_prompt(case, exchanges)} {label}")
        final.append(float(plain_logprobs(model, ids)[-2, ids[-1]]))
    weights = np.exp(np.array(final) - max(final))
    return weights / weights.sum()


def test_single_token_labels_are_read_in_one_pass(model, tokenizer):
    case = make_case().public
    scorer = Scorer(TransformersEngine(model), tokenizer)
    rows = scorer.probabilities([(case, ()), (case, (EXCHANGE,))])
    for probabilities, exchanges in zip(rows, [(), (EXCHANGE,)], strict=True):
        assert probabilities.sum() == pytest.approx(1)
        np.testing.assert_allclose(
            probabilities, expected(model, tokenizer, case, exchanges), atol=ROUNDING
        )
    assert not np.allclose(rows[0], rows[1])


@pytest.mark.parametrize(
    "options",
    [
        {"A": "flu", "H": "cold"},  # " H" is two tokens here, " A" one
        {"AB": "flu", "AC": "cold"},  # tokens of the labels are shared, too
        {"E": "flu", "F": "cold", "G": "croup"},
    ],
)
def test_of_labels_of_several_tokens_the_last_is_read(model, tokenizer, options):
    case = make_case(options=options, answer=next(iter(options))).public
    (probabilities,) = Scorer(TransformersEngine(model), tokenizer).probabilities([(case, ())])
    np.testing.assert_allclose(probabilities, expected(model, tokenizer, case, ()), atol=ROUNDING)


def test_labels_that_join_the_prompts_last_character(model):
    """Where `: A` is one token, prompt and label are tokenised together."""
    tokenizer = make_tokenizer([f":{label}" for label in (" A", " B")])
    case = make_case(options={"A": "flu", "B": "cold"}).public
    (probabilities,) = Scorer(TransformersEngine(model), tokenizer).probabilities([(case, ())])
    ids = [tokenizer.encode(f"{scorer_prompt(case, ())} {label}") for label in "AB"]
    assert ids[0][:-1] == ids[1][:-1]
    rows = plain_logprobs(model, ids[0])[-2]
    weights = np.exp([float(rows[ids[0][-1]]), float(rows[ids[1][-1]])])
    np.testing.assert_allclose(probabilities, weights / weights.sum(), atol=ROUNDING)


def test_equal_evidence_is_read_once(model, tokenizer):
    case, read = make_case().public, []

    class Counting(TransformersEngine):
        def next_logprobs(self, prompts, choices):
            read.extend(prompts)
            return super().next_logprobs(prompts, choices)

    scorer = Scorer(Counting(model), tokenizer)
    probabilities = scorer.probabilities([(case, (EXCHANGE,))] * 5 + [(case, ())])
    assert len(read) == 2
    assert all((row == probabilities[0]).all() for row in probabilities[:5])
    assert scorer.probabilities([]) == []

"""Option probabilities: of each label's tokens, in one pass where labels are single tokens."""

import numpy as np
import pytest
from helpers import ROUNDING, make_case, make_tokenizer, plain_logprobs
from scripted_engine import ScriptedEngine

from pcqc.cases.prompts import Exchange, scorer_prompt
from pcqc.engines.transformers import TransformersEngine
from pcqc.roles import Scorer
from pcqc_base.errors import UserError

EXCHANGE = Exchange("any cough?", "No cough.")


def expected(model, tokenizer, case, exchanges) -> np.ndarray:
    """eq:scorer_option_probabilities, with each label's own tokens, by a plain pass over both."""
    prompt = len(tokenizer.encode(scorer_prompt(case, exchanges)))
    logprobs = []
    for label in case.labels:
        ids = tokenizer.encode(f"{scorer_prompt(case, exchanges)} {label}")
        rows = plain_logprobs(model, ids)
        logprobs.append(sum(float(rows[i - 1, ids[i]]) for i in range(prompt, len(ids))))
    weights = np.exp(np.array(logprobs) - max(logprobs))
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
        {str(n): f"disease {n}" for n in range(1, 11)},  # " 10" begins as " 1" does
    ],
)
def test_of_labels_of_several_tokens_all_are_read(model, tokenizer, options):
    case = make_case(options=options, answer=next(iter(options))).public
    (probabilities,) = Scorer(TransformersEngine(model), tokenizer).probabilities([(case, ())])
    np.testing.assert_allclose(probabilities, expected(model, tokenizer, case, ()), atol=ROUNDING)


def test_a_label_that_begins_like_another_is_as_likely_as_all_its_tokens(tokenizer):
    """P(1) = 0.3, P(2) = 0.5, and 0 follows 1 in 0.4: 10 has 0.12 of 0.92, though 0 is likely."""
    case = make_case(options={"1": "flu", "2": "cold", "10": "croup"}, answer="1").public
    one, two, zero = tokenizer.convert_tokens_to_ids(["1", "2", "0"])
    chances = {(one, two): [0.3, 0.5], (zero,): [0.4]}
    engine = ScriptedEngine(scores=lambda prompt, ids: np.log(chances[tuple(ids)]).tolist())
    (probabilities,) = Scorer(engine, tokenizer).probabilities([(case, ())])
    np.testing.assert_allclose(probabilities, [0.3 / 0.92, 0.5 / 0.92, 0.12 / 0.92])
    first, second = engine.prompts
    assert second == (*first, one)


def test_logits_that_are_no_numbers_are_no_utility(tokenizer):
    engine = ScriptedEngine(scores=lambda prompt, ids: [np.nan] * len(ids))
    with pytest.raises(UserError, match="its logits are not finite; check the weights"):
        Scorer(engine, tokenizer).probabilities([(make_case().public, ())])


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

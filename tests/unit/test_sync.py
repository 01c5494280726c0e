"""An engine with other weights than the learner's is found, whatever numbers it gives."""

import math

import pytest

from pcqc.engines.sync import WeightSync
from pcqc.errors import UserError

PROMPTS = [[1, 2], [3], [4, 5]]


class Engine:
    """Gives every token the same log-probability, but for one prompt."""

    def __init__(self, prompt=None, value=0.0):
        self.prompt, self.value = prompt, value

    def load_weights(self, weights):
        list(weights)

    def next_logprobs(self, prompts, choices):
        return [
            [self.value if number == self.prompt else -1.0 for _ in row]
            for number, row in enumerate(choices)
        ]


def learner(prompts, choices):
    return [[-1.0 for _ in row] for row in choices]


def test_equal_weights_have_no_gap():
    assert WeightSync(Engine(), learner, PROMPTS, 0.1)([]) == 0


@pytest.mark.parametrize("prompt", range(len(PROMPTS)))
@pytest.mark.parametrize(("value", "words"), [(-1.5, "by 0.5"), (math.nan, "by nan")])
def test_a_gap_is_found_at_every_prompt(prompt, value, words):
    with pytest.raises(UserError, match=rf"differ {words}.*after prompt {prompt}"):
        WeightSync(Engine(prompt, value), learner, PROMPTS, 0.1)([])

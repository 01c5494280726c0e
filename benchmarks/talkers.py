"""Models that talk for as long as they are told to: random weights, replies of a stated length.

What a token says is copied into a few dimensions of the residual stream, and the output layer turns
these into the chances of what may follow. The layers between compute as those of any model and add
little. So replies are questions, answers and diagnoses whose lengths are known, and whose words
still depend on all that was said before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from transformers import Qwen3ForCausalLM

from pcqc.clinic.pretrain import make_model
from pcqc.study import ScratchModel

NEVER = -30.0  # log-probability
FAINT = 0.02  # of a token's own dimensions, and of what the layers add


@dataclass(frozen=True)
class Lengths:
    """Of replies: a mixture of two geometric distributions, which has a long tail.

    Attributes:
        short, long: mean number of words.
        share: of the long ones.
    """

    short: float
    long: float
    share: float

    @property
    def mean(self) -> float:
        return (1 - self.share) * self.short + self.share * self.long

    @property
    def spread(self) -> float:
        """Standard deviation by mean; 1 for the geometric distribution, but for rounding."""
        second = (1 - self.share) * 2 * self.short**2 + self.share * 2 * self.long**2
        return (second / self.mean**2 - 1) ** 0.5


Following = Mapping[str, float]


def speech(lengths: Lengths, openings: Sequence[str], final: float, end: str) -> dict:
    """Which class of tokens follows which, and how likely.

    Args:
        lengths: of questions and answers.
        openings: after which words follow.
        final: chance that the doctor gives a diagnosis where it could ask.
        end: the token that ends a reply.
    """
    words = {"short": 1 - lengths.share, "long": lengths.share}
    return {
        "assistant\n": {"Question:": 1 - final, "Final Answer:": final},
        "Final Answer:": {" A": 1.0},
        " A": {end: 1.0},
        **dict.fromkeys(openings, words),
        "short": {"short": 1 - 1 / lengths.short, end: 1 / lengths.short},
        "long": {"long": 1 - 1 / lengths.long, end: 1 / lengths.long},
    }


def talker(settings: ScratchModel, tokenizer, lengths: Lengths, final: float) -> Qwen3ForCausalLM:
    """A model whose questions and answers have these lengths.

    Args:
        settings: sizes and seed.
        tokenizer: the clinic's.
        lengths: of questions and answers, in words.
        final: chance of a diagnosis at every turn.
    """
    vocabulary = tokenizer.get_vocab()
    plain = sorted(word for word in vocabulary if word.isalpha() and word.islower())
    members = {"short": plain[::2], "long": plain[1::2]}
    chain = speech(lengths, ("Question:", "</think>"), final, tokenizer.eos_token)
    ids = {
        name: [vocabulary[word] for word in members.get(name, [name])]
        for name in {*chain, *(to for after in chain.values() for to in after)}
    }
    model = make_model(replace(settings, initialization=0.05), len(vocabulary), tokenizer)
    with torch.no_grad():
        _set_output(model, chain, ids)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(FAINT)
            layer.mlp.down_proj.weight.mul_(FAINT)
    return model


def _set_output(
    model: Qwen3ForCausalLM, chain: Mapping[str, Following], ids: Mapping[str, Sequence[int]]
) -> None:
    """Write the chain into embeddings and output layer, which are untied for it."""
    embedding = model.model.embed_tokens.weight
    vocabulary, width = embedding.shape
    model.config.tie_word_embeddings = False
    output = torch.randn(vocabulary, width) * FAINT
    embedding.copy_(torch.randn(vocabulary, width) * FAINT)
    size = (FAINT**2 + 1 / width) ** 0.5  # root mean square of a token with its class
    for dimension, (name, after) in enumerate(chain.items()):
        embedding[:, dimension] = 0
        embedding[ids[name], dimension] = 1
        output[:, dimension] = NEVER * size
        for to, chance in after.items():
            share = torch.tensor(max(chance, 1e-12) / len(ids[to]))
            output[ids[to], dimension] = share.log() * size
    model.lm_head.weight = torch.nn.Parameter(output)

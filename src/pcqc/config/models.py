"""Settings of models: where they come from, how they sample, what runs them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ScratchModel:
    """A Qwen3-architecture model trained from scratch: the stand-in for pretrained weights."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int  # of the feed-forward layers
    initialization: float  # standard deviation; must fit the width
    documents_per_step: int
    learning_rate: float  # of AdamW; Muon's is five times this
    warmup_steps: int
    look_up_loss: float  # loss at which the next, harder level of look-ups begins
    summary_loss: float  # loss on summaries at which the mixture of all texts begins
    mixture_steps: int
    most_steps: int  # the curriculum moves on by what was learned; this bounds it
    seed: int


@dataclass(frozen=True)
class Decoding:
    """How a role samples."""

    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Engine:
    """What generates tokens."""

    kind: Literal["transformers"] = "transformers"
    batch_size: int = 256  # sequences decoded at once
    cache_tokens: int = 262144  # size of the prefix cache
    dtype: Literal["float32", "bfloat16"] = "float32"

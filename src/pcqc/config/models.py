"""Settings of models: where they come from, how they sample, what runs them."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from pcqc.settings import Count, Positive, Range, Weight, Whole


@dataclass(frozen=True)
class ScratchModel:
    """A Qwen3-architecture model trained from scratch: the stand-in for pretrained weights."""

    width: Count
    layers: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    hidden: Count  # of the feed-forward layers
    initialization: Positive  # standard deviation; must fit the width
    documents_per_step: Count
    learning_rate: Positive  # of AdamW; Muon's is five times this
    warmup_steps: Whole
    look_up_loss: Positive  # loss at which the next, harder level of look-ups begins
    summary_loss: Positive  # loss on summaries at which the mixture of all texts begins
    mixture_steps: Whole
    most_steps: Count  # the curriculum moves on by what was learned; this bounds it
    seed: int


@dataclass(frozen=True)
class Pretrained:
    """Weights made elsewhere.

    With `gguf`, `source` is an installed package that carries that file; with `revision`, a Hugging
    Face repository; with neither, a local folder.
    """

    source: str
    revision: str | None = None  # commit of the repository
    gguf: str | None = None  # file name within the package
    dtype: Literal["float32", "bfloat16"] | None = None  # engine.dtype where not given

    def __post_init__(self):
        if self.revision and self.gguf:
            raise ValueError("'revision' is of a repository and 'gguf' of a package: give one")

    def same_weights(self, other: "Pretrained") -> bool:
        """Whether the other names the same weights, whatever its dtype."""
        return dataclasses.replace(self, dtype=None) == dataclasses.replace(other, dtype=None)


@dataclass(frozen=True)
class Models:
    """Which pretrained weights each role of a real study starts from."""

    actor: Pretrained
    patient: Pretrained | None = None  # the actor's where not given
    scorer: Pretrained | None = None  # frozen as it is; the actor's where not given


@dataclass(frozen=True)
class Decoding:
    """How a role samples."""

    temperature: Weight  # 0 takes the likeliest token
    top_p: Annotated[float, Range(above=0, most=1)]
    max_tokens: Count


@dataclass(frozen=True)
class Engine:
    """What generates tokens."""

    kind: Literal["transformers", "vllm"] = "transformers"
    # vllm: whether it runs within the learner's process or in a process of its own, which several
    # learners side by side need
    process: Literal["learner", "own"] = "learner"
    batch_size: Count = 256  # sequences decoded at once
    cache_tokens: Whole = 262144  # size of the prefix cache; vllm: of all keys and values
    dtype: Literal["float32", "bfloat16"] = "float32"
    # vllm: largest tolerated |log pi_learner - log pi_engine| on fixed prompts after new weights;
    # where not given, 0.001 at float32 and 1 at bfloat16
    sync_tolerance: Positive | None = None


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server of vLLM that a frozen role is reached at."""

    url: str  # such as http://127.0.0.1:8000
    timeout_seconds: Positive = 60.0  # of one attempt
    attempts: Count = 5
    backoff_seconds: Weight = 0.5  # before the second attempt, doubled before each further one
    concurrent: Count = 64  # requests under way at once

    def __post_init__(self):
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("'url' must begin with http:// or https://")


@dataclass(frozen=True)
class Servers:
    """Frozen roles that are served elsewhere; the others run within the job."""

    patient: Server | None = None
    scorer: Server | None = None

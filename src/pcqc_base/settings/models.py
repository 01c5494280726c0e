"""Settings of models: their weights, how they sample, and the engines that run them."""

import dataclasses
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import (
    STRICT,
    Count,
    Positive,
    Seconds,
    Share,
    Weight,
    Whole,
    matching,
)

# A pattern of addresses, and what they must be. A password or a token in one would reach manifests
# and reports.
ADDRESS = (
    r"https?://[\w.-]+(:\d{1,5})?(/[\w./-]*)?|https?://\[[0-9a-fA-F:]+\](:\d{1,5})?(/[\w./-]*)?",
    "an address such as http://127.0.0.1:8000, without user, password or query",
)


@dataclass(frozen=True, config=STRICT)
class ScratchModel:
    """A Qwen3-architecture model trained from scratch: the stand-in for pretrained weights."""

    width: Count
    layers: Count
    heads: Count
    kv_heads: Count
    head_dim: Annotated[int, Field(ge=2, multiple_of=2)]  # rotary embedding turns pairs
    hidden: Count  # of the feed-forward layers
    initialization: Positive  # standard deviation; must fit the width
    documents_per_step: Count
    learning_rate: Positive  # of AdamW; Muon's is five times this
    warmup_steps: Whole
    look_up_loss: Positive  # loss at which the next, harder level of look-ups begins
    summary_loss: Positive  # loss on summaries at which the mixture of all texts begins
    mixture_steps: Count  # of a round; rounds follow until the model is sound
    least_patient_accuracy: Share  # of a sound model, as patient on fresh cases
    most_scorer_gap: Share  # of a sound model: the exact posterior's accuracy less the scorer's
    most_steps: Count  # the curriculum moves on by what was learned; this bounds it
    seed: int
    least_rounds: Count = 1  # that a sound model has had


@dataclass(frozen=True, config=STRICT)
class Pretrained:
    """Weights made elsewhere.

    With `gguf`, `source` is an installed package that carries that file; with `revision`, a Hugging
    Face repository; with neither, a local folder, of the working directory or of this repository.
    """

    source: str
    revision: str | None = None  # commit of the repository
    gguf: str | None = None  # file name within the package
    sha256: str | None = None  # of a local folder's model.safetensors
    dtype: Literal["float32", "bfloat16"] | None = None  # default: engine.dtype

    def __post_init__(self):
        if self.revision and self.gguf:
            raise ValueError("'revision' is of a repository and 'gguf' of a package: give one")

    def same_weights(self, other: "Pretrained") -> bool:
        """Whether the other names the same weights, whatever its dtype."""
        return dataclasses.replace(self, dtype=None) == dataclasses.replace(other, dtype=None)


@dataclass(frozen=True, config=STRICT)
class Models:
    """Which pretrained weights each role of a real study starts from."""

    actor: Pretrained
    patient: Pretrained | None = None  # default: the actor's
    scorer: Pretrained | None = None  # stays frozen; default: the actor's


@dataclass(frozen=True, config=STRICT)
class Decoding:
    """How a role samples."""

    temperature: Weight  # 0: the most likely token
    top_p: Annotated[float, Field(gt=0, le=1)]
    max_tokens: Count


@dataclass(frozen=True, config=STRICT)
class Engine:
    """What generates tokens."""

    kind: Literal["transformers", "vllm"] = "transformers"
    # vllm: in the learner's process, or in its own, which several learner processes need
    process: Literal["learner", "own"] = "learner"
    batch_size: Count = 256  # sequences decoded at once
    cache_tokens: Whole = 262144  # size of the prefix cache; vllm: of all keys and values
    dtype: Literal["float32", "bfloat16"] = "float32"
    # vllm: engine and learner keep logits in float32, also where weights are bfloat16
    float32_head: bool = False
    # vllm: largest tolerated mean |log pi_learner - log pi_engine| on fixed prompts after new
    # weights; default: 0.001 at float32 and 0.5 at bfloat16
    sync_tolerance: Positive | None = None


@dataclass(frozen=True, config=STRICT)
class Server:
    """An OpenAI-compatible vLLM server of a frozen role."""

    url: Annotated[str, matching(*ADDRESS)]
    replicas: tuple[Annotated[str, matching(*ADDRESS)], ...] = ()  # further servers of its model
    timeout_seconds: Seconds = 60.0  # of one attempt
    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    # the first retry is immediate, the k-th waits about 2^(k-1) times this
    backoff_seconds: Annotated[float, Field(ge=0, le=3600)] = 0.5
    concurrent: Count = 64  # requests at once to each server


@dataclass(frozen=True, config=STRICT)
class Judge:
    """A model that judges the patient's answers: other weights than the scorer's."""

    weights: Pretrained
    server: Server | None = None  # loaded within the job where none is given


@dataclass(frozen=True, config=STRICT)
class Servers:
    """Servers of frozen roles; a role without one runs in the job."""

    patient: Server | None = None
    scorer: Server | None = None

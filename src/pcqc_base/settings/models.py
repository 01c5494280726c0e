"""Settings of models: their weights, how they sample, and the engines that run them."""

import dataclasses
import ipaddress
from dataclasses import field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue
from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import (
    STRICT,
    Count,
    Positive,
    Seconds,
    Share,
    Title,
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
# A key that stands in place of its variable is refused, and not shown.
VARIABLE = (
    r"[A-Z_][A-Z0-9_]{0,63}",
    "the name of an environment variable, in capitals; a key itself belongs in no file",
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
    """A server of a frozen role: vLLM's, with the role's weights, or one of chat completions.

    With `model` it is any server of OpenAI's chat completions, at `url` + `/chat/completions`; that
    model takes the place of the role's weights.
    """

    url: Annotated[str, matching(*ADDRESS)]
    replicas: tuple[Annotated[str, matching(*ADDRESS)], ...] = ()  # further servers of its model
    timeout_seconds: Seconds = 60.0  # of one attempt
    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    # the first retry is immediate, the k-th waits about 2^(k-1) times this
    backoff_seconds: Annotated[float, Field(ge=0, le=3600)] = 0.5
    concurrent: Count = 64  # requests at once to each server
    key: Annotated[str, matching(*VARIABLE)] | None = None  # the variable that has the API key
    model: Title | None = None  # as the server names it
    # With a model, for a scorer: so many answers, where the server gives no log-probabilities.
    asks: Annotated[int, Field(ge=2, le=10_000)] | None = None
    # With a model: fields of every request beside its own, or in their place; null leaves one out.
    body: dict[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self):
        if not self.model and (self.asks or self.body):
            raise ValueError("'asks' and 'body' are for chat completions: name the 'model' too")
        if own := sorted({"model", "messages", "stream"} & self.body.keys()):
            raise ValueError(f"'body' has '{own[0]}', which every request has of itself; remove it")
        if self.key and any(map(_readable_on_the_way, self.urls)):
            raise ValueError(
                "a key goes to this machine or over https alone: write https://, or open a tunnel "
                "and name its end, such as http://127.0.0.1:8000"
            )

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of all servers."""
        return (self.url, *self.replicas)


def _readable_on_the_way(url: str) -> bool:
    """Whether others could read what is sent there: it is neither encrypted nor stays here."""
    parts = urlsplit(url)
    try:
        here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = parts.hostname == "localhost"
    return parts.scheme == "http" and not here


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

    @property
    def chats(self) -> dict[str, Server]:
        """Role -> its server, where that is one of chat completions."""
        roles = {"patient": self.patient, "scorer": self.scorer}
        return {role: server for role, server in roles.items() if server and server.model}

"""Shapes of models, and their parameters, FLOPs and bytes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcqc_base.errors import UserError
from pcqc_base.settings import Method, Pretrained
from pcqc_base.system.checkout import local_folder
from pcqc_base.system.files import read_json
from pcqc_study.graph import Jobs
from pcqc_study.study_file import Study

BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Architecture:
    """A decoder of the Llama family: grouped-query attention, gated feed-forward, RMS norms.

    Attributes:
        hidden: width of the feed-forward layers.
        tied: whether the output layer is the embedding.
        head_norms: whether queries and keys are normalised per head, as in Qwen3.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    tied: bool
    head_norms: bool = True

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and of the output layer where it is another."""
        return self.vocabulary * self.width

    @property
    def layer_matrices(self) -> int:
        """Parameters of one layer's matrices: queries, keys, values, output; gate, up, down."""
        attention = 2 * self.width * (self.heads + self.kv_heads) * self.head_dim
        return attention + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters, shared ones once."""
        norms = 2 * self.width + 2 * self.head_dim * self.head_norms
        body = self.layers * (self.layer_matrices + norms) + self.width
        return body + self.embedding * (1 if self.tied else 2)

    @property
    def critic_parameters(self) -> int:
        """With a value per token in place of the output layer."""
        return self.parameters - (0 if self.tied else self.embedding) + self.width + 1

    def forward_flops(self, tokens: float, context: float, scored: float) -> float:
        """FLOPs of a forward pass (Kaplan et al. 2020, Section 2.1).

        Two per matrix parameter and token; in attention four per layer, head dimension and token
        seen: `Q K^T`, then the weighted sum of the values.

        Args:
            tokens: those that pass through the layers.
            context: mean number of tokens that a token attends to.
            scored: those that pass through the output layer.
        """
        attention = 4 * self.layers * self.heads * self.head_dim * context
        body = 2 * self.layers * self.layer_matrices + attention
        return tokens * body + scored * 2 * self.embedding

    def cache_bytes(self, number: int) -> int:
        """Bytes of one token's keys and values, at `number` bytes each."""
        return 2 * self.layers * self.kv_heads * self.head_dim * number

    def norm_activation_bytes(self, number: int) -> int:
        """Bytes per token of a norm: input in fp32, normalised form, statistic, and its output."""
        return self.width * (4 + 2 * number) + 4

    def layer_activation_bytes(self, number: int, dense: bool = False) -> int:
        """Bytes that one layer keeps per token for its backward pass, at `number` bytes a number.

        Counted on the layer as transformers writes it, in the manner of Korthikanti et al. 2022,
        Section 4.1. Attention keeps queries, keys, values, its output and one statistic per head;
        the feed-forward gate, its activation, up and product.

        Args:
            number: bytes of a number.
            dense: whether attention has a dense mask, for which keys and values are repeated for
                every head.
        """
        heads = self.heads + self.kv_heads
        norms = 2 * self.norm_activation_bytes(number)
        head_norms = heads * (self.head_dim * (4 + number) + 4) * self.head_norms
        kept = self.heads + (self.heads if dense else self.kv_heads)
        attention = 2 * kept * self.head_dim * number + 4 * self.heads
        return norms + head_norms + attention + 4 * self.hidden * number


def _qwen3(width: int, layers: int, heads: int, hidden: int, tied: bool) -> Architecture:
    return Architecture(width, layers, heads, 8, 128, hidden, 151936, tied)


# From the models' published config.json.
KNOWN = {
    "Qwen3-0.6B": _qwen3(1024, 28, 16, 3072, True),
    "Qwen3-1.7B": _qwen3(2048, 28, 16, 6144, True),
    "Qwen3-4B": _qwen3(2560, 36, 32, 9728, True),
    "Qwen3-8B": _qwen3(4096, 36, 32, 12288, False),
    "Qwen3-14B": _qwen3(5120, 40, 40, 17408, False),
    "SmolLM2-135M": Architecture(576, 30, 9, 3, 64, 1536, 49152, True, head_norms=False),
}
# Vocabulary of a scratch model before its tokenizer exists; the clinic's is smaller.
SCRATCH_VOCABULARY = 256


def architecture(study: Study, role: str) -> tuple[str, Architecture]:
    """Name and shape of the model that `actor`, `patient` or `scorer` starts from.

    Read from the model's folder if it exists, else from a local source's config.json, else from
    `KNOWN` by the source's name.

    Raises:
        UserError: none of these knows the model.
    """
    made = Jobs(study).base_model(role).latest / "config.json"
    if study.models is None:
        name = "from scratch"
        return (name, read_config(made)) if made.is_file() else (name, _scratch(study))
    source = getattr(study.models, role) or study.models.actor
    name = _name(source)
    for path in (made, local_folder(source.source) / "config.json"):
        if path.is_file():
            return name, read_config(path)
    known = {key.lower(): shape for key, shape in KNOWN.items()}
    if shape := known.get(name.lower()):
        return name, shape
    raise UserError(
        f"models.{role}: the shape of '{source.source}' is not known; fetch it first, or name one "
        f"of {', '.join(KNOWN)}"
    )


def update_passes(method: Method, recomputed: bool) -> int:
    """Cost of a policy's update in forward passes over its training tokens.

    Forward and backward cost three (Kaplan et al. 2020, Section 2.1). One more each for the
    reference and, if an update takes several optimiser steps, for the probabilities before it.

    Args:
        method: whose update.
        recomputed: whether the pass that gradient checkpointing adds counts.
    """
    return 3 + recomputed + ("reference" in method.needs) + method.several_steps


SIZES = (
    *("num_attention_heads", "hidden_size", "num_hidden_layers"),
    *("intermediate_size", "vocab_size"),
)
REMEDY = "copy the model's folder again"


def read_config(path: Path) -> Architecture:
    """Shape in a model folder's config.json.

    Raises:
        UserError: not a Qwen3 or Llama model.
    """
    config = read_json(path, dict[str, Any], REMEDY)
    kind = config.get("model_type")
    if kind not in ("qwen3", "llama"):
        raise UserError(
            f"{path}: model_type '{kind}' cannot be planned; use a qwen3 or llama model"
        )
    for name in SIZES:
        if not isinstance(config.get(name), int):
            raise UserError(f"{path}: no whole number '{name}'; {REMEDY}")
    heads = config["num_attention_heads"]
    return Architecture(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        hidden=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        head_norms=kind == "qwen3",
    )


def _name(source: Pretrained) -> str:
    """Last part of a repository's or folder's name, or the known name in a GGUF file's name."""
    if source.gguf:
        return next((n for n in KNOWN if n.lower() in source.gguf.lower()), source.gguf)
    return Path(source.source).name


def _scratch(study: Study) -> Architecture:
    model = study.scratch_model
    return Architecture(
        model.width,
        model.layers,
        model.heads,
        model.kv_heads,
        model.head_dim,
        model.hidden,
        SCRATCH_VOCABULARY,
        tied=True,
    )

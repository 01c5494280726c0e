"""Settings of large studies: which role runs on which devices, and what a plan assumes."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc_base.settings.types import STRICT, Count, Positive, Weight, Whole

# Sizes of the learner's buffers, which a plan counts.
# Logits held at a time: 883 tokens of Qwen3's vocabulary, more than the clinic ever has.
LOGITS = 2**27
# Gradients that DeepSpeed reduces at a time, in fp32.
BUCKET = 200_000_000


@dataclass(frozen=True, config=STRICT)
class LearnerPlacement:
    """Where the policy is trained: one process per device, each with sequences of its own."""

    devices: tuple[Whole, ...]  # counted over all nodes, from 0
    # ZeRO stage, what is sharded: 1 optimiser states, 2 gradients too, 3 weights too
    zero: Literal[1, 2, 3] = 1
    # What is kept in host memory: nothing; what a critic's steps need (master weights and moments),
    # while consultations are sampled; or the same of all that learns, always, and stepped there.
    offload: Literal["none", "critic", "optimizer"] = "none"
    gradient_checkpointing: bool = False  # recompute each layer in the backward pass
    compile: bool = False  # fuse what a layer computes beside its products, by torch.compile


@dataclass(frozen=True, config=STRICT)
class EnginePlacement:
    """Where a role generates or scores, with one or more copies of its weights.

    A job's engines have a copy in every process of the learner; a server may run elsewhere.
    """

    devices: tuple[Whole, ...]
    tensor_parallel: Count = 1  # devices that share a copy
    sleeps: bool = False  # in updates: weights to the host, cache dropped
    # The actor's keys and values: engine.cache_tokens, or more where a method leaves memory free.
    cache: Literal["engine", "free"] = "engine"


@dataclass(frozen=True, config=STRICT)
class Placement:
    """Devices, and the roles on them. Roles may share a device."""

    device: str  # kind; `pcqc plan` knows memory and speed of each
    learner: LearnerPlacement
    # Default: an engine runs on the learner's devices, a server on none of these.
    actor: EnginePlacement | None = None
    patient: EnginePlacement | None = None
    scorer: EnginePlacement | None = None
    nodes: Annotated[int, Field(ge=1, le=1024)] = 1
    devices_per_node: Annotated[int, Field(ge=1, le=64)] = 8
    # On GPUs: kernels whose results do not depend on the batch. Slower; see docs/engines.md.
    deterministic: bool = False
    # How new weights reach vLLM on a GPU: where they lie, by CUDA IPC handles, or by files.
    transfer: Literal["handles", "files"] = "handles"
    host_memory_gib: Positive | None = None  # of a node; default: not checked
    disk_gib: Positive | None = None  # for the study's results; default: not checked

    @property
    def devices(self) -> int:
        """Number of allocated devices, on all nodes."""
        return self.nodes * self.devices_per_node

    @property
    def learner_nodes(self) -> int:
        """Number of nodes on which the learner has devices."""
        return len({device // self.devices_per_node for device in self.learner.devices})


@dataclass(frozen=True, config=STRICT)
class Assumptions:
    """Memory that a plan cannot know and keeps free, in GiB."""

    reserve_gib: Weight = 4.0  # per device: context, communication, fragmentation
    engine_working_gib: Weight = 2.0  # per engine: activations, captured graphs
    learner_reserved_gib: Weight = 1.0  # its allocator's, during rollouts

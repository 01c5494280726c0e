"""Settings of large studies: which role runs on which devices, and what a plan assumes."""

from dataclasses import field, fields
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc.settings.types import STRICT, Count, Positive, Weight, Whole

# Sizes of the learner's buffers, which a plan counts.
# Logits held at a time: 883 tokens of Qwen3's vocabulary, more than the clinic ever has.
LOGITS = 2**27
# Gradients that DeepSpeed reduces at a time, in fp32.
BUCKET = 200_000_000

# Where the numbers of `Assumptions` are from.
MEDQA, PAPER = "mean on the released MedQA dialogues", "the paper's tables"
ASSUMED, OWN = "assumed", "the study's settings"


def known(default: float, source: str) -> Any:
    """A field of `Assumptions` with its default and where that is from."""
    return field(default=default, metadata={"source": source})


Utilisation = Annotated[float, Field(gt=0, le=1)]


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
    """What a plan cannot know: lengths of dialogues, and the share of the peak speed reached.

    The defaults for lengths are means on the released MedQA dialogues: prompts and facts at four
    characters a token; inquiries and tokens of an action between those that the paper reports for
    GRPO and for PCQC (2.3 and 1.5 inquiries, 473 and 321 tokens a consultation, so about 130 an
    action).
    """

    prompt_tokens: Count = known(550, MEDQA)  # instruction, initial information, question, options
    action_tokens: Count = known(130, PAPER)  # of an actor's response
    patient_prompt_tokens: Count = known(360, MEDQA)  # instruction, facts, question
    answer_tokens: Count = known(25, MEDQA)  # of a patient's answer
    inquiries: Weight = known(2.0, PAPER)  # in a consultation
    sft_conversations: Count = known(4157, PAPER)  # rows of `data.sft`, each trains one action
    # Shares of the peak: in training passes, in reading prompts, in generating with full batches.
    update_utilisation: Utilisation = known(0.4, ASSUMED)
    scoring_utilisation: Utilisation = known(0.4, ASSUMED)
    decoding_utilisation: Utilisation = known(0.1, ASSUMED)
    # Share of rollouts in which batches are full: all dialogues wait for a turn's longest reply.
    full_batches: Utilisation = known(0.3, ASSUMED)
    start_seconds: Weight = known(300.0, ASSUMED)  # of a job: imports, weights, compilation
    # New weights through /dev/shm, by one process; by handles, where each GPU gathers and copies.
    sync_gib_per_second: Positive = known(2.0, "a copy in memory, measured on a CPU")
    handles_gib_per_second: Positive = known(10.0, ASSUMED)
    saving_gib_per_second: Positive = known(0.6, "a checkpoint's hashing, measured on a CPU")
    copying_gib_per_second: Positive = known(2.0, ASSUMED)  # states, to the host, by each process
    pinned_gib_per_second: Positive = known(10.0, ASSUMED)  # to pinned memory of the host and back
    reserve_gib: Weight = known(4.0, ASSUMED)  # per device: context, communication, fragmentation
    engine_working_gib: Weight = known(2.0, ASSUMED)  # per engine: activations, captured graphs
    learner_reserved_gib: Weight = known(1.0, ASSUMED)  # its allocator's, during rollouts
    # Method -> GPU-hours that others report of a run; printed beside the plan's.
    reported_gpu_hours: dict[str, Positive] = field(default_factory=dict)

    def sources(self) -> dict[str, tuple[float, str]]:
        """Name -> value and source, of every number."""
        return {
            part.name: (value, part.metadata["source"] if value == part.default else OWN)
            for part in fields(self)
            if "source" in part.metadata
            for value in [getattr(self, part.name)]
        }

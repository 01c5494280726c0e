"""Settings of large studies: which role runs on which devices, and what a plan assumes."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pcqc.study.yaml_reader import STRICT, Count, Positive, Weight, Whole

# Sizes of the learner's buffers, which a plan counts.
# Logits held at a time: 883 tokens of Qwen3's vocabulary, more than the clinic ever has.
LOGITS = 2**27
# Gradients that DeepSpeed reduces at a time, in fp32.
BUCKET = 200_000_000

Utilisation = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class LearnerPlacement:
    """Where the policy is trained: one process per device, each with sequences of its own."""

    devices: tuple[Whole, ...]  # counted over all nodes, from 0
    # ZeRO stage, what is sharded: 0 nothing, 1 optimiser states, 2 gradients too, 3 weights too
    zero: Literal[0, 1, 2, 3] = 1
    offload: Literal["none", "optimizer"] = "none"  # what is kept in host memory
    gradient_checkpointing: bool = False  # recompute each layer in the backward pass


@dataclass(frozen=True, config=STRICT)
class EnginePlacement:
    """Where a role generates or scores, with one or more copies of its weights.

    A job's engines have a copy in every process of the learner; a server may run elsewhere.
    """

    devices: tuple[Whole, ...]
    tensor_parallel: Count = 1  # devices that share a copy
    sleeps: bool = False  # in updates: weights to the host, cache dropped


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

    prompt_tokens: Count = 550  # instruction, initial information, question, options
    action_tokens: Count = 130  # of an actor's response
    patient_prompt_tokens: Count = 360  # instruction, facts, question
    answer_tokens: Count = 25  # of a patient's answer
    inquiries: Weight = 2.0  # in a consultation
    sft_conversations: Count = 4157  # rows of `data.sft`, of which each trains one action
    update_utilisation: Utilisation = 0.4  # of the peak, in training passes
    scoring_utilisation: Utilisation = 0.4  # of the peak, in reading prompts
    decoding_utilisation: Utilisation = 0.1  # of the peak, in generating tokens with full batches
    # Share of rollouts in which batches are full: all dialogues wait for a turn's longest reply.
    # Estimated.
    full_batches: Utilisation = 0.3
    start_seconds: Weight = 300.0  # of a job: imports, weights, engines that compile. Estimated
    sync_gib_per_second: Positive = 2.0  # through /dev/shm, by one process: a copy in memory
    saving_gib_per_second: Positive = 0.6  # checkpoints, as one process hashes
    copying_gib_per_second: Positive = 2.0  # states, to the host, by each process. Estimated
    reserve_gib: Weight = 4.0  # per device: context, communication, fragmentation
    engine_working_gib: Weight = 2.0  # per device and engine: activations, captured graphs
    learner_reserved_gib: Weight = 1.0  # per device: what its allocator keeps during rollouts

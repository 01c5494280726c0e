"""Settings of large studies: which role sits on which devices, and what a plan assumes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pcqc.settings import Count, Positive, Range, Weight, Whole

Utilisation = Annotated[float, Range(above=0, most=1)]


@dataclass(frozen=True)
class LearnerPlacement:
    """Where the policy is trained: one process per device, each with sequences of its own."""

    devices: tuple[Whole, ...]  # counted over all nodes, from 0
    # ZeRO stage: what the processes split among them instead of each holding all of it.
    # 0 nothing, 1 the optimiser's states, 2 gradients too, 3 weights too
    zero: Literal[0, 1, 2, 3] = 0
    offload: Literal["none", "optimizer"] = "none"  # what is kept in the host's memory
    gradient_checkpointing: bool = False  # recompute each layer in the backward pass


@dataclass(frozen=True)
class EnginePlacement:
    """Where a role generates or scores: copies of its weights, side by side.

    A job's engines have a copy in every process of the learner; a server (`servers`) may be spread
    otherwise.
    """

    devices: tuple[Whole, ...]
    tensor_parallel: Count = 1  # devices that share a copy
    sleeps: bool = False  # makes room while the learner updates: weights to the host, cache dropped


@dataclass(frozen=True)
class Placement:
    """Devices, and the roles on them. Roles may share a device."""

    device: str  # kind; `pcqc plan` knows memory and speed of each
    learner: LearnerPlacement
    # Where not given, an engine is on the learner's devices, a server on none of these.
    actor: EnginePlacement | None = None
    patient: EnginePlacement | None = None
    scorer: EnginePlacement | None = None
    nodes: Count = 1
    devices_per_node: Count = 8
    host_memory_gib: Positive | None = None  # of a node; not checked where not given
    disk_gib: Positive | None = None  # for the study's results; not checked where not given

    @property
    def devices(self) -> int:
        """Number of allocated devices, on all nodes."""
        return self.nodes * self.devices_per_node


@dataclass(frozen=True)
class Assumptions:
    """What a plan cannot know: lengths of dialogues, and what part of the peak speed is reached.

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
    decoding_utilisation: Utilisation = 0.1  # of the peak, in generating tokens
    reserve_gib: Weight = 4.0  # per device: context, communication, fragmentation
    engine_working_gib: Weight = 2.0  # per device and engine: activations, captured graphs

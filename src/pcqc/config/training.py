"""Settings of consultations and of training: protocol, SFT, RL, methods."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Protocol:
    """Limits and words of a consultation (Section 4.1 and Appendix A of the paper)."""

    instruction: str  # system message of the actor
    max_turns: int = 10  # actor turns, the final answer included
    prompt_tokens: int = 1024
    response_tokens: int = 4096  # everything after the prompt, answers of the patient included
    action_tokens: int = 512
    earlier_thinking: Literal["keep", "drop"] = "keep"  # in the history, in SFT, RL and evaluation


@dataclass(frozen=True)
class Sft:
    """Supervised fine-tuning on assistant tokens (Appendix A)."""

    epochs: int  # of the actor
    patient_epochs: int  # the patient is the checkpoint after these
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Rl:
    """Policy optimisation, shared by all methods (Appendix A)."""

    cases_per_update: int
    learning_rate: float
    checkpoint_every: int  # updates between checkpoints, each validated on the development set
    weight_decay: float = 0.01
    clip: float = 0.2
    max_gradient_norm: float = 1.0
    save_every: int = 10  # updates between resumable states
    tokens_per_micro_batch: int = 16384
    gap_alarm: float = 0.05  # largest tolerated |log pi_learner - log pi_engine| of a sampled token
    sampled_consultations: int = 8  # per update, kept to read


@dataclass(frozen=True)
class Method:
    """A method or control; see `config/methods.yaml`."""

    title: str
    kind: Literal["sft", "rl"] = "rl"
    role: Literal["method", "control"] = "method"
    terminal_group: int = 4  # G_T, complete consultations per case
    question_group: int = 0  # G_Q, candidate responses per supervised state; 0 draws none
    question_credit: Literal["none", "same_state", "executed_local"] = "none"
    supervise: Literal["all", "executed"] = "all"  # whose question tokens receive credit
    beta: float = 0.0  # weight of the question loss
    kl_coefficient: float = 0.001
    updates: int = 222
    runs: tuple[str, ...] = ("A", "B", "C")

    def __post_init__(self):
        if self.question_credit != "none" and self.question_group < 2:
            raise ValueError("question credit needs question_group >= 2 candidates to compare")
        if self.question_credit == "none" and self.beta:
            raise ValueError("beta weighs a question loss, but question_credit is none")
        if self.question_credit == "executed_local" and self.supervise != "executed":
            raise ValueError("executed_local credits executed questions: set supervise: executed")

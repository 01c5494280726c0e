"""What the tests of the learner train on: a function of the update's number alone."""

import dataclasses

import numpy as np
import torch
from helpers import tiny_model

from pcqc.methods.atpo.critic import Critic
from pcqc.methods.atpo.settings import TreeSearch
from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training.backend import adamw_backend
from pcqc.training.policy import Policy
from pcqc.training.supervised import Example
from pcqc.training.training_sequence import KL, Term, TrainingSequence, ValueSequence
from pcqc_base.settings import Rl, Sft

RL = Rl(
    cases_per_update=2,
    learning_rate=1e-2,
    checkpoint_every=1,
    max_gradient_norm=2.0,
    tokens_per_micro_batch=60,
)
COEFFICIENTS = {TERMINAL: 1.0, QUESTION: 0.7, KL: 0.05}
# As RL, unclipped and in one micro-batch.
UNCLIPPED = Rl(cases_per_update=2, learning_rate=1e-2, checkpoint_every=1, max_gradient_norm=1e9)
UPDATES, SAVED = 3, 2  # a state is kept after the second
ENDING = 2
SFT = Sft(
    epochs=3,
    patient_epochs=1,
    batch_size=3,
    learning_rate=1e-2,
    max_gradient_norm=0.5,
    seed=4,
)


def sequences(seed: int = 0, count: int = 10) -> list[TrainingSequence]:
    """Random sequences; some carry terminal and KL terms, some question terms, some both."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        length = int(rng.integers(6, 40))
        tokens = rng.integers(3, 120, length).tolist()
        terms = {}
        if i % 3 != 1:
            terminal = Term.zeros(length)
            terminal.select(length // 2, length, float(rng.normal()))
            terms = {TERMINAL: terminal, KL: Term(terminal.weights, np.zeros(length))}
        if i % 3:
            question = Term.zeros(length)
            question.select(length - 3, length, float(rng.normal()))
            terms[QUESTION] = question
        made.append(TrainingSequence(tokens, terms, np.zeros(length)))
    return made


def examples() -> list[list[Example]]:
    """Conversations of one or two sequences, the second half of each to be learned."""
    rng, made = np.random.default_rng(1), []
    for i in range(8):
        parts = [rng.integers(3, 120, int(n)).tolist() for n in rng.integers(6, 30, 1 + i % 2)]
        halves = [len(tokens) // 2 for tokens in parts]
        made.append(
            [
                Example(t, [0.0] * h + [1.0] * (len(t) - h))
                for t, h in zip(parts, halves, strict=True)
            ]
        )
    return made


def value_sequences(seed: int = 0, count: int = 5) -> list[ValueSequence]:
    """Random sequences with targets at their last tokens."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        length = int(rng.integers(8, 30))
        targets, old = np.full((2, length), np.nan)
        targets[-ENDING:], old[-ENDING:] = rng.normal(), rng.normal(size=ENDING)
        made.append(ValueSequence(rng.integers(3, 120, length).tolist(), targets, old))
    return made


def critic(backend=adamw_backend, seed: int = 2, rl: Rl = RL, **settings) -> Critic:
    """A critic whose head has something to say; `settings` are of the tree's search."""
    tree = TreeSearch(critic_learning_rate=1e-2, **settings)

    def made(module, *arguments):
        torch.manual_seed(seed)
        torch.nn.init.normal_(module.head.weight, std=0.1)
        return backend(module, *arguments)

    return Critic(tiny_model(seed).model, ENDING, tree, rl, made)


def gradients(model) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()]).double()


def learned(learner: Policy | Critic, *batch):
    """What an update of a batch reports, and the gradient of its step."""
    used = []
    learner.backend.optimizers[0].register_step_pre_hook(
        lambda *_: used.append(gradients(learner.model))
    )
    return learner.update(*batch), used[0]


def updated(seqs, coefficients=COEFFICIENTS, **changes):
    """(report, gradient) of one update of a fresh model whose reference is another model."""
    model, reference = tiny_model(0), tiny_model(1)
    policy = Policy(model, reference, dataclasses.replace(UNCLIPPED, **changes))
    return learned(policy, seqs, coefficients)

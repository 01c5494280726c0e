"""A study's own path, once: learner, engines, one sample, new weights, one label, one step.

All of it is built as a run builds it and nothing is kept. Where a clinic's models are not made yet,
random ones of their shape stand in.
"""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.doctor.findings import Finding, tried
from pcqc.engines.base import Failure
from pcqc.errors import UserError
from pcqc.jobs.engines import Engines
from pcqc.jobs.learner import make_backend
from pcqc.jobs.setup import Weights, make_engine, role_weights, start_weights
from pcqc.methods.sequences import TERMINAL
from pcqc.models.folder import load_tokenizer, save_model
from pcqc.planning.devices import GIB
from pcqc.planning.memory import longest
from pcqc.planning.work import trained
from pcqc.roles import Actor, Patient, Scorer
from pcqc.roles.patient import Inquiry
from pcqc.study import Study
from pcqc.study.instruction import read_instruction
from pcqc.system.determinism import single_threaded
from pcqc.system.processes import Processes
from pcqc.training.policy import Policy
from pcqc.training.sequences import KL, Term, TrainingSequence

CASE = Case(
    "doctor", "doctor", "Has cough.", "Which?", {"A": "flu", "B": "cold"}, ("Has fever.",), "A"
)
MEGABYTES = 64  # of the all-reduce


def trial(study: Study, processes: Processes) -> Iterator[Finding]:
    """The steps one after another; after a red one the others are not tried."""
    single_threaded(study.deterministic)
    with tempfile.TemporaryDirectory(prefix="pcqc-doctor-") as folder:
        made = Trial(study, processes, Path(folder))
        ended = ""
        for name, step in made.steps.items():
            if ended:
                yield Finding(name, f"not tried after '{ended}'", skipped=True)
            else:
                found = tried(name, step)
                ended = name if found.remedy else ""
                yield found


class Trial:
    """What the steps share."""

    def __init__(self, study: Study, processes: Processes, folder: Path):
        self.study, self.processes, self.folder = study, processes, folder
        self.awake = ExitStack()
        self.steps = {
            "all-reduce": self.all_reduce,
            "learner": self.learner,
            "engines": self.start,
            "new weights": self.sync,
            "generate": self.generate,
            "label": self.label,
            "optimiser step": self.step,
        }

    def all_reduce(self) -> str:
        """Sum a tensor over the learner's processes; NCCL does it on GPUs."""
        if (count := self.processes.count) == 1:
            return "the learner is one process"
        import torch.distributed as dist

        device = "cuda" if torch.cuda.is_available() else "cpu"
        tensor = torch.ones(MEGABYTES * 2**18, device=device)
        dist.all_reduce(tensor)  # connects
        start = time.perf_counter()
        dist.all_reduce(tensor)
        found = float(tensor[-1])
        seconds = time.perf_counter() - start
        if found != count**2:
            raise UserError(
                f"{count} processes sum up to {found:g}; check NCCL with NCCL_DEBUG=INFO"
            )
        return f"{count} processes by {dist.get_backend()}, {MEGABYTES / 1024 / seconds:.2f} GiB/s"

    def learner(self) -> str:
        """Model, reference and optimiser."""
        start, study = time.perf_counter(), self.study
        self.weights = {role: self._weights(role) for role in ("actor", "patient", "scorer")}
        self.instruction = read_instruction(study)
        model = self.weights["actor"].load()
        used = trained(study).values()
        penalised = any(method.kl_coefficient for method in used)
        reference = self.weights["actor"].load() if penalised else None
        # No engine samples what it learns from, so there is no gap to alarm at.
        self.policy = Policy(model, reference, study.rl, make_backend(study, self.processes), None)
        self.shared = model if self.policy.backend.unsharded else None
        self.scored = any(method.scored for method in used)
        return f"loaded in {time.perf_counter() - start:.1f} s"

    def _weights(self, role: str) -> Weights:
        """As the role takes part, else as it starts, else random of the clinic's shape."""
        for weights in (role_weights(self.study, role), start_weights(self.study, role)):
            if (weights.folder / "manifest.json").exists():
                return weights
        if self.study.scratch_model is None:
            raise UserError(f"{weights.folder}: no weights; run `pcqc models {self.study.name}`")
        return self._random(weights)

    def _random(self, weights: Weights) -> Weights:
        from pcqc.clinic.pretrain import make_model
        from pcqc.clinic.tokenizer import make_tokenizer
        from pcqc.clinic.world import make_world

        if not (made := self.folder / "random").exists():
            tokenizer = make_tokenizer(make_world(self.study.clinic), read_instruction(self.study))
            model = make_model(self.study.scratch_model, len(tokenizer), tokenizer)
            save_model(made, model, tokenizer)
        return Weights(made, weights.dtype, weights.remedy)

    def start(self) -> str:
        """The engines of all roles that the study uses, beside the learner."""
        start, study, chats = time.perf_counter(), self.study, {}
        for role in ("actor", "patient"):
            tokenizer = load_tokenizer(self.weights[role].folder)
            chats[role] = ChatFormat(tokenizer, self.instruction)
        engine = make_engine(study, "patient", self.weights["patient"])
        patient = Patient(engine, chats["patient"], study.patient_decoding)
        engine = make_engine(study, "actor", self.weights["actor"], self.shared)
        actor = Actor(engine, chats["actor"], study.actor_decoding)
        self.context = RolloutContext(actor, patient, chats["actor"], study.protocol)
        self.scorer = None
        if self.scored:
            engine = make_engine(study, "scorer", self.weights["scorer"])
            self.scorer = Scorer(engine, load_tokenizer(self.weights["scorer"].folder))
        self.engines = Engines(
            study, self.context, self.scorer, self.policy, [CASE], self.processes
        )
        return f"{len(self.engines.engines)} started in {time.perf_counter() - start:.1f} s"

    def sync(self) -> str:
        """The learner's weights to the actor's engine, and the comparison that follows."""
        start = time.perf_counter()
        health = self.awake.enter_context(self.engines.awake())
        seconds = time.perf_counter() - start
        gap = f", largest gap {health['sync/gap']:.2g}" if "sync/gap" in health else ""
        return f"taken in {seconds:.1f} s{gap}"

    def generate(self) -> str:
        """One response of the actor, and one answer of the patient."""
        start = time.perf_counter()
        ((said,),) = self.context.actor.act([self.context.chat.open(CASE.public)], [(1,)])
        (answer,) = self.context.patient.answer([Inquiry(CASE.facts, "Any fever?", 2)])
        if isinstance(answer, Failure):
            raise UserError(f"the patient's server failed ({answer}); check the server")
        seconds = time.perf_counter() - start
        return f"{len(said.tokens)} tokens of the actor and an answer in {seconds:.1f} s"

    def label(self) -> str:
        """The scorer's probabilities of one case's options."""
        if self.scorer is None:
            return "no method of the study has a scorer"
        (found,) = self.scorer.probabilities([(CASE.public, ())])
        if isinstance(found, Failure) or not math.isclose(found.sum(), 1.0, rel_tol=1e-6):
            raise UserError(f"the scorer gives {found}; check its server, or its weights")
        return f"probabilities {', '.join(f'{p:.2f}' for p in found)}"

    def step(self) -> str:
        """One optimiser step on full micro-batches of the longest sequences, engines asleep."""
        self.awake.close()
        rl, length = self.study.rl, longest(self.study, "actor")
        rows = max(1, rl.tokens_per_micro_batch // length) * self.processes.count
        first = self.study.protocol.prompt_tokens
        sequences = []
        for row in range(rows):
            credit = Term.zeros(length)
            credit.select(first, length, 1.0 if row % 2 else -1.0)
            terms = {TERMINAL: credit, KL: Term(credit.weights, np.zeros(length))}
            tokens = [(row + i) % 16 for i in range(length)]
            sequences.append(TrainingSequence(tokens, terms, np.zeros(length)))
        start = time.perf_counter()
        self.policy.update(sequences, {TERMINAL: 1.0, KL: 0.001 if self.policy.reference else 0.0})
        seconds = time.perf_counter() - start
        gpu = torch.cuda.is_available()
        peak = f", peak {torch.cuda.max_memory_allocated() / GIB:.1f} GiB" if gpu else ""
        return f"{rows} sequences of {length} tokens in {seconds:.1f} s{peak}"

"""`pcqc doctor`: the plan and the servers of a study, then the study's own path once.

The trial builds learner, engines and roles as a run does, samples, scores, and takes one step of
the optimiser; nothing is kept. Where a clinic's models are not made yet, the published ones that it
starts from or random ones of their shape stand in. Instead of the trial a few updates of a run can
be measured, which needs the study's own models.
"""

import dataclasses
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch

from pcqc.cases.case import Case
from pcqc.determinism import single_threaded
from pcqc.engines.base import Failure
from pcqc.jobs.engines import Engines
from pcqc.jobs.instruction import instruction
from pcqc.jobs.learner import make_backend
from pcqc.jobs.make_roles import Weights, checked_cases, make_context, make_scorer, weights_of
from pcqc.methods.sequences import TERMINAL
from pcqc.models.folder import save_model
from pcqc.models.pretrained import install
from pcqc.roles.patient import Inquiry
from pcqc.training.policy import Policy
from pcqc.training.training_sequence import KL, Term, TrainingSequence
from pcqc_base.errors import UserError, one_line, reason
from pcqc_base.settings import Server
from pcqc_base.system.processes import SINGLE_PROCESS, Processes, launched, leaving, require_gpu
from pcqc_base.system.terminal import show
from pcqc_base.task import Task
from pcqc_clinic.pretrain import make_model
from pcqc_clinic.tokenizer import make_tokenizer
from pcqc_clinic.world import make_world
from pcqc_gpu.engines.server import ServerEngine
from pcqc_gpu.launch import join_job, launch, processes_wanted
from pcqc_gpu.measure import measure, utilisations
from pcqc_gpu.planning.checks import require_fit
from pcqc_gpu.planning.devices import GIB
from pcqc_gpu.planning.memory import longest
from pcqc_gpu.planning.trainings import trained
from pcqc_gpu.rehearse import rehearse
from pcqc_study.graph import Jobs
from pcqc_study.run_job import rollout_task
from pcqc_study.study_file import Study

CASE = Case(
    "doctor", "doctor", "Has cough.", "Which?", {"A": "flu", "B": "cold"}, ("Has fever.",), "A"
)


def examine(
    study: Study, name: str, measured: int | None = None, method: str = "", shown: int = 0
) -> None:
    """Print a line for each check; the first that fails is the last.

    Args:
        study: its placement says how many processes take part in the trial.
        name: how the study was named to `pcqc`.
        measured: updates to measure instead of the trial.
        method: whose updates; by default one in which every role works.
        shown: cases of the development benchmark on which the trial shows prompts and replies.

    Raises:
        UserError: a check failed.
    """
    here = partial(_try_here, shown=shown)
    if measured:
        here = partial(_measure_here, method=method, updates=measured)
    if launched():
        return here(study)
    with _line("plan") as notes:
        require_fit(study)
        notes.append("the placement fits" if study.placement else "no placement to check")
    if study.placement:
        with _line("device") as notes:
            require_gpu(study.placement.device)
            notes.append(study.placement.device)
    for role, server in _servers(study).items():
        with _line(f"server {role}") as notes:
            notes.append(_server(study, role, server))
    if (count := processes_wanted(study)) > 1:
        with _line("trial") as notes:
            options = {"--measure": measured, "--method": method, "--cases": shown}
            given = [word for option, n in options.items() if n for word in (option, str(n))]
            launch(["doctor", name, *given], count)
            notes.append(f"{count} processes ended well")
    else:
        here(study)
    print(f"ready for {study.name}")


@contextmanager
def _line(name: str, processes: Processes = SINGLE_PROCESS) -> Iterator[list[str]]:
    """One line for the block: `ok`, its notes and its seconds, or `RED` and the error.

    Raises:
        UserError: whatever the block raises, since it would end a job too.
    """
    notes: list[str] = []
    start = time.perf_counter()
    try:
        yield notes
    except Exception as problem:
        text = reason(problem)
        if not isinstance(problem, UserError):
            text = f"{type(problem).__name__}: {text}; see docs/real-study.md#gpus"
        show(one_line(f"RED   {name:<17} {text}"))
        raise UserError(f"{name}: {text}") from problem
    if processes.is_main:
        notes.append(f"{time.perf_counter() - start:.1f} s")
        show(f"ok    {name:<17} {', '.join(notes)}")


def _servers(study: Study) -> dict[str, Server]:
    judges = study.continuation.judges if study.continuation else {}
    servers = {role: getattr(study.servers, role) for role in ("patient", "scorer")}
    servers |= {f"judge_{name}": judge.server for name, judge in judges.items()}
    return {role: server for role, server in servers.items() if server}


def _server(study: Study, role: str, server: Server) -> str:
    """Each server of a role answers and has its weights, or has a model of its own."""
    jobs = Jobs(study)
    notes = []
    for url in server.urls:
        alone = dataclasses.replace(server, url=url, replicas=())
        # A job is more patient with a server.
        engine = ServerEngine(dataclasses.replace(alone, timeout_seconds=10.0, attempts=2))
        if not server.model:
            weights = jobs.models().get(role) or jobs.job("base") / role
            engine.check_weights(weights.latest)
        notes.append(f"{url} {'is asked for' if server.model else 'serves'} {engine.model}")
    if server.asks:
        most = 0.5 / math.sqrt(server.asks)
        notes.append(f"{server.asks} times, so a probability's standard error is up to {most:.2f}")
    return ", ".join(notes)


def _try_here(study: Study, shown: int) -> None:
    """The trial in this process, which may be one of several: the launcher ends the others."""
    cases = _cases(study, shown) if shown else []
    processes = join_job(study)
    with leaving(processes), tempfile.TemporaryDirectory(prefix="pcqc-doctor-") as folder:
        _trial(study, processes, Path(folder), cases)


def _cases(study: Study, count: int) -> list[Case]:
    """The first cases of the development benchmark, which the workflow has made."""
    part = Jobs(study).cases(study.development)
    if not part.latest.exists():
        raise UserError(
            f"{part.latest}: no cases yet; make them with `snakemake --cores all --config "
            f"study={study.name} --until {part.job.kind} -- all`"
        )
    return checked_cases(part.latest)[:count]


def _measure_here(study: Study, method: str, updates: int) -> None:
    """The measurement in this process, which may be one of several."""
    processes = join_job(study)
    single_threaded(study.deterministic)
    with leaving(processes), _line("updates", processes) as notes:
        if record := measure(study, method, processes, updates):
            notes.append(f"{updates} of {record['method']} after a first one")
            for phase, share in utilisations(record).items():
                seconds = record["measured"][f"seconds/{phase}"]
                notes.append(f"{phase} {seconds:.3g} s at {100 * share:.3g} % of a product's speed")
            notes.append(f"gap {record['measured']['gap/mean']:.2g} a token")
            notes.append(f"`pcqc plan {study.name}` now has this method's hours")


def _trial(study: Study, processes: Processes, scratch: Path, cases: Sequence[Case]) -> None:
    """Load, start, hand over weights, sample, score, step; the first failure ends it.

    On `cases` whole consultations are held and shown.
    """
    single_threaded(study.deterministic)
    if study.clinic and study.clinic.instruction:  # its cases carry it, and none may be drawn yet
        protocol = dataclasses.replace(study.protocol, instruction=study.clinic.instruction)
        study = dataclasses.replace(study, protocol=protocol)
    methods = trained(study).values()
    task = rollout_task(study, scratch)
    with _line("learner", processes) as notes:
        own = [r for r in ("actor", "patient", "scorer") if r not in study.servers.chats]
        weights = {role: _weights(study, task, role) for role in own}
        model = weights["actor"].load()
        penalised = any("reference" in method.needs for method in methods)
        reference = weights["actor"].load() if penalised else None
        # No engine samples what it learns from, so there is no gap to alarm at.
        backend, head = make_backend(task.where, processes), study.engine.float32_head
        policy = Policy(model, reference, study.rl, backend, None, head)
        notes.append(f"{processes.count} processes")
    with _line("engines", processes) as notes:
        task = dataclasses.replace(task, inputs={**task.inputs, "actor": weights["actor"].folder})
        shared = model if policy.backend.unsharded else None
        context = make_context(task, weights["actor"], shared, weights.get("patient"))
        scores = any("scorer" in method.needs for method in methods)
        scorer = make_scorer(task, weights.get("scorer")) if scores else None
        engines = Engines(task, context, scorer, policy, [CASE], processes)
        for engine in engines.engines:  # they start side by side
            engine.wake()
        notes.append(f"{len(engines.engines)} started")
    with _line("one turn", processes) as notes, engines.awake() as health:
        if "sync/gap" in health:
            notes.append(f"new weights differ by {health['sync/gap']:.2g}")
        ((action,),) = context.actor.act([context.chat.open(CASE.public)], [(1,)])
        (answer,) = context.patient.answer([Inquiry(CASE.facts, "Any fever?", 2)])
        if isinstance(answer, Failure):
            raise UserError(f"the patient's server failed ({answer}); check the server")
        notes.append(f"{len(action.tokens)} tokens of the actor and an answer")
        if scorer:
            (read,) = scorer.probabilities([(CASE.public, ())])
            if isinstance(read, Failure) or not math.isclose(read.sum(), 1.0, rel_tol=1e-6):
                raise UserError(f"the scorer gives {read}; check its server, or its weights")
            notes.append(f"scores {', '.join(f'{p:.2f}' for p in read)}")
    if cases:
        with _line("consultations", processes), engines.awake():
            text = rehearse(context, scorer, cases)
            if processes.is_main:
                show(text)
    with _line("optimiser step", processes) as notes:
        sequences = _longest_sequences(study, processes.count)
        policy.update(sequences, {TERMINAL: 1.0, KL: 0.001 if reference else 0.0})
        notes.append(f"{len(sequences)} sequences of {len(sequences[0].tokens)} tokens")
        if torch.cuda.is_available():
            notes.append(f"peak {torch.cuda.max_memory_allocated() / GIB:.1f} GiB")


def _weights(study: Study, task: Task, role: str) -> Weights:
    """A role's weights, else those it starts from, else published or random ones."""
    dtype = study.dtype(role)
    for folder in (task.inputs[role], Jobs(study).base_model(role).latest):
        if (folder / "manifest.json").exists():
            return weights_of(folder, dtype)
    if study.synthetic and study.models:
        if not (folder := task.folder / role).exists():
            install(study.pretrained[study.starts_from(role)], folder)
        return Weights(folder, dtype)
    if study.scratch_model is None:
        raise UserError(f"{folder}: no weights; run `pcqc base {study.name}`")
    if not (folder := task.folder / "random").exists():
        tokenizer = make_tokenizer(make_world(study.clinic), instruction(task))
        save_model(folder, make_model(study.scratch_model, len(tokenizer), tokenizer), tokenizer)
    return Weights(folder, dtype)


def _longest_sequences(study: Study, processes: int) -> list[TrainingSequence]:
    """A full micro-batch of sequences of the longest length for each process."""
    length, first = longest(study, "actor"), study.protocol.prompt_tokens
    sequences = []
    for row in range(max(1, study.rl.tokens_per_micro_batch // length) * processes):
        credit = Term.zeros(length)
        credit.select(first, length, 1.0 if row % 2 else -1.0)
        terms = {TERMINAL: credit, KL: Term(credit.weights, np.zeros(length))}
        tokens = [(row + i) % 16 for i in range(length)]
        sequences.append(TrainingSequence(tokens, terms, np.zeros(length)))
    return sequences

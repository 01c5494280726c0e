"""The jobs of a study: which there are, in order, and where the result of each is."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pcqc_base.errors import UserError
from pcqc_base.settings.every_method import method_module
from pcqc_base.system.manifest import LATEST, left_out
from pcqc_base.task import CHAT, DEEPSPEED, VLLM
from pcqc_study.fingerprint import Job, Part
from pcqc_study.job_kinds import CHECKPOINTS, KINDS, RUN
from pcqc_study.study_file.study import Study

RIVALS = ("grpo", "pcqc")  # what published credits are compared with
# Jobs that the clinic does in its own way: it knows its patients.
IN_THE_CLINIC = ("train", "continuation", "grounding")


def latest(study: Study, kind: str, *arguments: str) -> Path:
    """Link to the newest result of a job, for those who only look at a study.

    Jobs are handed the exact folders that they read.
    """
    return study.results.joinpath(KINDS[kind].folder, *arguments, LATEST)


def log_path(study: Study, kind: str, *names: str) -> Path:
    """What the workflow keeps of a job's messages.

    Args:
        study: to which the job belongs.
        kind: the job's.
        names: the job's arguments, and the name of its result's folder.
    """
    return study.results / "logs" / kind / f"{'-'.join(names)}.log"


def is_archived(job: Job) -> bool:
    """Whether an archive brought a result without the cases or weights that other jobs read.

    The workflow takes it for made, but makes it again before a job that reads them.
    """
    if job.kind == "train" and (job.path / CHECKPOINTS).exists():
        return False  # of a bundle, which has the selected checkpoint
    return KINDS[job.kind].has_large and bool(left_out(job.path))


class Jobs:
    """The jobs of a study, each made once.

    Args:
        study: the settings.
        wanted: what the workflow is told to make: methods on demand, which the report will have,
            and targets such as `peers`.
    """

    def __init__(self, study: Study, wanted: Collection[str] = ()):
        self.study, self.wanted = study, wanted
        self._made: dict[tuple[str, ...], Job] = {}

    def job(self, kind: str, *arguments: str) -> Job:
        """A job by its kind and arguments, such as `job("train", "pcqc", "A")`.

        Raises:
            UserError: the study has no such job.
        """
        key = (kind, *arguments)
        if key not in self._made:
            if KINDS[kind].synthetic not in (None, self.study.synthetic):
                cases = "a synthetic clinic's" if self.study.synthetic else "real"
                raise UserError(
                    f"study '{self.study.name}' has no job '{kind}': its cases are {cases}"
                )
            if KINDS[kind].arguments == RUN:
                self.study.require(*arguments)
            folder = self.study.results.joinpath(KINDS[kind].folder, *arguments)
            settings, inputs = KINDS[kind].reads(self, *arguments)
            entries, unused = self._modules(kind, arguments)
            self._made[key] = Job(kind, arguments, folder, settings, entries, inputs, unused)
        return self._made[key]

    def _modules(self, kind: str, arguments: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Modules in which a job starts, and those that it imports and does not enter."""
        study, entry = self.study, KINDS[kind].module
        if kind == "base" and not study.models:
            entry = "pcqc_clinic.jobs.pretrain"
        if study.synthetic and kind in IN_THE_CLINIC:
            entry = f"pcqc_clinic.jobs.{kind}"
        entries, unused = [entry], []
        if KINDS[kind].on_models or KINDS[kind].shared_out:
            entries += [VLLM.partition(":")[0]] if study.engine.kind == "vllm" else []
            asked = study.servers.chats and kind != "sft"
            entries += [CHAT.partition(":")[0]] if asked else []
        if kind in ("sft", "train"):
            entries += [DEEPSPEED.partition(":")[0]] if study.placement else []
        if kind == "train":
            method = study.method(arguments[0])
            entries.append(method_module(method.method))
            unused += [] if "world" in method.needs else ["pcqc_clinic.known_world"]
        return tuple(entries), tuple(unused)

    # Parts of results that several jobs read.

    def cases(self, name: str) -> Part:
        """Cases of the training (`train`) or of a benchmark; `sft`: the SFT conversations."""
        return self.job("prepare", "train" if name == "sft" else name) / f"{name}.jsonl"

    def raw(self, name: str) -> Part | Path:
        """A raw file: one that the clinic draws, or a published one on this machine."""
        if self.study.synthetic:
            return self.job("clinic", name) / f"{name}.jsonl"
        return self.study.raw_files[name].path

    def drawn_cases(self, name: str) -> Part:
        """The raw file of a set's cases; those of SFT conversations are a file beside them."""
        return self.job("clinic", name) / f"{'cases' if name == 'sft' else name}.jsonl"

    def instruction(self) -> dict[str, Part]:
        """The actor's system message, where it is not in the settings."""
        if self.study.protocol.instruction is not None:
            return {}
        return {"instruction": self.job("instruction") / "instruction.txt"}

    def base_model(self, role: str) -> Part:
        """Weights of `actor`, `patient` or `scorer` before any fine-tuning."""
        return self.job("base") / self.study.starts_from(role)

    def models(self) -> dict[str, Part]:
        """What consultations are held with; a model behind chat completions is nobody's result."""
        sft = self.job("sft")
        roles = {"actor": sft / "actor", "patient": sft / "patient"}
        if "patient" in self.study.servers.chats:
            roles.pop("patient")
        return {**roles, **self.scorer(), **self.instruction()}

    def scorer(self) -> dict[str, Part]:
        """The scorer's weights, where it has any."""
        if "scorer" in self.study.servers.chats:
            return {}
        return {"scorer": self.base_model("scorer")}

    def world(self) -> dict[str, Part]:
        """The clinic's world, which a study of real cases lacks."""
        if not self.study.synthetic:
            return {}
        return {"world": self.job("clinic", "world") / "world.json"}

    def trained(self, method: str, run: str) -> dict[str, Job]:
        """The training of a run; Shared SFT has none."""
        return {"run": self.job("train", method, run)} if self.is_trained(method) else {}

    def chosen(self, method: str, run: str) -> dict[str, Any]:
        """A run's selected checkpoint; Shared SFT's is the actor."""
        selection = self.job("select", method, run) / "selection.json"
        return {"selection": selection, **self.trained(method, run), **self.models()}

    # Which jobs there are.

    def drawn(self) -> list[str]:
        """What the clinic draws, in order: the world, then sets of cases."""
        return ["world", "train", "sft", *self.study.benchmarks]

    @property
    def compared(self) -> list[str]:
        """Methods that `snakemake peers` compares."""
        methods = self.study.methods
        peers = [name for name, method in methods.items() if method.role == "peer"]
        return [name for name in (*RIVALS, *peers) if methods[name].runs]

    @property
    def methods(self) -> list[str]:
        """Methods and controls that `snakemake all` makes."""
        return [n for n, m in self.study.methods.items() if m.runs and not m.on_demand]

    def is_trained(self, method: str) -> bool:
        """Whether runs of the method are trained: Shared SFT is not."""
        return self.study.method(method).kind == "rl"

    def runs(self) -> list[tuple[str, str]]:
        """Method and letter of every run, those on demand among them."""
        return [(name, run) for name, m in self.study.methods.items() for run in m.runs]

    def shared(self) -> list[Job]:
        """Jobs that all runs share, in order."""
        names = self.drawn() if self.study.synthetic else []
        data = [self.job("clinic", name) for name in names]
        data += [self.job("convert", name) for name in self.study.raw_files]
        data.append(self.job("overlap"))
        if self.study.protocol.instruction is None:
            data.append(self.job("instruction"))
        data.append(self.job("base"))
        data += [self.job("prepare", name) for name in ("train", *self.study.benchmarks)]
        return [*data, self.job("sft")]

    def run(self, method: str, run: str) -> list[Job]:
        """Jobs of one run, in order."""
        kinds = ["train"] if self.is_trained(method) else []
        kinds += ["select", "evaluate"]
        if (method, run) in self.study.continued:
            kinds += ["continuation", "grounding"]
        return [self.job(kind, method, run) for kind in kinds]

    def method(self, method: str) -> list[Job]:
        """Jobs of a method's runs, in order, and the mirror of them."""
        runs = [job for run in self.study.method(method).runs for job in self.run(method, run)]
        return [*runs, self.job("mirror", method)]

    def all(self) -> Iterator[Job]:
        """Every job of `snakemake all`, and of runs on demand that were begun, in order."""
        yield from self.shared()
        for name in self.study.methods:
            jobs = self.method(name) if self.study.method(name).runs else []
            if name in self.methods or any(job.path.exists() for job in jobs):
                yield from jobs
        for kind in ("collect", "report", "publish"):
            yield self.job(kind)

    def every(self) -> Iterator[Job]:
        """Jobs that make cases, models and runs, those on demand among them, in order."""
        yield from self.shared()
        for pair in self.runs():
            yield from self.run(*pair)
        yield from self.lost_points() if self.study.synthetic else ()

    def on_demand(self) -> Iterator[Job]:
        """Jobs of methods that `snakemake all` leaves out, and what is made of them."""
        for name, method in self.study.methods.items():
            if method.runs and method.on_demand:
                yield from self.method(name)
        yield self.job("peers")
        if self.study.synthetic:
            yield from (*self.lost_points(), self.job("lost_points_table"))

    def lost_points(self) -> list[Job]:
        """Where each run of methods and controls loses its points."""
        return [self.job("lost_points", *pair) for pair in self.runs() if pair[0] in self.methods]

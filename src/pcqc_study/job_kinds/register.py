"""The table of job kinds, and the decorator that enters a kind in it."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace as Settings
from typing import Any

Given = tuple[Settings, dict[str, Any]]  # a job's settings and inputs


@dataclass(frozen=True)
class Kind:
    """A kind of job: a command of `pcqc` and a rule of the workflow.

    Attributes:
        name: the command's.
        reads: settings and inputs of one of its jobs.
        sentence: what a job does, with its arguments in braces.
        folder: where its results are, below the study's.
        module: has the function `run` that does it.
        arguments: names of the command's arguments after the study, and of the rule's wildcards.
        rule: name of the rule, where it is not the kind's: that names a target.
        synthetic: whether studies of the clinic alone have it, or those of real cases alone; None:
            every study has it.
        on_models: whether it runs models, and needs a GPU where the study is placed on some.
        shared_out: whether one process for each device of the learner does it together, where the
            study places its learner.
        whole_study: whether `run` is also handed the study, whose newest results it looks up.
        in_store: whether its result is in MLflow's store too, and is made again where that is lost.
        threads: of one of its jobs in the clinic: their number decides the order of sums.
        large: what it imports for seconds: `models` for torch and transformers, or `mlflow`.
    """

    name: str
    reads: Callable[..., Given]
    sentence: str
    folder: str
    module: str
    arguments: tuple[str, ...] = ()
    rule: str = ""
    synthetic: bool | None = None
    on_models: bool = False
    shared_out: bool = False
    whole_study: bool = False
    in_store: bool = False
    threads: int = 1
    large: str = ""

    @property
    def is_data(self) -> bool:
        """Whether its results are cases, or what is known of them."""
        return self.folder.startswith("data")

    @property
    def has_large(self) -> bool:
        """Whether other jobs read of its results what an archive leaves out."""
        return self.is_data or self.name in ("base", "sft", "train")

    @property
    def help(self) -> str:
        """The sentence for the command line, with arguments in capitals."""
        return self.sentence.format(**{name: name.upper() for name in self.arguments})


CHECKPOINTS = "checkpoints"  # folder of a training's result
KINDS: dict[str, Kind] = {}
RUN = ("method", "run")


def kind(sentence: str, folder: str, module: str, *arguments: str, **more: Any) -> Callable:
    """Register a function as what the jobs of the kind of its name are told and read."""

    def register(reads: Callable[..., Given]) -> Callable[..., Given]:
        name = reads.__name__
        KINDS[name] = Kind(name, reads, sentence, folder, module, arguments, **more)
        return reads

    return register


def of(settings: Any, *names: str) -> dict[str, Any]:
    """Some settings of a group, by name."""
    return {name: getattr(settings, name) for name in names}

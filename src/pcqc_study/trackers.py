"""TensorBoard, trackio and W&B, each by its own library, told what MLflow is told of a run.

A library is imported when its tracker is used: none is in the lock, `make trackers` adds them.
Accounts, servers and offline modes are the library's own affair, by its environment variables.
"""

import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pcqc_study.fingerprint import flat


@dataclass(frozen=True)
class Told:
    """What a tracker is told of a run before its numbers.

    Attributes:
        study: its name, which becomes the project's.
        key: names the run and no other; a run that is opened again under it goes on.
        title: for people.
        method: of all runs that are shown as a group.
        settings: of the run and by group, as JSON has them.
        folder: where the tracker may keep files.
    """

    study: str
    key: str
    title: str
    method: str
    settings: dict[str, Any]
    folder: Path


class Tracker(Protocol):
    """A run in a tracker."""

    def __init__(self, told: Told): ...

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        """Add points of curves; updates ascend."""

    def score(self, numbers: Mapping[str, float], update: int) -> None:
        """Add what a finished run has once, of the checkpoint of an update."""

    def close(self) -> None:
        """Let the tracker write what it has not yet written."""


class TensorBoard:
    """Event files, below the study's results; `tensorboard --logdir` shows them."""

    def __init__(self, told: Told):
        from torch.utils.tensorboard import SummaryWriter

        folder = told.folder / told.key
        known = folder.exists()
        self.writer = SummaryWriter(str(folder))
        if not known:
            rows = [f"| {name} | {value} |" for name, value in flat(told.settings).items()]
            table = "\n".join([f"| {told.title} | |", "|---|---|", *rows])
            self.writer.add_text("settings", table, 0)

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, update)

    score = log

    def close(self) -> None:
        self.writer.close()


class Trackio:
    """Hugging Face's tracker: a database of this user, or a Space that `TRACKIO_SPACE_ID` names."""

    def __init__(self, told: Told):
        import trackio

        def init() -> Any:
            return trackio.init(
                told.study,
                name=told.key,
                group=told.method,
                config={"title": told.title, **told.settings},
                resume="allow",
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )

        # It has one run open in a context, and ends it to begin another.
        with redirect_stdout(None):
            self.run = Context().run(init)

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        self.run.log(dict(numbers), step=update)

    score = log

    def close(self) -> None:
        with redirect_stdout(None):
            self.run.finish()


class Wandb:
    """Weights & Biases: its server, or with `WANDB_MODE=offline` files that `wandb sync` sends.

    What it would tell of its own accord, this machine and the source, is switched off.
    """

    def __init__(self, told: Told):
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # of its own faults, to its makers
        import wandb

        told.folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(
            silent=True,
            console="off",
            disable_git=True,
            disable_job_creation=True,
            save_code=False,
            init_timeout=30,
            host="-",
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or told.study,
            id=told.key,
            name=told.title,
            group=told.method,
            config=told.settings,
            dir=str(told.folder),
            resume="allow",
            reinit="create_new",
            settings=settings,
        )

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        self.run.log(dict(numbers), step=update)  # it leaves out updates that it already has

    def score(self, numbers: Mapping[str, float], update: int) -> None:
        self.run.summary.update(dict(numbers))

    def close(self) -> None:
        self.run.finish()


CLASSES: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "trackio": Trackio, "wandb": Wandb}

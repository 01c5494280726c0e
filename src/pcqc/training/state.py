"""Resumable training state: weights, optimiser and cursor, as safetensors and JSON.

Processes that a study places write a state beside the training: each copies its part into the
host's memory, and a thread writes the copies. `torch.distributed.checkpoint` would do so too, but
its index is a pickle, and no file is unpickled here. A single process of plain torch, as in the
clinic, writes at once: its states are small, and a thread would take its only core.
"""

import json
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file

from pcqc.models.folder import check_folder, disk_problems_named, save_folder, settle, unfinished
from pcqc_base.errors import UserError
from pcqc_base.system.files import read_json
from pcqc_base.system.processes import SINGLE_PROCESS, Processes


class Part(Protocol):
    """A part of a run that is saved and resumed: a model with its optimiser."""

    def files(self) -> dict[str, dict[str, torch.Tensor]]:
        """What this process saves: name of a file -> its tensors, copies in the host's memory."""

    def read(self, folder: Path) -> None:
        """Take over the files of all processes."""


class States:
    """The resumable state of a run: one at a time, `step-<n>`, replaced by the next.

    Args:
        folder: on a disk that all processes share.
        parts: by name; each gets a folder of its own.
        processes: that make, save and finish this together.
    """

    def __init__(
        self, folder: Path, parts: Mapping[str, Part], processes: Processes = SINGLE_PROCESS
    ):
        self.folder, self.parts, self.processes = folder, parts, processes.apart()
        self.beside = processes.group is not None
        self.thread: threading.Thread | None = None
        self.problem: BaseException | None = None

    def save(self, cursor: dict) -> None:
        """Begin to replace the state by this one, once the one before is whole.

        Args:
            cursor: plain data with the number of finished steps as `step`.

        Raises:
            UserError: the disk is full or the folder not writable; the old state is still there.
        """
        self.finish()
        path, text = self.folder / f"step-{cursor['step']:06d}", json.dumps(cursor, sort_keys=True)
        files = {
            f"{name}/{file}.safetensors": tensors
            for name, part in self.parts.items()
            for file, tensors in part.files().items()
        }
        write = partial(_save, path, text, files, self.processes)
        if not self.beside:
            return write()
        self.thread = threading.Thread(target=self._run, args=(write,), daemon=True)
        self.thread.start()

    def finish(self) -> None:
        """Wait until the state is whole; raises what `save` does."""
        if self.thread:
            self.thread.join()
        self.thread, problem, self.problem = None, self.problem, None
        if problem:
            raise problem

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as problem:  # it is `finish` that raises it
            self.problem = problem


def _save(path: Path, cursor: str, files: dict, processes: Processes) -> None:
    """Write a state and remove the one before; each process hashes the files that it writes."""

    def write(temporary: Path) -> dict[str, str]:
        if processes.is_main:
            for name in {Path(file).parent for file in files}:
                (temporary / name).mkdir()
            (temporary / "cursor.json").write_text(cursor)
        processes.barrier()
        for file, tensors in files.items():
            save_file(tensors, temporary / file)
        mine = [temporary / file for file in files]
        shares = processes.gather(settle(temporary, mine))
        return {name: digest for share in shares for name, digest in share.items()}

    if not processes.is_main:
        with disk_problems_named(path):
            write(unfinished(path))
        return
    save_folder(path, write)
    for old in path.parent.glob("step-*"):
        if old != path:
            shutil.rmtree(old)


def load_state(
    folder: Path, parts: Mapping[str, Part], processes: Processes = SINGLE_PROCESS
) -> dict | None:
    """Load the newest state into the parts; its cursor, or None where there is none.

    Raises:
        UserError: the state's files do not match its manifest.
    """
    states = sorted(p for p in folder.glob("step-*") if re.fullmatch(r"step-\d+", p.name))
    if not states:
        return None
    path = states[-1]
    remedy = f"move {path} away and run the workflow again: the run starts from its beginning"
    if processes.is_main:
        check_folder(path, remedy)
    processes.barrier()
    for name, part in parts.items():
        part.read(path / name)
    return read_json(path / "cursor.json", remedy=remedy)


@dataclass(frozen=True)
class ModelState:
    """A model with its optimisers, each of some of the parameters."""

    model: torch.nn.Module
    optimizers: Sequence[torch.optim.Optimizer]

    def files(self) -> dict[str, dict[str, torch.Tensor]]:
        """Name of a file -> its tensors: weights, and the optimisers' moments by parameter."""
        optimizer = {
            f"{name}/{key}": torch.as_tensor(value)
            for name, parameter in self.model.named_parameters()
            for optimizer in self.optimizers
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        files = {"model": self.model.state_dict(), "optimizer": optimizer}
        # Own copies, since tied weights share memory, which safetensors refuses.
        return {
            file: {n: t.detach().clone().contiguous() for n, t in tensors.items()}
            for file, tensors in files.items()
        }

    def read(self, folder: Path) -> None:
        """Take over weights and moments from a folder."""
        if not (folder / "model.safetensors").exists():
            raise UserError(
                f"{folder}: the run began with placement.learner and cannot resume without it; "
                "put the setting back, or remove the run's folder 'state' to start afresh"
            )
        self.model.load_state_dict(load_file(folder / "model.safetensors"))
        states: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in load_file(folder / "optimizer.safetensors").items():
            parameter_name, key = name.rsplit("/", 1)
            states.setdefault(parameter_name, {})[key] = tensor
        parameters = dict(self.model.named_parameters())
        for optimizer in self.optimizers:
            owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
            for name, state in states.items():
                parameter = parameters[name]
                if id(parameter) in owned:
                    # The step count stays on the CPU, where AdamW keeps it.
                    optimizer.state[parameter] = {
                        key: value if key == "step" else value.to(parameter.device)
                        for key, value in state.items()
                    }

"""Resumable training state: weights, optimiser and cursor, as safetensors and JSON."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file

from pcqc.errors import UserError
from pcqc.models.folder import check_folder, disk_problems_named, save_folder, settle, unfinished
from pcqc.results.json_shapes import Cursor
from pcqc.system.files import read_json
from pcqc.system.processes import SINGLE_PROCESS, Processes


class Part(Protocol):
    """A part of a run that is saved and resumed: a model with its optimiser."""

    def write(self, folder: Path) -> list[Path]:
        """Write the part into a folder that all processes share; returns this process's files."""

    def read(self, folder: Path) -> None:
        """Take over what `write` wrote."""


def save_state(
    folder: Path, parts: Mapping[str, Part], cursor: dict, processes: Processes = SINGLE_PROCESS
) -> None:
    """Replace the state in `folder` by this one; each process hashes the files that it wrote.

    Args:
        folder: on a disk that all processes share; holds one state, `step-<n>`.
        parts: by name; each gets a folder of its own.
        cursor: plain data with the number of finished steps as `step`.
        processes: that call this together.

    Raises:
        UserError: the disk is full or the folder not writable; the old state is still there.
    """
    path = folder / f"step-{cursor['step']:06d}"

    def write(temporary: Path) -> dict[str, str]:
        if processes.is_main:
            for name in parts:
                (temporary / name).mkdir()
            (temporary / "cursor.json").write_text(json.dumps(cursor, sort_keys=True))
        processes.barrier()
        mine = [file for name, part in parts.items() for file in part.write(temporary / name)]
        shares = processes.gather(settle(temporary, mine))
        return {name: digest for share in shares for name, digest in share.items()}

    if not processes.is_main:
        with disk_problems_named(path):
            write(unfinished(path))
        return
    save_folder(path, write)
    for old in folder.glob("step-*"):
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
    return read_json(path / "cursor.json", Cursor, remedy)


@dataclass(frozen=True)
class ModelState:
    """A model with its optimisers, each of some of the parameters."""

    model: torch.nn.Module
    optimizers: Sequence[torch.optim.Optimizer]

    def write(self, folder: Path) -> list[Path]:
        """See `Part.write`."""
        optimizer = {
            f"{name}/{key}": torch.as_tensor(value)
            for name, parameter in self.model.named_parameters()
            for optimizer in self.optimizers
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        files = [folder / "model.safetensors", folder / "optimizer.safetensors"]
        for file, tensors in zip(files, (self.model.state_dict(), optimizer), strict=True):
            # Own copies, since tied weights share memory, which safetensors refuses.
            save_file({n: t.detach().clone().contiguous() for n, t in tensors.items()}, file)
        return files

    def read(self, folder: Path) -> None:
        """See `Part.read`."""
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

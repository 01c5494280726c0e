"""Devices, compiler, memory and disk of this machine, against the numbers of the plan."""

import dataclasses
import os
import shutil
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pcqc.doctor.findings import Finding, enough, tried
from pcqc.engines.weight_files import MEMORY
from pcqc.errors import UserError
from pcqc.planning.architecture import BYTES, architecture
from pcqc.planning.checks import host_gib, loads
from pcqc.planning.devices import GIB, device
from pcqc.planning.fit import require_fit
from pcqc.planning.memory import role_memories
from pcqc.planning.storage import storage, sync_gib
from pcqc.study import LearnerPlacement, Placement, Study
from pcqc.system.files import describe
from pcqc.system.processes import driver, require_gpu

SAVE_SECONDS = 600  # in which a resumable state should be on disk
PROBE_BYTES = 2**26  # written to measure the disk
MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def on_gpu(study: Study) -> bool:
    """Whether the study places its roles on GPUs."""
    return study.placement is not None and study.placement.device != "CPU"


def machine(study: Study) -> Iterator[Finding]:
    """What a study needs of the machine, line by line; lines of GPUs are skipped without one."""
    yield tried("plan", partial(_plan, study))
    for name, check in GPU_CHECKS.items():
        if on_gpu(study):
            yield tried(name, partial(check, study))
        else:
            yield Finding(name, "the study places nothing on a GPU", skipped=True)
    for name, check in CHECKS.items():
        yield tried(name, partial(check, study))


def _plan(study: Study) -> str:
    require_fit(study)
    return "the placement fits by `pcqc plan`" if study.placement else "no placement to check"


def _driver(study: Study) -> str:
    require_gpu(study.placement.device)
    return driver()


def _torch(study: Study) -> str:
    import torch

    if torch.version.cuda is None:
        raise UserError(f"torch {torch.__version__} is built for CPUs; run `make gpu`")
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}"


def _devices(study: Study) -> str:
    """Every placed device of this node is there, with the memory of its kind."""
    import torch

    place = study.placement
    used = {d % place.devices_per_node for role in role_memories(study) for d in role.devices}
    wanted, there = max(used) + 1, torch.cuda.device_count()
    if there < wanted:
        raise UserError(
            f"{there} devices, {wanted} needed; correct the placement, or CUDA_VISIBLE_DEVICES"
        )
    names = {torch.cuda.get_device_name(index) for index in used}
    least = min(torch.cuda.mem_get_info(index)[1] for index in used) / GIB
    # The plan has the whole memory; CUDA reports up to 3 % less, by what driver and ECC keep.
    wanted_gib = 0.97 * device(place.device).memory_gib
    remedy = f"set placement.device to what this machine has ({', '.join(names)})"
    return f"{there} of {', '.join(names)}, " + enough(least, wanted_gib, "GiB each", remedy)


def _compiler(study: Study) -> str:
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not (found and header.is_file()):
        lacking = "no C compiler" if not found else f"no {header}"
        raise UserError(f"{lacking}, with which Triton builds kernels; install gcc and python3-dev")
    return f"{found}, {header}"


def _shared_memory(study: Study) -> str:
    needed = sync_gib(study)
    if not needed:
        return "new weights do not pass through it"
    if not MEMORY.is_dir():
        return f"no {MEMORY}: new weights pass through the disk"
    remedy = f"start the container with --shm-size={needed + 1:.0f}g, or remount {MEMORY}"
    return enough(shutil.disk_usage(MEMORY).free / GIB, needed, "GiB free", remedy)


def _disk(study: Study) -> str:
    """What the results have already taken need not be free any more."""
    made = sum(file.stat().st_size for file in study.results.rglob("*") if file.is_file())
    needed = max(0.0, storage(study)["total_gib"] - made / GIB)
    free = shutil.disk_usage(_folder(study)).free / GIB
    return enough(free, needed, "GiB free", "free some, or put the results on another disk")


def _write_speed(study: Study) -> str:
    needed = storage(study)["state_gib"] * 1024 / SAVE_SECONDS
    try:
        with tempfile.TemporaryFile(dir=_folder(study)) as file:
            start = time.perf_counter()
            file.write(os.urandom(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            seconds = time.perf_counter() - start
    except OSError as problem:
        raise UserError(f"cannot write {_folder(study)}: {describe(problem)}") from problem
    remedy = f"use a disk that takes a resumable state in {SAVE_SECONDS} s, or raise rl.save_every"
    return enough(PROBE_BYTES / 2**20 / seconds, needed, "MiB/s", remedy)


def _folder(study: Study) -> Path:
    """The results' folder, or the nearest above it that is there."""
    return next(path for path in (study.results, *study.results.parents) if path.is_dir())


def _host_memory(study: Study) -> str:
    """On GPUs what is offloaded, asleep and loaded; on a CPU all that the plan counts."""
    alone = Placement("CPU", LearnerPlacement((0,)), devices_per_node=1)
    study = dataclasses.replace(study, placement=study.placement or alone)
    place = study.placement
    if on_gpu(study):
        processes = min(len(place.learner.devices), place.devices_per_node)
        weights = BYTES[study.dtype("actor")] * architecture(study, "actor")[1].parameters / GIB
        needed = processes * weights + max(host_gib(study, node) for node in range(place.nodes))
    else:
        by_methods: dict[tuple[str, ...], float] = defaultdict(float)
        for load in loads(study, role_memories(study)):
            by_methods[load.methods] += len(load.devices) * max(load.rollout, load.update)
        needed = max(by_methods.values()) / place.nodes
    remedy = "end other programs, ask the cluster for more, or place fewer processes here"
    return enough(_available_gib(), needed, "GiB available", remedy)


def _available_gib() -> float:
    """Memory that programs can still take, within the limit of this control group."""
    rows = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    found = int(rows["MemAvailable"].split()[0]) * 1024
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        found = min(found, int(text) - int(used.read_text()))
    return found / GIB


GPU_CHECKS = {
    "driver": _driver,
    "torch": _torch,
    "devices": _devices,
    "compiler": _compiler,
}
CHECKS = {
    "/dev/shm": _shared_memory,
    "disk": _disk,
    "write speed": _write_speed,
    "host memory": _host_memory,
}

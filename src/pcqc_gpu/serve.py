"""`pcqc serve`: vLLM's servers of a study's frozen roles, for as long as a command runs.

A job starts engines of its own, and ends them; a server is there for all jobs, and two roles of one
model may share it. Each gets the settings of the engine whose place it takes.
"""

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
import urllib3

from pcqc.models.folder import check_folder
from pcqc_base.errors import UserError
from pcqc_base.settings import EnginePlacement
from pcqc_base.system.end_with_parent import end_with
from pcqc_base.system.terminal import show
from pcqc_gpu.engines.printed_errors import last_exception
from pcqc_gpu.engines.vllm_start import device_names, vllm_package, vllm_settings
from pcqc_gpu.planning.memory import engines
from pcqc_study.graph import Jobs
from pcqc_study.study_file import Study

ROLES = ("patient", "scorer")
HERE = ("127.0.0.1", "localhost")
PAUSE = 0.2  # seconds between two looks at a server
PATIENCE = 30.0  # seconds in which a server may end by itself


def serve(study: Study, command: Sequence[str]) -> int:
    """Start the servers one after another, run a command, and end them; its exit status.

    Args:
        study: names the addresses; its models are made.
        command: its words; without any the servers run until Ctrl-C.

    Raises:
        UserError: no role has a server on this machine, a model is not made, or a server ends.
    """
    if command and not shutil.which(command[0]):
        raise UserError(f"{command[0]}: no such command")
    vllm_package()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # servers end first
    with ExitStack() as running:
        servers = []
        for url, (role, folder) in _models(study).items():
            start = time.monotonic()
            server = running.enter_context(_server(study, role, folder, url))
            servers.append(server)
            while not _answers(url):
                _check(*server)
            show(f"{url} serves {folder} after {time.monotonic() - start:.0f} s")
        if command:
            return _beside(command)
        show("Ctrl-C ends them")
        while True:
            for server in servers:
                _check(*server)


def _beside(command: Sequence[str]) -> int:
    """Exit status of a command, which has all the time that it takes to end after Ctrl-C."""
    process = subprocess.Popen(command)
    try:
        while True:
            with suppress(KeyboardInterrupt):
                status = process.wait()
                return status if status >= 0 else 128 - status
    finally:
        process.terminate()  # where this process is stopped
        process.wait()


def _models(study: Study) -> dict[str, tuple[str, Path]]:
    """Address on this machine -> the role, or the first of two, and the model that it serves."""
    jobs, models = Jobs(study), dict[str, tuple[str, Path]]()
    served: dict[int, dict] = {}  # port -> digests of its model's files
    remedy = f"run `snakemake --cores 2 --config study={study.name} --until sft -- all` first"
    for role in ROLES:
        server = getattr(study.servers, role)
        if server is None or server.model:
            continue
        folder = jobs.models()[role].latest.resolve()
        files = check_folder(folder, remedy)["files"]
        for url in server.urls:
            if urlsplit(url).hostname not in HERE or not (port := urlsplit(url).port):
                raise UserError(f"servers.{role}: {url} is no port of this machine; start it there")
            if port not in served:
                models[url] = role, folder
            if served.setdefault(port, files) != files:
                raise UserError(f"servers.{role}: {url} is of another model; give it its own port")
            if len(_share(study, role, url)) < (split := _placement(study, role).tensor_parallel):
                raise UserError(
                    f"servers.{role}: {len(server.urls)} addresses share the devices of "
                    f"placement.{role}, fewer than tensor_parallel: {split} for each; name fewer"
                )
    if not models:
        raise UserError(
            f"{study.name}: no role has a server; add for example "
            'servers: {patient: {url: "http://127.0.0.1:8000"}} to its settings'
        )
    return models


@contextmanager
def _server(
    study: Study, role: str, folder: Path, url: str
) -> Iterator[tuple[str, subprocess.Popen, Path]]:
    """A server that starts: its address, process and log. It ends with the block."""
    if _answers(url):
        raise UserError(f"{url}: something answers there already; end it, or choose another port")
    log = study.results / "logs" / f"serve-{urlsplit(url).port}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            _command(study, role, folder, url),
            env=os.environ | _devices(study, role, url),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for this process
            preexec_fn=partial(end_with, os.getpid(), signal.SIGTERM),  # it ends its engine
        )
    try:
        yield url, process, log
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        with suppress(ProcessLookupError):  # a server that was killed has left its engine
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(study: Study, role: str, folder: Path, url: str) -> list[str]:
    """What starts a server, with the settings of the role's engine."""
    place = _placement(study, role)
    settings: dict[str, Any] = vllm_settings(
        folder,
        study.dtype(role),
        study.engine.batch_size,
        study.engine.cache_tokens,
        place.tensor_parallel,
        study.assumptions.engine_working_gib,
        study.engine.float32_head,
    )
    copies = len(_share(study, role, url)) // place.tensor_parallel
    settings |= {"host": "127.0.0.1", "port": urlsplit(url).port, "data_parallel_size": copies}
    try:  # the build for CPUs has another name, by which vLLM's own command does not find itself
        importlib.metadata.version("vllm")
        start = ["vllm.entrypoints.cli.main", "serve", str(folder)]
    except importlib.metadata.PackageNotFoundError:
        start = ["vllm.entrypoints.openai.api_server", "--model", str(folder)]
    return [sys.executable, "-m", *start, *_flags(settings)]


def _flags(settings: dict[str, Any]) -> list[str]:
    """vLLM's flags of its settings."""
    flags = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            flags += [f"--{flag}", text]
    return flags


def _placement(study: Study, role: str) -> EnginePlacement:
    """Where a role is; without a placement on the first device."""
    placed = engines(study) if study.placement else {}
    return placed.get(role, EnginePlacement((0,)))


def _share(study: Study, role: str, url: str) -> tuple[int, ...]:
    """Devices of one of a role's servers, which have equally many."""
    urls, devices = getattr(study.servers, role).urls, _placement(study, role).devices
    each = max(1, len(devices) // len(urls))
    start = urls.index(url) * each
    return devices[start : start + each] or devices[:each]


def _devices(study: Study, role: str, url: str) -> dict[str, str]:
    """Environment that shows a server its devices."""
    if not (study.placement and torch.cuda.is_available()):
        return {}
    names = device_names()
    return {"CUDA_VISIBLE_DEVICES": ",".join(names[n] for n in _share(study, role, url))}


def _answers(url: str) -> bool:
    health = f"http://{urlsplit(url).netloc}/health"  # an address may end in /v1
    try:
        return urllib3.request("GET", health, retries=False, timeout=5.0).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _check(url: str, process: subprocess.Popen, log: Path) -> None:
    """Wait a little. UserError: the server has ended."""
    try:
        status = process.wait(PAUSE)
    except subprocess.TimeoutExpired:
        return
    cause = last_exception(log.read_text(errors="replace").splitlines())
    why = cause or f"exit status {status}"
    raise UserError(f"{url}: the server ended: {why} ({log})")

"""Python commands that start at once: forked from a process that has imported the libraries.

A job of the miniature study computes for a second and imports for eight. Here torch, transformers
and MLflow are imported once for the whole test run; a command is a fork of that, which then imports
this repository's modules from its own `PYTHONPATH`, with its own working directory, environment and
descriptors. What a command does from there on is what it does when typed.

`python()` is the program to name in the place of `sys.executable`. It waits for its command, and
the command's processes are killed as soon as it is gone. So whoever kills it and then waits until a
descriptor that it passed on is closed by all knows that nothing is left.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

LIBRARIES = (
    "docutils.core",  # Snakemake's
    "fontTools.subset",
    "matplotlib.backends.backend_pdf",
    "mlflow.store.tracking.sqlalchemy_store",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "smart_open",
    "snakemake.cli",
    "torch",
    "transformers.models.qwen3.modeling_qwen3",
)
ended = {"status": 1}  # an error that nothing catches
SETTINGS = {"OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}  # read at import


@functools.cache
def python() -> str:
    """Path of a program that takes Python's arguments; `-m module ...` starts warm.

    The first test process that asks starts the server, which ends with the whole test run.
    """
    test_run = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # common to all workers
    owner = os.getppid() if test_run else os.getpid()
    folder = Path(tempfile.gettempdir(), f"warm-{test_run or uuid.uuid4().hex}")
    folder.mkdir(exist_ok=True)
    program, place = folder / "python", folder / "socket"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _start(place, owner)
            command = [sys.executable, "-S", "-E", __file__, "run", str(place), str(program)]
            program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            program.chmod(0o755)
    return str(program)


def _start(place: Path, owner: int) -> None:
    """Start the server at a socket, for as long as the process `owner` lives."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | SETTINGS
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()
    subprocess.Popen(
        [sys.executable, __file__, "serve", str(listener.fileno()), str(owner)],
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        cwd=place.parent,
        start_new_session=True,
    )
    listener.close()


def run(place: str, program: str, *arguments: str) -> int:
    """Hand a command to the server and wait for its exit status.

    One of several processes that train together is started cold: it ends unless its parent is the
    process that launched it.
    """
    if arguments[:1] != ("-m",) or "PCQC_LAUNCHED_BY" in os.environ:
        os.execv(sys.executable, [sys.executable, *arguments])
    request = {"arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(json.dumps(request | {"program": program}).encode() + b"\n")
        return int(server.makefile().readline() or 1)


def serve(number: str, owner: str) -> None:
    """Import the libraries, then fork for each request until the owner has ended."""
    folder = Path.cwd()
    atexit.register(_leave)  # first, so that it runs last
    for name in LIBRARIES:
        __import__(name)
    gc.freeze()  # else each fork's collections copy the libraries
    listener, alive = socket.socket(fileno=int(number)), os.pidfd_open(int(owner))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children's children are waited for
    while alive not in select.select([listener, alive], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(_watch(connection))
        connection.close()
    shutil.rmtree(folder)


def _watch(connection: socket.socket) -> int:
    """Run one request in a process of its own, which ends with its client."""
    os.setsid()  # a kill of the client's group is not one of this process
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    worker = os.fork()
    if worker == 0:
        connection.close()
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _become(request)
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(worker)
    if connection in select.select([connection, ended], [], [])[0]:
        try:
            os.killpg(worker, signal.SIGKILL)
        except ProcessLookupError:  # it has no group of its own yet
            os.kill(worker, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # nobody waits for one that was killed
        connection.sendall(f"{status if status >= 0 else 128 - status}\n".encode())
    return 0


def _become(request: dict) -> None:
    """Run a module as `python -m` does, in the place that the client was started from."""
    _, module, *arguments = request["arguments"]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    own = [path for path in sys.path if path != str(Path(__file__).parent)]
    given = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [os.getcwd(), *filter(None, given), *own]
    sys.executable = request["program"]
    sys.argv = [module, *arguments]
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
    sys.stderr.reconfigure(line_buffering=True)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        sys.exit()
    except SystemExit as error:
        ended["status"] = error.code if isinstance(error.code, int) else int(bool(error.code))
        raise


def _leave() -> None:
    """End at once: to tear the libraries down takes longer than most commands."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended["status"])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[2:]) if sys.argv[1] == "run" else serve(*sys.argv[2:]))

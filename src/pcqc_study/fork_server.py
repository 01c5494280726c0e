"""Jobs that start warm: a process imports what they need, once, and forks for each of them.

To import torch and transformers takes four seconds, half as long as an evaluation in the clinic.
`serve` runs beside a workflow on Linux and ends with it, once for each large import. A job's
command asks it for a fork, which does what the command would have done, with its words,
environment, folder and output. The two end alike: the command passes signals on, and a fork whose
command was killed is killed. Where nobody listens, as on other nodes of a cluster, a command does
its job itself.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

from pcqc_study.job_kinds import KINDS

# Environment variable: what the names begin with at which `serve` listens.
ADDRESS = "PCQC_WARM"
LARGE = sorted({kind.large for kind in KINDS.values()})  # what they end with
CREDENTIALS = struct.Struct("3i")  # process, user and group at the other end of a socket
LONGEST = 1 << 17  # bytes of a command with its environment
_end = {"status": 1}  # of this process; an error that nothing caught


def serve(address: str, large: str, study: str) -> None:
    """Fork for each command that asks, until standard input ends.

    Args:
        address: what the name of the socket begins with, in Linux's abstract namespace, which has
            no files to remove.
        large: what is imported, once something is asked.
        study: whose jobs are done.
    """
    # Linux before 5.3 lacks this: there it ends at once, and commands do their jobs themselves.
    os.close(os.pidfd_open(os.getpid()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the commands, which pass it on
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended are forgotten
    atexit.register(_leave)  # before libraries register theirs: the last is called first
    with _socket() as listener:
        listener.bind(f"\0{address}{large}")
        listener.listen(64)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                words, files = _received(connection)
                if words:
                    _prepare(large, study)
                    if os.fork() == 0:
                        listener.close()
                        try:
                            _end["status"] = _attend(connection, json.loads(words), files)
                        except SystemExit as stopped:
                            code = stopped.code
                            _end["status"] = code if isinstance(code, int) else int(bool(code))
                        sys.exit()
                for file in files:
                    os.close(file)
    _end["status"] = 0


def ask(large: str) -> int | None:
    """Exit status of this process's command, which a fork does; None where nobody listens.

    Where a signal ended the fork, the same signal ends this process.

    Args:
        large: of the kind of job.
    """
    address = os.environ.pop(ADDRESS, "")  # what the command starts is another command
    words = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    if not address or len(words) > LONGEST or None in (sys.stdin, sys.stdout, sys.stderr):
        return None  # a closed stream cannot be handed on
    with _socket() as server:
        try:
            server.connect(f"\0{address}{large}")
            if not _is_ours(server):
                return None
            socket.send_fds(server, [words], [0, 1, 2])
            if not server.recv(1):  # nothing has begun
                return None
        except OSError:
            return None

        def pass_on(number: int, _: object) -> None:
            with suppress(OSError):  # the fork has just ended
                server.send(bytes([number]))

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as after `nohup`, or `&` in a script
                signal.signal(number, pass_on)
        ended = b""
        with suppress(OSError):
            ended = server.recv(LONGEST)
    status = os.waitstatus_to_exitcode(int(ended)) if ended else -signal.SIGKILL
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's."""
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return CREDENTIALS.unpack(given)[1] == os.getuid()


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """A command, which sends it at once, and its files; nothing if it is another user's or gone."""
    connection.settimeout(5)
    with suppress(OSError):
        if _is_ours(connection):
            words, files, *_ = socket.recv_fds(connection, LONGEST, 3)
            return words, files
    return b"", []


@functools.cache
def _prepare(large: str, study: str) -> None:
    """Import what jobs need; nothing here starts a thread or opens a device.

    The source that fingerprints are made of is reduced too. A fork reads the files again, so it
    refuses what was edited since, as a command alone does.
    """
    gc.set_threshold(50_000)  # frequent collections take a fortieth of a training, more of imports
    from pcqc_study.cli import program
    from pcqc_study.graph import Jobs
    from pcqc_study.source_digests import read_again
    from pcqc_study.study_file import load_study

    program()
    for job in Jobs(load_study(study)).all():
        job.fingerprint  # noqa: B018
    read_again()
    for kind in KINDS.values():
        if large and kind.large == large:
            importlib.import_module(kind.module)
    if large == "models":
        from pcqc.determinism import single_threaded

        single_threaded()
        # The clinic's architecture is the paper's.
        from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM  # noqa: F401
    elif large == "mlflow":
        from pcqc_study.mlflow_mirror.open_store import import_mlflow

        import_mlflow()
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
    gc.freeze()  # a collection in a fork would copy the pages that it shares


def _attend(connection: socket.socket, request: list, files: list[int]) -> int:
    """In a fork: let another one do the job, and carry signals to it and its end to the command."""
    os.setsid()  # the terminal signals the command alone
    connection.settimeout(None)
    connection.send(b"+")  # from here on it is the fork that does the job
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job = os.fork()
    if job == 0:
        connection.close()
        arguments, environment, folder = request
        return _do(arguments, environment, folder, files)
    for file in files:
        os.close(file)
    end = os.pidfd_open(job)
    waited: list[socket.socket | int] = [connection, end]
    while end not in select.select(waited, [], [])[0]:
        number = b""
        with suppress(OSError):
            number = connection.recv(1)
        os.kill(job, number[0] if number else signal.SIGKILL)
        if not number:
            break
    _, status = os.waitpid(job, 0)
    with suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _leave() -> None:
    """End at once: to tear the libraries down takes as long as many a job."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the command has told that it cannot be written
            stream.flush()
    os._exit(_end["status"])


def _do(arguments: list[str], environment: dict[str, str], folder: str, files: list[int]) -> int:
    """Do a command in this process; its exit status."""
    encoding = sys.stdout.encoding
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()  # it remembers what kind of file it was opened on
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, encoding=encoding)
    sys.stdout = os.fdopen(1, "w", encoding=encoding)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pcqc_study.cli import main

    return main(arguments)


if __name__ == "__main__":
    serve(*sys.argv[1:])

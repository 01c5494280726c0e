"""Jobs that start warm: one process imports torch and transformers, and forks for each of them.

The imports take four seconds, half as long as an evaluation in the clinic. `serve` runs beside a
workflow on Linux and ends with it. A job's command asks it for a fork, which does what the command
would have done, with its words, environment, folder and output. The two end alike: the command
passes signals on, and a fork whose command was killed is killed. Where nobody listens, as on other
nodes of a cluster, a command does its job itself.
"""

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

ADDRESS = "PCQC_WARM"  # environment variable: the name at which `serve` listens
CREDENTIALS = struct.Struct("3i")  # process, user and group at the other end of a socket
LONGEST = 1 << 17  # bytes of a command with its environment


def serve(name: str) -> None:
    """Fork for each command that asks, until standard input ends.

    Args:
        name: of the socket, in Linux's abstract namespace, which has no files to remove.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the commands, which pass it on
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended are forgotten
    with _socket() as listener:
        listener.bind(f"\0{name}")
        listener.listen(64)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if _is_ours(connection):
                    _import()
                    if os.fork() == 0:
                        listener.close()
                        sys.exit(_attend(connection))


def ask() -> int | None:
    """Exit status of this process's command, which a fork does; None where nobody listens.

    Where a signal ended the fork, the same signal ends this process.
    """
    name = os.environ.pop(ADDRESS, "")  # what the command starts is another command
    words = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    if not name or len(words) > LONGEST:
        return None
    with _socket() as server:
        try:
            server.connect(f"\0{name}")
            if not _is_ours(server):
                return None
            socket.send_fds(server, [words], [0, 1, 2])
        except OSError:
            return None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: server.send(bytes([number])))
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


def _import() -> None:
    """Import what jobs need, at the first call; nothing here starts a thread or opens a device."""
    if "transformers.models.auto" in sys.modules:
        return
    gc.disable()
    from pcqc.determinism import single_threaded

    single_threaded()
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401

    import pcqc.jobs.evaluate
    import pcqc.jobs.train  # noqa: F401

    gc.enable()
    gc.freeze()  # a collection in a fork would copy the pages that it shares


def _attend(connection: socket.socket) -> int:
    """In a fork: let another one do the job, and carry signals to it and its end to the command."""
    os.setsid()  # the terminal signals the command alone
    words, files, *_ = socket.recv_fds(connection, LONGEST, 3)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job = os.fork()
    if job == 0:
        connection.close()
        return _do(words, files)
    for file in files:
        os.close(file)
    end = os.pidfd_open(job)
    while end not in select.select([connection, end], [], [])[0]:
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


def _do(words: bytes, files: list[int]) -> int:
    """Do a command in this process; its exit status."""
    arguments, environment, folder = json.loads(words)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Python's own streams remember what kind of file they were opened on.
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = open(2, "w", encoding=sys.stderr.encoding, buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pcqc_study.cli import main

    return main(arguments)


if __name__ == "__main__":
    serve(sys.argv[1])

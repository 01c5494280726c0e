"""Jobs that fork from a process with torch: they do and end as the commands that ask for them."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pcqc_study.fork_server import ADDRESS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's abstract sockets")
# A command that a signal ends: it prints its process, then waits.
WAITS = """
import os, pcqc_study.cli, sys, time
from pcqc_study import fork_server
def main(words):
    print(os.getpid(), *words, os.getcwd(), os.environ["COLOUR"], flush=True)
    time.sleep(60)
pcqc_study.cli.main = main
fork_server._prepare = lambda large, study: None
"""
COLD = 77  # of ASK: nobody listened
ASK = f"""
import os, sys
from pcqc_study.fork_server import ask
os.setuid(int(os.environ["AS"]))
status = ask('')
sys.exit({COLD} if status is None else status)
"""
NOBODY = 65534


@pytest.fixture(params=[""])
def name(request) -> Iterator[str]:
    """A name at which `serve` listens; the parameter changes the commands that it does."""
    name = f"pcqc-test-{secrets.token_hex(8)}"
    code = (
        f"{request.param}\nfrom pcqc_study.fork_server import serve\nserve({name!r}, '', 'clinic')"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    listens = f"@{name}"
    while listens not in Path("/proc/net/unix").read_text():
        assert server.poll() is None
        time.sleep(0.02)
    yield name
    server.stdin.close()
    assert server.wait(10) == 0  # with its workflow


def asks(
    name: str, *words: str, user: int = os.getuid(), interrupt=signal.SIG_DFL, **more
) -> subprocess.Popen:
    """Start a command that asks for a fork; what started the tests may ignore Ctrl-C."""
    environment = {**os.environ, ADDRESS: name, "COLOUR": "blue", "AS": str(user)}
    command = [sys.executable, "-c", ASK, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupt),
        **pipes,
        **more,
    )


def test_a_fork_prints_and_ends_as_the_command(name):
    command = [sys.executable, "-m", "pcqc_study.cli", "mirror", "clinic", "grqo"]
    alone = subprocess.run(command, capture_output=True, text=True)
    forked = asks(name, "mirror", "clinic", "grqo")
    assert (*forked.communicate(timeout=60), forked.returncode) == (
        alone.stdout,
        alone.stderr,
        alone.returncode,
    )
    assert alone.returncode == 2
    assert "grpo" in alone.stderr


@pytest.mark.parametrize("name", [WAITS], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_command_and_fork(name, number, tmp_path):
    command = asks(name, "train", "it", cwd=tmp_path)
    process, *told = command.stdout.readline().split()
    assert told == ["train", "it", str(tmp_path), "blue"]
    fork = psutil.Process(int(process))
    command.send_signal(number)
    assert command.wait(10) != 0
    if number != signal.SIGINT:  # which Python turns into an exception
        assert command.returncode == -number
    fork.wait(10)


@pytest.mark.parametrize("name", [WAITS], indirect=True)
def test_a_fork_that_is_killed_kills_its_command(name):
    command = asks(name, "train")
    os.kill(int(command.stdout.readline().split()[0]), signal.SIGKILL)
    assert command.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize(
    "name", [WAITS.replace("time.sleep(60)", "raise OSError('gone')")], indirect=True
)
def test_an_error_that_nobody_expects_ends_the_fork_alone(name):
    for _ in range(2):
        command = asks(name, "train")
        printed, told = command.communicate(timeout=10)
        assert command.returncode == 1
        assert printed
        assert told.endswith("OSError: gone\n")


@pytest.mark.parametrize("name", [WAITS], indirect=True)
def test_a_command_that_ignores_ctrl_c_has_a_fork_that_goes_on(name):
    """So are those that a script starts with `&`; of `nohup` it is the hang-up."""
    command = asks(name, "train", interrupt=signal.SIG_IGN)
    fork = psutil.Process(int(command.stdout.readline().split()[0]))
    command.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(0.3)
    assert fork.is_running()
    command.terminate()
    assert command.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("name", [WAITS.replace("time.sleep(60)", "sys.exit(3)")], indirect=True)
def test_a_job_that_exits_by_itself_has_its_status(name):
    assert asks(name, "train").wait(10) == 3


def test_without_a_server_a_command_does_its_job_itself():
    assert asks("pcqc-nobody").wait(10) == COLD


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of others")
@pytest.mark.parametrize("name", [WAITS], indirect=True)
def test_another_user_gets_no_fork(name):
    assert asks(name, user=NOBODY).wait(10) == COLD
    # Nor does a program that does not ask who listens.
    rude = f"""
import os, socket
os.setuid({NOBODY})
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect("\\0{name}")
socket.send_fds(server, [b'[["train"], {{"COLOUR": "red"}}, "/"]'], [0, 1, 2])
print(server.recv(9))
"""
    told = subprocess.run([sys.executable, "-c", rude], capture_output=True, text=True)
    assert told.stdout == "b''\n" or "Error" in told.stderr
    assert "red" not in told.stdout

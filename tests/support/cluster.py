"""Slurm on this machine alone: one controller, one node that can be killed and started again."""

import contextlib
import grp
import os
import pwd
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo")
# Jobs read the system's file: a submitted job does not inherit SLURM_CONF.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
DEVICES = CONFIGURATION.with_name("gres.conf")
MUNGE = Path("/run/munge")
LINES = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
MinJobAge=7200
SlurmdTimeout=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=6000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# Devices that are there on every machine stand in for GPUs: they are counted and never opened.
TWO_GPUS = """
Name=gpu File=/dev/null
Name=gpu File=/dev/zero
"""


def obstacle() -> str | None:
    """Why Slurm cannot be started here, None where it can."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"{', '.join(missing)} not installed (apt-get install munge slurmctld slurmd)"
    if os.geteuid() != 0:
        return "only root may start slurmd"
    if running := [p.name for p in processes() if comm(p) in ("slurmctld", "slurmd")]:
        return f"a Slurm is running here already (process {', '.join(running)})"
    return None


class OneNodeSlurm:
    """A cluster that ends with the `with` statement; the system's files are as before then.

    Args:
        folder: new; for its state and logs.
        cores: of the node.
    """

    def __init__(self, folder: Path, cores: int):
        self.folder, self.cores, self.name = folder, cores, f"pcqc{uuid.uuid4().hex[:8]}"
        self.ends = contextlib.ExitStack()

    def __enter__(self) -> "OneNodeSlurm":
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        with contextlib.ExitStack() as ends:
            self._munge(ends)
            ends.enter_context(replaced(CONFIGURATION, self._configuration()))
            ends.enter_context(replaced(DEVICES, TWO_GPUS))
            self._daemon(ends, "slurmctld", "-D", "-i", "-c")
            self.node = self._daemon(ends, "slurmd", "-D", "-c")
            ends.callback(self.kill_node)
            self.wait_for("idle")
            self.ends = ends.pop_all()
        return self

    def __exit__(self, *problem) -> None:
        self.ends.close()

    def kill_node(self) -> None:
        """The node is gone at once, and all that ran on it, with no word to the controller."""
        self.node.kill()
        self.node.wait()
        # The step's daemon first: it would report the death of what it watches.
        for process in [p for p in processes() if comm(p) == "slurmstepd" and self._own(p)]:
            end(process)
        for process in [p for p in processes() if self._of_a_job(p)]:
            end(process)

    def start_node(self) -> None:
        """The node comes back, with nothing running on it."""
        self.node = self._daemon(self.ends, "slurmd", "-D", "-c")
        self.wait_for("idle", "alloc", "mix")

    def state(self) -> str:
        """Of the node: idle, alloc, mix, down, comp, with `*` where it does not answer."""
        return self._ask("sinfo", "-h", "-o", "%t")

    def jobs(self, columns: str) -> list[list[str]]:
        """Columns of squeue (`Comment:80,State`) of every job since the start, the oldest first."""
        said = self._ask("squeue", "-h", "-t", "all", "-S", "i", "-O", columns)
        return [line.split() for line in said.splitlines()]

    def wait_for(self, *states: str) -> None:
        """Return when the node is in one of the states; RuntimeError where it never is."""
        until = time.monotonic() + 90
        while self.state() not in states:
            if time.monotonic() > until:
                logs = "\n".join(p.read_text()[-2000:] for p in self.folder.glob("*.log"))
                raise RuntimeError(f"the node is {self.state()!r}, not {states}\n{logs}")
            time.sleep(0.5)

    def _configuration(self) -> str:
        return LINES.format(
            name=self.name, host=os.uname().nodename, folder=self.folder, cores=self.cores
        )

    def _munge(self, ends: contextlib.ExitStack) -> None:
        """Munge runs as its own user, which owns its folder; one that runs already will do."""
        if any(comm(p) == "munged" for p in processes()):
            return
        if not MUNGE.exists():
            MUNGE.mkdir()
            os.chown(MUNGE, pwd.getpwnam("munge").pw_uid, grp.getgrnam("munge").gr_gid)
            ends.callback(shutil.rmtree, MUNGE)
        self._daemon(ends, "munged", "--foreground", user="munge", group="munge")

    def _daemon(self, ends: contextlib.ExitStack, *command: str, **owner) -> subprocess.Popen:
        with open(self.folder / f"{command[0]}.out", "ab") as said:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=said, stderr=said, start_new_session=True, **owner
            )
        ends.callback(stop, process)
        return process

    def _own(self, process: Path) -> bool:
        with contextlib.suppress(OSError):
            return os.readlink(process / "cwd") == str(self.folder)
        return False

    def _of_a_job(self, process: Path) -> bool:
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            return f"SLURM_CLUSTER_NAME={self.name}".encode() in variables
        return False

    def _ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()


@contextlib.contextmanager
def replaced(path: Path, text: str):
    """The file holds `text` for the time of the `with` statement."""
    before = path.read_bytes() if path.exists() else None
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()
        if before is not None:
            path.write_bytes(before)


def processes() -> list[Path]:
    """Folders in /proc of all processes."""
    return [p for p in Path("/proc").iterdir() if p.name.isdigit()]


def comm(process: Path) -> str:
    """Name of a process's program; empty where it has ended, reaped or not."""
    with contextlib.suppress(OSError):
        if (process / "cmdline").read_bytes():
            return (process / "comm").read_text().strip()
    return ""


def end(process: Path) -> None:
    """Kill a process of /proc unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(process.name), signal.SIGKILL)


def stop(process: subprocess.Popen) -> None:
    """End a daemon, by force where it does not within ten seconds."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

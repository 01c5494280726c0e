"""Slurm on this machine alone: one controller, one node that can be killed and started again."""

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo")
# Jobs read the system's file: a submitted job does not inherit SLURM_CONF.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
DEVICES = CONFIGURATION.with_name("gres.conf")
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
    if not running("munged"):
        return "munge does not run (service munge start)"
    if running("slurmctld", "slurmd"):
        return "a Slurm is running here already"
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
        for process in running("slurmstepd"):
            if process.cwd() == str(self.folder):
                kill(process)
        for process in psutil.process_iter(["environ"]):
            if (process.info["environ"] or {}).get("SLURM_CLUSTER_NAME") == self.name:
                kill(process)

    def start_node(self) -> None:
        """The node comes back, with nothing running on it."""
        self.node = self._daemon(self.ends, "slurmd", "-D", "-c")
        self.wait_for("idle", "alloc", "mix")

    def state(self) -> str:
        """Of the node: idle, alloc, mix, down, comp, with `*` where it does not answer."""
        return self._ask("sinfo", "-h", "-o", "%t")

    def jobs(self, columns: str) -> list[list[str]]:
        """Columns of squeue (`Comment:80,State`) of every job since the start, the oldest first."""
        listing = self._ask("squeue", "-h", "-t", "all", "-S", "i", "-O", columns)
        return [line.split() for line in listing.splitlines()]

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

    def _daemon(self, ends: contextlib.ExitStack, *command: str) -> subprocess.Popen:
        with open(self.folder / f"{command[0]}.out", "ab") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=output, stderr=output, start_new_session=True
            )
        ends.callback(stop, process)
        return process

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


def running(*names: str) -> list[psutil.Process]:
    """Processes of these programs that have not ended, reaped or not."""
    every = psutil.process_iter(["name", "status"])
    alive = [process for process in every if process.info["status"] != psutil.STATUS_ZOMBIE]
    return [process for process in alive if process.info["name"] in names]


def kill(process: psutil.Process) -> None:
    """Kill a process unless it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def stop(process: subprocess.Popen) -> None:
    """End a daemon, by force where it does not within ten seconds."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

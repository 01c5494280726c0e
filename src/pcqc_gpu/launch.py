"""Starts a job in several processes, one per device of the learner, with torch's launcher."""

import logging
import os
import signal
import sys
import tempfile

from pcqc_base.errors import UserError
from pcqc_base.system.end_with_parent import end_with
from pcqc_base.system.processes import SINGLE_PROCESS, Processes, join, launched, require_gpu
from pcqc_study.study_file import Study

# The process that started this one; only `launch` sets it, not torchrun.
PARENT = "PCQC_LAUNCHED_BY"


def processes_wanted(study: Study) -> int:
    """Number of processes to start for a job that they share out; 1 if they run already.

    Raises:
        UserError: they belong on several machines, each of which starts its own.
    """
    if study.placement is None or launched():
        return 1
    if study.placement.learner_nodes > 1:
        raise UserError(
            "placement.learner.devices are on several nodes: start the job on each of them with "
            "`torchrun --nnodes ... -m pcqc_study.cli ...` (docs/clusters.md)"
        )
    return len(study.placement.learner.devices)


def launch(arguments: list[str], count: int) -> None:
    """Run `pcqc <arguments>` in `count` processes on this machine, until all have ended.

    Raises:
        UserError: the error of the first process that failed; the others are stopped.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Its reports would surround our one line.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL + 1)
    os.environ[PARENT] = str(os.getpid())
    # All processes are on this machine.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory(prefix="pcqc-launch-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id="pcqc",
            rdzv_backend="c10d",
            rdzv_endpoint="127.0.0.1:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "pcqc_study.cli", *arguments)
        except ChildFailedError as problem:
            raise UserError(_reason(problem.failures, count)) from None
        except SignalException as stopped:
            raise SystemExit(128 + stopped.sigval) from None


def _reason(failures: dict, count: int) -> str:
    """Why the processes ended: a kill, else an error with a message, else another exit status.

    Args:
        failures: rank -> torch's ProcessFailure.
        count: number of processes.
    """
    rank, failure = min(failures.items(), key=lambda item: _order(item[1]))
    if failure.error_file_data.get("expected"):
        return failure.message
    if failure.exitcode < 0:
        how = f"was killed ({signal.Signals(-failure.exitcode).name})"
    else:
        print(failure.error_file_data.get("message", ""), file=sys.stderr)
        how = f"ended with exit status {failure.exitcode}"
    return (
        f"process {rank} of {count} {how}, and the others were stopped; "
        "rerun the same command to resume from the last saved state"
    )


def _order(failure) -> tuple[bool, bool]:
    killed = failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
    return (not killed, not failure.error_file_data.get("expected", False))


def join_job(study: Study) -> Processes:
    """Join the processes of this job; see `processes_wanted`."""
    if study.placement is None:
        return SINGLE_PROCESS
    if parent := os.environ.pop(PARENT, None):
        end_with(int(parent))
    require_gpu(study.placement.device)
    learner = study.placement.learner
    return join([device % study.placement.devices_per_node for device in learner.devices])

"""What a job is told: its own settings, and where it runs.

A job is told nothing else of its study, so what it does not read cannot change its fingerprint.
`Where` is told beside the settings and is no part of a fingerprint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcqc_base.settings.models import Servers
from pcqc_base.settings.placement import Assumptions, Placement

# Engines and the learner's backend for large models, as `module:class`: named and not imported,
# since this package does not need theirs.
VLLM = "pcqc_gpu.engines.vllm:VllmEngine"
SERVER = "pcqc_gpu.engines.server:ServerEngine"
CHAT = "pcqc_gpu.engines.chat_server:ChatEngine"
DEEPSPEED = "pcqc_gpu.deepspeed_backend:DeepSpeedBackend"


@dataclass(frozen=True)
class Where:
    """Where a job runs and what follows it, which is no part of what it makes.

    Attributes:
        cache_tokens: those of the actor's engine, if not `engine.cache_tokens`.
        least_cases: that an update of the study takes; fewer training cases are refused.
    """

    placement: Placement | None
    servers: Servers
    assumptions: Assumptions
    cache_tokens: int | None = None
    least_cases: int = 1


@dataclass(frozen=True)
class Task:
    """What a job's function is handed.

    Attributes:
        arguments: such as `("pcqc", "A")`.
        settings: what the function of its kind in `pcqc_study/job_kinds/` gives.
        inputs: name -> file or folder; call `manifest.checked` before reading one.
        folder: where the job writes.
        where: devices and servers.
    """

    arguments: tuple[str, ...]
    settings: Any
    inputs: Mapping[str, Path]
    folder: Path
    where: Where

    @property
    def state(self) -> Path:
        """Folder of what the job needs to go on after it was stopped."""
        return self.folder / "state"

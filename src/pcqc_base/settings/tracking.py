"""Where runs can be looked at: the MLflow store, and trackers beside it."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from pcqc_base.errors import nearest
from pcqc_base.settings.models import ADDRESS
from pcqc_base.settings.types import STRICT, Seconds, matching

STORE = (
    rf"sqlite:///[^?]*[^/?](\?.*)?|{ADDRESS[0]}",
    "sqlite:///FILE or http(s)://HOST:PORT, without user, password or query; give secrets by "
    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
)


TRACKERS = ("tensorboard", "trackio", "wandb")


def known_tracker(name: str) -> str:
    """The name of a tracker; ValueError with the nearest one if there is none."""
    if name not in TRACKERS:
        raise ValueError(f"no tracker '{name}'{nearest(name, TRACKERS)}")
    return name


@dataclass(frozen=True, config=STRICT)
class Tracking:
    """The MLflow mirror, and trackers that are told the same."""

    uri: Annotated[str, matching(*STORE)] = "sqlite:///results/mlflow.db"
    timeout_seconds: Seconds = 120.0  # a busy machine takes more than 20
    report_to: tuple[Annotated[str, AfterValidator(known_tracker)], ...] = ()

"""The list of runs as a reader needs it: a saved view of MLflow's, which shows a study's results.

MLflow's interface keeps a view ("Views" above the list) as a tag of the experiment, and a link
names the view in its query. By itself the list shows when runs were made, and nothing they found.
"""

import json
from typing import TYPE_CHECKING

from pcqc.study import Study
from pcqc.tracking.values import LEARNED

if TYPE_CHECKING:
    from mlflow.entities import Experiment

RESULTS = "results"  # the view in links: `viewStateShareKey=results`
TAG = f"mlflow.sharedViewState.{RESULTS}"
TITLE = "Accuracy, turns, reward, credit"
# Pixels. MLflow's own widths cut "evaluation/average/accuracy" and "(superseded)" off.
LETTER, MARGIN, INDENT = 6, 32, 72


def of_study(study: Study, experiment: "Experiment") -> str:
    """The value of the tag: the view's name, when it was made, and the state of the list.

    The order of runs is MLflow's own: in any other they do not lie below their method. A column
    has its width only if the order names it.
    """
    columns = {_column("metrics", name): name for name in _metrics(study)}
    columns[_column("tags", "superseded_because")] = "superseded_because"
    widths = {key: LETTER * len(name) + MARGIN for key, name in columns.items()}
    titles = [method.title for method in study.methods.values() if not method.on_demand]
    longest = f"{max(titles, key=len, default='')}, run A (superseded)"
    widths[_column("attributes", "Run Name")] = LETTER * len(longest) + MARGIN + INDENT
    state = {
        "selectedColumns": list(columns),
        "columnOrder": list(widths),
        "columnWidths": widths,
    }
    made = {"name": TITLE, "createdAt": experiment.creation_time}
    return json.dumps({**made, "state": json.dumps(state)})


def _metrics(study: Study) -> list[str]:
    """Averages, what was learned from, then every benchmark."""
    return [
        "evaluation/average/accuracy",
        "evaluation/average/turns",
        *LEARNED,
        *(f"evaluation/{b}/{name}" for b in study.benchmarks for name in ("accuracy", "turns")),
    ]


def _column(kind: str, name: str) -> str:
    """A column by the name that MLflow's interface has for it."""
    return f"{kind}.`{name}`"

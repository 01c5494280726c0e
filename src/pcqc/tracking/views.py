"""A saved view of MLflow's list of runs that shows a study's results.

MLflow keeps a view (under "Views" above the list) as a tag of the experiment, and a link names the
view in its query. Without one the list shows when runs were made, and none of their numbers.
"""

import json
from typing import TYPE_CHECKING

from pcqc.study import Study
from pcqc.tracking.values import LEARNED

if TYPE_CHECKING:
    from mlflow.entities import Experiment

TAG = "mlflow.sharedViewState.results"  # a link names it: `viewStateShareKey=results`
TITLE = "Accuracy, turns, reward, credit"
# Pixels. MLflow's own widths cut the names of columns and runs off.
LETTER, MARGIN, NAME = 6, 32, 340


def of_study(study: Study, experiment: "Experiment") -> str:
    """The value of the tag: the view's name, when it was made, and the state of the list.

    Runs keep MLflow's own order: in any other they do not lie below their method. MLflow gives a
    column its width only if `columnOrder` names it.
    """
    metrics = [
        *("evaluation/average/accuracy", "evaluation/average/turns", *LEARNED),
        *(f"evaluation/{b}/{name}" for b in study.benchmarks for name in ("accuracy", "turns")),
    ]
    widths = {f"metrics.`{name}`": LETTER * len(name) + MARGIN for name in metrics}
    columns = list(widths)
    widths["attributes.`Run Name`"] = NAME
    state = {"selectedColumns": columns, "columnOrder": list(widths), "columnWidths": widths}
    return json.dumps(
        {"name": TITLE, "createdAt": experiment.creation_time, "state": json.dumps(state)}
    )

"""`make ui`: the link that it prints leads to the study's runs in MLflow."""

import json
import os
import re
import signal
import subprocess
from urllib.request import Request, urlopen

import pytest
from helpers import free_port
from workplace import STUDY

from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study


@pytest.mark.slow
def test_the_link_leads_to_the_runs_of_the_study(copy):
    port = free_port()
    # `make test` may have started this; a make in a make says so first.
    make = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), "-o", "env", "ui"]
    served = subprocess.Popen(
        [*make, f"STUDY={STUDY}", f"PORT={port}"],
        cwd=copy.folder,
        env=copy.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed = served.stdout.readline()
        column = "&viewStateShareKey=results"  # the view of the list with a metric
        link = re.fullmatch(rf"Open (.+)/#/experiments/(\d+)/runs\?\S+{column}\n", printed)
        address, experiment = link.groups()
        assert any("running on" in line for line in served.stdout)
        query = json.dumps({"experiment_ids": [experiment], "max_results": 1000}).encode()
        headers = {"Content-Type": "application/json"}
        search = Request(f"{address}/api/2.0/mlflow/runs/search", query, headers)
        with urlopen(search, timeout=60) as answer:
            names = {run["info"]["run_name"] for run in json.load(answer)["runs"]}
        methods = [m for m in load_study(STUDY).methods.values() if m.runs and not m.on_demand]
        assert names >= {f"{m.title}, run {letter}" for m in methods for letter in m.runs}
    finally:
        os.killpg(served.pid, signal.SIGKILL)
        served.communicate()

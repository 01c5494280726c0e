"""A password or token in MLFLOW_TRACKING_URI reaches no record, and nothing that MLflow keeps."""

import dataclasses
from pathlib import Path

from hand_made import finish_job, folder_of
from helpers import SECRET_ADDRESS, SECRETS
from tracked import collect, mirror, publish

from pcqc_base.system.files import write_atomic
from pcqc_study.mlflow_mirror.prepare import prepare


def test_secrets_of_the_address_stand_in_no_file(study, monkeypatch):
    """An SQLite store stands for the server of that address."""
    database = f"sqlite:///{Path('server.db').resolve()}"
    for module in ("open_store", "prepare"):
        monkeypatch.setattr(f"pcqc_study.mlflow_mirror.{module}.connection", lambda _: database)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", SECRET_ADDRESS)
    methods = ("shared_sft", "pcqc")
    for name in set(study.methods) - set(methods):
        study.methods[name] = dataclasses.replace(study.methods[name], runs=())
    write_atomic(folder_of(study, "report") / "report.html", "<p>")
    finish_job(study, "report")
    prepare(study)
    for method in methods:
        mirror(study, method)
    collect(study)
    publish(study)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert {"server.db", "record.json", "runs.json", "report.html"} <= {path.name for path in files}
    for path in files:
        assert not [secret for secret in SECRETS if secret in path.read_bytes()], path

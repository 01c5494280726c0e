"""What a study's jobs start from: model folders, servers, the MLflow store."""

import dataclasses
from collections.abc import Iterator
from functools import partial

from pcqc.doctor.findings import Finding, tried
from pcqc.errors import UserError
from pcqc.models.folder import check_folder
from pcqc.models.pretrained import locate
from pcqc.study import Server, Study
from pcqc.study.paths import Paths
from pcqc.tracking.store import check_store


def services(study: Study) -> Iterator[Finding]:
    """Every model folder, every server, and the store."""
    for folder in dict.fromkeys([*(study.pretrained or ["base"]), "actor", "patient"]):
        yield tried(f"model {folder}", partial(_model, study, folder))
    for role, server in _servers(study).items():
        yield tried(f"server {role}", partial(_server, study, role, server))
    yield tried("MLflow", partial(check_store, study))


def _model(study: Study, folder: str) -> str:
    """Digests of a folder; of pretrained weights that are not installed yet, where they come from.

    The workflow makes the other folders.
    """
    path = Paths.of(study).model(folder)
    command = f"pcqc models {study.name}" if folder in study.pretrained else "the workflow"
    if path.exists():
        files = check_folder(path, f"remove {path} and run {command} again")["files"]
        return f"{len(files)} files with the digests of their manifest"
    if folder not in study.pretrained:
        return f"not there yet: {command} makes it"
    return f"not installed yet: `{command}` takes it from {locate(study.pretrained[folder])}"


def _servers(study: Study) -> dict[str, Server]:
    """Role, or folder of a judge -> its server."""
    judges = study.continuation.judges if study.continuation else {}
    found = {role: getattr(study.servers, role) for role in ("patient", "scorer")}
    found |= {f"judge_{name}": judge.server for name, judge in judges.items()}
    return {role: server for role, server in found.items() if server}


def _server(study: Study, role: str, server: Server) -> str:
    """It answers, has the role's weights, and samples as it is asked to."""
    from pcqc.engines.server import ServerEngine

    folder = study.starts_from(role) if role == "scorer" else role
    try:
        # A job is more patient with a server.
        engine = ServerEngine(dataclasses.replace(server, timeout_seconds=10.0, attempts=2))
        engine.check_weights(Paths.of(study).model(folder))
        engine.check_defaults()
    except UserError as problem:
        if "; " in str(problem):
            raise
        raise UserError(f"{problem}; start the server as docs/plan.md says") from problem
    return f"{server.url} serves {engine.model}, and its defaults change no sample"

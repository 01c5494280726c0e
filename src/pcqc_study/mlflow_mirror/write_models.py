"""Selected checkpoints as registered models, so that others load them by name.

A model is named `<study>-<method>`; each run's choice is a version of it, and the run's letter is
the alias of that version. Weights stay where the run wrote them: a version names their folder.
"""

from pcqc_study.mlflow_mirror import notes
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.mlflow_mirror.open_store import Store, artifacts


def register(store: Store, run: FinishedRun, run_id: str) -> None:
    """Make the selected checkpoint a version of its method's model, where it is not yet.

    Nothing is registered where a server keeps the artifacts, which cannot read this machine's disk,
    or where the weights were removed.
    """
    folder = run.weights
    if artifacts(run.study) is None or not folder.is_dir():
        return
    client, name, source = store.client, f"{run.study.name}-{run.method}", folder.resolve().as_uri()
    if not client.search_registered_models(f"name = '{name}'"):
        tags = {"study": run.study.name, "method": run.method}
        client.create_registered_model(name, tags, notes.of_model(run))
    versions = client.search_model_versions(f"name = '{name}'")
    mine = [version for version in versions if (version.run_id, version.source) == (run_id, source)]
    if not mine:
        labels = {"run": run.run, "update": str(run.evaluation["update"])}
        card = notes.of_checkpoint(run, str(folder), name)
        mine = [client.create_model_version(name, source, run_id, labels, description=card)]
    # A search does not tell aliases.
    if run.run not in client.get_model_version(name, mine[0].version).aliases:
        client.set_registered_model_alias(name, run.run, mine[0].version)
    # The same checkpoint of before the folder was moved, or the store was lost.
    results = run.study.results
    place = f"/{results.name}/{folder.resolve().relative_to(results.resolve()).as_posix()}"
    for version in versions:
        if version.version != mine[0].version and version.source.endswith(place):
            client.delete_model_version(name, version.version)

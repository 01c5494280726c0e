"""Jobs in a row on a tiny study: fine-tuning, a run, selection, evaluation; killed and resumed."""

import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers import make_tokenizer, tiny_model
from small_runs import Killed, digests, small_study
from stub_server import Stub, completion

from pcqc.cases.case import read_cases
from pcqc.errors import UserError
from pcqc.jobs import engines, rl_loop
from pcqc.jobs import sft as sft_job
from pcqc.jobs.clinic import validation_quality
from pcqc.jobs.evaluate import run_evaluation
from pcqc.jobs.explain import explain
from pcqc.jobs.select import run_selection
from pcqc.jobs.setup import chat_format
from pcqc.models.folder import save_model
from pcqc.study import Server, Servers
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.predictions import SCHEMA, read_predictions
from pcqc.system.files import read_json, read_jsonl, sha256_file

METHOD, RUN = "pcqc", "A"
make_study = small_study


def weights(folder: Path) -> dict[str, str]:
    return digests(folder, "models/*/model.safetensors", "models/sft_losses.jsonl")


def test_the_patient_is_a_checkpoint_on_the_way_to_the_actor(prepared):
    found = weights(prepared / "results" / "small")
    assert len(set(found.values())) == 4  # base, actor, patient, losses


@pytest.mark.parametrize("killed_at", ["patient", "actor"])
def test_killed_fine_tuning_ends_in_the_same_models(study, prepared, monkeypatch, killed_at):
    """What a rule declares as its outputs is deleted before its rerun."""
    paths, write = Paths.of(study), sft_job.write_model
    for name in ("state", "actor", "patient"):
        shutil.rmtree(paths.root / "models" / name)

    def killing(folder, *arguments):
        write(folder, *arguments)
        if folder.name == killed_at:
            raise Killed

    monkeypatch.setattr(sft_job, "write_model", killing)
    with pytest.raises(Killed):
        sft_job.run_sft(study)
    monkeypatch.setattr(sft_job, "write_model", write)
    for role in ("actor", "patient"):
        (paths.model(role) / "manifest.json").unlink(missing_ok=True)
    sft_job.run_sft(study)
    assert weights(paths.root) == weights(prepared / "results" / "small")


def test_another_base_is_fine_tuned_afresh(study, prepared):
    paths = Paths.of(study)
    tokenizer = make_tokenizer()
    save_model(paths.model("base"), tiny_model(5, len(tokenizer)), tokenizer)
    job_output(study, "pretrain").finish(["base/manifest.json"])
    sft_job.run_sft(study)
    before, after = weights(prepared / "results" / "small"), weights(paths.root)
    assert all(before[name] != after[name] for name in before)


def test_a_run_leaves_its_whole_record(finished):
    folder = finished / "runs" / METHOD / RUN
    manifest = read_json(folder / "manifest.json")
    assert manifest["updates"] == 5
    assert [c["update"] for c in manifest["checkpoints"]] == [2, 4, 5]
    assert manifest["totals"]["trajectories"] == 5 * 2 * 2
    assert {name: sha256_file(folder / name) for name in manifest["files"]} == manifest["files"]
    events = [row for _, row in read_jsonl(folder / "events.jsonl")]
    kinds = [(e["kind"], e["update"]) for e in events]
    assert kinds == [
        ("update", 1),
        ("update", 2),
        ("validation", 2),
        ("update", 3),
        ("update", 4),
        ("validation", 4),
        ("update", 5),
        ("validation", 5),
    ]
    wanted = {
        "reward/mean",
        "accuracy",
        "turns",
        "tokens/actor",
        "credit/zero_group_share",
        "credit/utility_spread",
        "kl",
        "ratio/mean",
        "ratio/clipped_share",
        "gradient_norm",
        "gap/mean",
        "gap/max",
        "seconds/rollout",
        "seconds/scorer",
        "seconds/update",
        "device_hours",
        "trajectories",
    }
    assert wanted <= events[0].keys()
    assert events[0]["gap/max"] < 1e-4
    # The reference stays where the policy began.
    of_updates = [e["kl"] for e in events if e["kind"] == "update"]
    assert abs(of_updates[0]) < 1e-6 < min(of_updates[1:])
    groups = [row for _, row in read_jsonl(folder / "candidate_groups.jsonl")]
    assert groups
    for group in groups:
        assert [c["executed"] for c in group["candidates"]] == [True, False]
        for candidate in group["candidates"]:
            gain = candidate["utility"] - group["baseline"]
            assert candidate["gain"] == pytest.approx(gain)
            assert (candidate["answer"] is None) == (candidate["question"] is None)


def events(folder: Path) -> list[dict]:
    return [row for _, row in read_jsonl(folder / "runs" / METHOD / RUN / "events.jsonl")]


def test_tokens_are_counted_by_role_without_validation(finished):
    """Dropped candidates count too; totals are sums over the updates."""
    totals = read_json(finished / "runs" / METHOD / RUN / "manifest.json")["totals"]
    updates = [row for row in events(finished) if row["kind"] == "update"]
    names = ("sampled/actor", "sampled/patient", "read/actor", "read/patient", "read/scorer")
    assert all(row[name] > 0 for row in events(finished)[:1] for name in names)
    assert all(row["sampled/actor"] >= row["tokens/actor_all"] for row in updates)
    sampled = sum(row["sampled/actor"] + row["sampled/patient"] for row in updates)
    assert totals["sampled_tokens"] == updates[-1]["sampled_tokens"] == sampled
    scored = sum(row["read/scorer"] for row in updates)
    assert totals["scored_tokens"] == updates[-1]["scored_tokens"] == scored
    # Validation is counted in rows of its own; it scores nothing.
    validations = [row for row in events(finished) if row["kind"] == "validation"]
    assert all(row["sampled/actor"] > 0 == row["read/scorer"] for row in validations)
    # A doctor of this size may ask nothing: then the patient reads as little as it says.
    said, heard = ([row[f"{n}/patient"] > 0 for row in validations] for n in ("sampled", "read"))
    assert said == heard
    assert any(said)


def test_an_engine_that_shares_the_learner_s_model_reports_no_sync_gap(finished):
    assert not any(n.startswith(("sync/", "servers/")) for row in events(finished) for n in row)


def test_sync_gaps_are_recorded(study, monkeypatch):
    """Once for each weights: update 3 and 5 sample with those that update 2 and 4 validated."""
    found = iter(n / 1e6 for n in range(8))
    monkeypatch.setattr(engines, "make_sync", lambda *_: lambda weights: next(found))
    rl_loop.run_training(study, METHOD, RUN)
    rows = [(row["kind"], row["sync/gap"] * 1e6) for row in events(Path("results/small"))]
    update, validation = "update", "validation"
    assert rows == [
        (update, 0),
        (update, 1),
        (validation, 2),
        (update, 2),
        (update, 3),
        (validation, 4),
        (update, 4),
        (validation, 5),
    ]


def test_failures_of_servers_are_recorded(study):
    """The first request is refused, the second and third answered at the second attempt."""
    chat = chat_format(study, Paths.of(study).model("patient"))
    answer = completion([*chat.encode("No."), chat.end_of_turn])
    seen = []

    def reply(body, attempt):
        seen.append(body)
        if body == seen[0]:
            return 400, "no"
        first = [b for i, b in enumerate(seen) if b not in seen[:i]].index(body)
        return (503, "busy") if attempt == 0 and first in (1, 2) else answer

    stub = Stub(reply)
    try:
        patient = Server(stub.url, backoff_seconds=0.0, concurrent=1)
        served = dataclasses.replace(study, servers=Servers(patient=patient))
        rl_loop.run_training(served, METHOD, RUN)
    finally:
        stub.close()
    rows = events(Path("results/small"))
    assert {name for name in rows[0] if name.startswith("servers/")} == {
        "servers/patient/retries",
        "servers/patient/failures",
    }
    assert [row["servers/patient/retries"] for row in rows] == [2] + 7 * [0]
    assert [row["servers/patient/failures"] for row in rows] == [1] + 7 * [0]
    assert rows[0]["failures/patient"] == 1


def test_validation_and_evaluation_keep_every_prediction(finished):
    folder = finished / "evaluation" / METHOD / RUN
    manifest = read_json(folder / "manifest.json")
    chosen = read_json(folder / "selection.json")["selected"]["update"]
    assert manifest["update"] == chosen
    for name, summary in manifest["benchmarks"].items():
        table = pq.read_table(folder / f"{name}.parquet")
        assert table.schema == SCHEMA
        assert table.num_rows == summary["cases"] == 4
        assert set(table["update"].to_pylist()) == {chosen}
        dialogues = [row for _, row in read_jsonl(folder / f"{name}.jsonl")]
        assert [d["case_id"] for d in dialogues] == table["case_id"].to_pylist()
        assert summary["accuracy"] == sum(d["correct"] for d in dialogues) / 4
    # The development benchmark is drawn by the same schedule in validation and in evaluation.
    validation = finished / "runs" / METHOD / RUN / "validation" / f"{chosen:06d}.parquet"
    assert read_predictions(validation).equals(read_predictions(folder / "clinic_dev.parquet"))


def test_validations_of_the_clinic_say_how_good_its_questions_were(study, finished):
    """They see what the evaluation of the same checkpoint sees, and change nothing of the run."""
    judged = validation_quality(study)
    rl_loop.run_training(study, METHOD, RUN, judged=judged)
    evaluation = finished / "evaluation" / METHOD / RUN
    chosen = read_json(evaluation / "manifest.json")["update"]
    dialogues = [row for _, row in read_jsonl(evaluation / "clinic_dev.jsonl")]
    expected = judged(read_cases(Paths.of(study).cases(study.development)), dialogues)
    folder = Path("results/small/runs") / METHOD / RUN
    found = read_json(folder / "validation" / f"{chosen:06d}.json")["validation"]
    assert expected
    assert expected == {name: found[name] for name in expected}
    rows = {row["update"]: row for row in events(folder.parents[2]) if row["kind"] == "validation"}
    assert expected.items() <= rows[chosen].items()
    weights = "runs/*/*/checkpoints/*/model.safetensors"
    assert digests(Path("results/small"), weights) == digests(finished, weights)


@pytest.mark.parametrize("kill_at", [1, 2, 3, 5])
def test_a_killed_run_ends_in_the_same_bytes(study, finished, monkeypatch, kill_at):
    keep = rl_loop.Run._record

    def killing(self, update, *arguments):
        keep(self, update, *arguments)
        if update == kill_at:
            raise Killed

    monkeypatch.setattr(rl_loop.Run, "_record", killing)
    with pytest.raises(Killed):
        rl_loop.run_training(study, METHOD, RUN)
    monkeypatch.setattr(rl_loop.Run, "_record", keep)
    rl_loop.run_training(study, METHOD, RUN)
    patterns = [
        f"runs/{METHOD}/{RUN}/{name}"
        for name in (
            "validation/*.parquet",
            "candidate_groups.jsonl",
            "consultations.jsonl",
            "checkpoints/*/model.safetensors",
        )
    ]
    found = digests(Path("results/small"), *patterns)
    assert len(found) == 3 + 2 + 3
    assert found == digests(finished, *patterns)
    counted, unbroken = (
        read_json(folder / f"runs/{METHOD}/{RUN}/manifest.json")["totals"]
        for folder in (Path("results/small"), finished)
    )
    assert counted.keys() == unbroken.keys()
    assert all(counted[n] == unbroken[n] for n in counted if n != "device_seconds")


@pytest.fixture
def levelling(study):
    """A study whose runs end at the second checkpoint: no gain is 101 points."""
    rl = dataclasses.replace(study.rl, level_after=1, level_points=101.0)
    return dataclasses.replace(study, rl=rl)


def test_a_run_that_levels_off_ends_there(levelling, finished):
    rl_loop.run_training(levelling, METHOD, RUN)
    folder = Path("results/small/runs") / METHOD / RUN
    manifest = read_json(folder / "manifest.json")
    assert (manifest["updates"], manifest["ended"]) == (4, "levelled off")
    assert [c["update"] for c in manifest["checkpoints"]] == [2, 4]
    whole = read_json(finished / "runs" / METHOD / RUN / "manifest.json")
    assert (whole["updates"], whole["ended"]) == (5, "all updates")
    # Up to there it is the run that goes on.
    weights = "runs/*/*/checkpoints/*/model.safetensors"
    found, others = digests(Path("results/small"), weights), digests(finished, weights)
    assert len(found) == 2
    assert found.items() <= others.items()
    assert f"4 updates of {levelling.method(METHOD).updates}, levelled off" in explain(
        levelling, METHOD, RUN
    )
    run_selection(levelling, METHOD, RUN)
    assert read_json("results/small/evaluation/pcqc/A/selection.json")["selected"]["update"] in (
        2,
        4,
    )


@pytest.mark.parametrize("call", ["_save", "_manifest"])
def test_a_run_killed_as_it_levels_off_ends_in_the_same_bytes(levelling, monkeypatch, call):
    """Killed with the last validation written but no state beyond update 2, or with the state."""
    original = getattr(rl_loop.Run, call)

    def killing(self, update, *arguments):
        if update == 4:
            raise Killed
        return original(self, update, *arguments)

    kept = [f"runs/*/*/{n}" for n in ("validation/*.parquet", "checkpoints/*/model.safetensors")]
    rl_loop.run_training(levelling, METHOD, RUN)
    unbroken = digests(Path("results/small"), *kept)
    shutil.rmtree("results/small/runs")
    monkeypatch.setattr(rl_loop.Run, call, killing)
    with pytest.raises(Killed):
        rl_loop.run_training(levelling, METHOD, RUN)
    monkeypatch.setattr(rl_loop.Run, call, original)
    rl_loop.run_training(levelling, METHOD, RUN)
    manifest = read_json(Path("results/small/runs") / METHOD / RUN / "manifest.json")
    assert (manifest["updates"], manifest["ended"]) == (4, "levelled off")
    assert digests(Path("results/small"), *kept) == unbroken


def test_shared_sft_is_evaluated_as_it_is(study):
    run_selection(study, "shared_sft", "A")
    run_evaluation(study, "shared_sft", "A")
    manifest = read_json("results/small/evaluation/shared_sft/A/manifest.json")
    assert manifest["update"] == 0
    with pytest.raises(UserError, match="may not select checkpoints"):
        run_selection(study, "shared_sft", "A", "clinic_wide")
    with pytest.raises(UserError, match="'shared_sft' has no reinforcement learning"):
        rl_loop.run_training(study, "shared_sft", "A")


def test_held_out_benchmarks_cannot_select_a_run(study, finished):
    shutil.copytree(finished / "runs", Path("results/small/runs"))
    with pytest.raises(UserError, match="'clinic_sparse' is a held-out benchmark"):
        run_selection(study, METHOD, RUN, "clinic_sparse")
    assert not Path("results/small/evaluation").exists()


def test_missing_and_corrupted_models_are_named(study):
    paths = Paths.of(study)
    weights_file = paths.model("patient") / "model.safetensors"
    content = bytearray(weights_file.read_bytes())
    content[-1] ^= 1
    weights_file.write_bytes(content)
    with pytest.raises(UserError, match=r"patient/model.safetensors: corrupted"):
        rl_loop.run_training(study, METHOD, RUN)
    shutil.rmtree(paths.model("patient"))
    with pytest.raises(UserError, match=r"models/patient: no"):
        rl_loop.run_training(study, METHOD, RUN)
    shutil.rmtree(paths.model("actor"))
    with pytest.raises(UserError, match=r"models/actor: no"):
        rl_loop.run_training(study, METHOD, RUN)


def test_truncated_predictions_are_named(finished, tmp_path):
    whole = finished / "evaluation" / METHOD / RUN / "clinic_dev.parquet"
    path = tmp_path / "cut.parquet"
    path.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"cut.parquet: not a table with the columns"):
        read_predictions(path)
    with pytest.raises(UserError, match=r"none.parquet: not a table with the columns"):
        read_predictions(tmp_path / "none.parquet")


def test_the_splits_of_the_clinic_share_no_case(prepared):
    data = prepared / "results" / "small" / "data"
    manifest = read_json(data / "manifest.json")
    seen: set[str] = set()
    for name, entry in manifest["files"].items():
        assert sha256_file(data / name) == entry["sha256"]
        if name == "sft.jsonl":
            continue
        rows = [row for _, row in read_jsonl(data / name)]
        assert len(rows) == entry["rows"]
        keys = {json.dumps([r["initial"], r["options"], r["facts"]]) for r in rows}
        assert len(keys) == len(rows)
        assert not keys & seen
        seen |= keys

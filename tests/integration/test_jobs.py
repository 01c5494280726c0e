"""Jobs in a row on a tiny study: fine-tuning, a run, selection, evaluation; killed and resumed."""

import json
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from digests import digests
from hand_made import finish_job, folder_of
from helpers import changed
from small_runs import killed_at, small_study
from stub_server import Stub, completion

from analysis.load import CasesById
from clinic_env.posterior import Values
from pcqc.cases.case import read_cases
from pcqc.cases.chat import ChatFormat
from pcqc.evaluation.predictions import SCHEMA, read_predictions
from pcqc.jobs import engines, rl_loop
from pcqc.logged.updates import read_updates
from pcqc.models.folder import load_tokenizer
from pcqc_base.errors import UserError
from pcqc_base.settings import Server, Servers
from pcqc_base.system.files import read_json, read_jsonl, sha256_file
from pcqc_clinic.quality import early_quality
from pcqc_clinic.world import load_world
from pcqc_study.explain import explain, explained
from pcqc_study.graph import latest
from pcqc_study.run_job import run_job

METHOD, RUN = "pcqc", "A"
make_study = small_study
ROOT = Path("results/small")
TRAINED = Path("runs", METHOD, RUN, "latest")
EVALUATED = Path("evaluation", METHOD, RUN, "latest")
SELECTED = Path("selection", METHOD, RUN, "latest", "selection.json")


def train(study):
    run_job(study, "train", METHOD, RUN)


@pytest.mark.parametrize("lie", ["a disease", "a complaint"])
def test_a_case_of_no_known_disease_is_one_line_also_where_its_digest_was_made_to_fit(study, lie):
    path = folder_of(study, "prepare", "clinic_dev") / "clinic_dev.jsonl"
    world = load_world(folder_of(study, "clinic", "world") / "world.json")
    case = read_cases(path)[1]
    (complaint,) = set(case.initial.rstrip(".").split()) & set(world.complaints)
    old = case.options["B"] if lie == "a disease" else complaint
    first, row, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, row.replace(old, "gout\\n"), *rest]))
    finish_job(study, "prepare", "clinic_dev")
    with pytest.raises(UserError, match=f"^{path}, case '{case.case_id}': ") as error:
        train(study)
    assert str(error.value).endswith(f"altered: move {path.parent} away and run the workflow again")
    assert str(error.value).isprintable()
    with pytest.raises(UserError, match=f"clinic_dev.jsonl, case '{case.case_id}': "):
        CasesById(study, "clinic_dev")


def test_a_run_leaves_its_whole_record(finished):
    folder = finished / TRAINED
    manifest = read_json(folder / "manifest.json")
    assert manifest["updates"] == 5
    assert [c["update"] for c in manifest["checkpoints"]] == [2, 4, 5]
    assert manifest["totals"]["trajectories"] == 5 * 2 * 2
    assert {name: sha256_file(folder / name) for name in manifest["files"]} == manifest["files"]
    events = list(read_updates(folder / "events.jsonl", folder / "times.jsonl"))
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
    wanted = {"reward/mean", "accuracy", "turns", "tokens/actor", "credit/zero_group_share"}
    wanted |= {"credit/utility_spread", "kl", "ratio/mean", "ratio/clipped_share", "gap/mean"}
    wanted |= {"gradient_norm", "seconds/rollout", "seconds/scorer", "seconds/update"}
    wanted |= {"device_hours", "trajectories"}
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
    return list(read_updates(*(folder / TRAINED / f"{n}.jsonl" for n in ("events", "times"))))


def test_tokens_are_counted_by_role_without_validation(finished):
    """Dropped candidates count too; totals are sums over the updates."""
    totals = read_json(finished / TRAINED / "manifest.json")["totals"]
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
    sampled, read = ([row[f"{n}/patient"] > 0 for row in validations] for n in ("sampled", "read"))
    assert sampled == read
    assert any(sampled)


def test_an_engine_that_shares_the_learner_s_model_reports_no_sync_gap(finished):
    assert not any(n.startswith(("sync/", "servers/")) for row in events(finished) for n in row)


def test_sync_gaps_are_recorded(study, monkeypatch):
    """Once for each weights: update 3 and 5 sample with those that update 2 and 4 validated."""
    gaps = iter(n / 1e6 for n in range(8))
    monkeypatch.setattr(engines, "make_weight_update", lambda *_: lambda weights: next(gaps))
    train(study)
    rows = [(row["kind"], row["sync/gap"] * 1e6) for row in events(ROOT)]
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
    tokenizer = load_tokenizer(latest(study, "sft") / "patient")
    chat = ChatFormat(tokenizer, study.clinic.instruction)
    answer = completion([*chat.encode("No."), chat.end_of_turn])
    seen = []

    def reply(body, attempt):
        seen.append(body)
        if body == seen[0]:
            return 400, "no"
        first = [b for i, b in enumerate(seen) if b not in seen[:i]].index(body)
        return (503, "busy") if attempt == 0 and first in (1, 2) else answer

    with closing(Stub(reply)) as stub:
        patient = Server(stub.url, backoff_seconds=0.0, concurrent=1)
        train(changed(study, "servers", Servers(patient=patient)))
    rows = events(ROOT)
    assert {name for name in rows[0] if name.startswith("servers/")} == {
        "servers/patient/retries",
        "servers/patient/failures",
    }
    assert [row["servers/patient/retries"] for row in rows] == [2] + 7 * [0]
    assert [row["servers/patient/failures"] for row in rows] == [1] + 7 * [0]
    assert rows[0]["failures/patient"] == 1


def test_validation_and_evaluation_keep_every_prediction(finished):
    folder = finished / EVALUATED
    manifest = read_json(folder / "manifest.json")
    chosen = read_json(finished / SELECTED)["selected"]["update"]
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
    validation = finished / TRAINED / "validation" / f"{chosen:06d}.parquet"
    assert read_predictions(validation).equals(read_predictions(folder / "clinic_dev.parquet"))


def test_validations_of_the_clinic_say_how_good_its_questions_were(study, finished):
    """They see what the evaluation of the same checkpoint sees."""
    world = load_world(finished / "data/clinic/world/latest/world.json")
    values = Values(world, world.rates(study.benchmarks[study.development].base_rates))
    chosen = read_json(finished / EVALUATED / "manifest.json")["update"]
    dialogues = [row for _, row in read_jsonl(finished / EVALUATED / "clinic_dev.jsonl")]
    cases = read_cases(finished / "data/clinic_dev/latest/clinic_dev.jsonl")
    expected = early_quality(values, cases, dialogues)
    validation = read_json(finished / TRAINED / "validation" / f"{chosen:06d}.json")["validation"]
    assert expected
    assert expected == {name: validation[name] for name in expected}
    rows = {row["update"]: row for row in events(finished) if row["kind"] == "validation"}
    assert expected.items() <= rows[chosen].items()


@pytest.mark.parametrize("kill_at", [1, 3])
def test_a_killed_run_ends_in_the_same_bytes(study, finished, kill_at):
    with killed_at(rl_loop.Run, "_record", lambda _, update, *__: update == kill_at, after=True):
        train(study)
    train(study)
    patterns = ("validation/*.parquet", "candidate_groups.jsonl", "consultations.jsonl")
    patterns += ("events.jsonl", "checkpoints/*/model.safetensors")
    made = digests(ROOT / TRAINED, *patterns)
    assert len(made) == 3 + 2 + 1 + 3
    assert made == digests(finished / TRAINED, *patterns)
    counted, unbroken = (
        read_json(folder / TRAINED / "manifest.json")["totals"] for folder in (ROOT, finished)
    )
    assert counted.keys() == unbroken.keys()
    assert all(counted[n] == unbroken[n] for n in counted if n != "device_seconds")


@pytest.fixture
def levelling(study):
    """A study whose runs end at the second checkpoint: no gain is 101 points."""
    return changed(changed(study, "rl.level_after", 1), "rl.level_points", 101.0)


def test_a_run_that_levels_off_ends_there(levelling, finished):
    train(levelling)
    folder = ROOT / TRAINED
    manifest = read_json(folder / "manifest.json")
    assert (manifest["updates"], manifest["ended"]) == (4, "levelled off")
    assert [c["update"] for c in manifest["checkpoints"]] == [2, 4]
    whole = read_json(finished / TRAINED / "manifest.json")
    assert (whole["updates"], whole["ended"]) == (5, "all updates")
    # Up to there it is the run that goes on.
    weights = "checkpoints/*/model.safetensors"
    made, others = digests(folder, weights), digests(finished / TRAINED, weights)
    assert len(made) == 2
    assert made.items() <= others.items()
    assert "4 updates (levelled off)" in explained(explain(levelling, METHOD, RUN))
    run_job(levelling, "select", METHOD, RUN)
    assert read_json(ROOT / SELECTED)["selected"]["update"] in (2, 4)


@pytest.mark.parametrize("call", ["_save", "_summary"])
def test_a_run_killed_as_it_levels_off_ends_in_the_same_bytes(levelling, finished, call):
    """Killed with the last validation written but no state beyond update 2, or with the state."""
    with killed_at(rl_loop.Run, call, lambda _, update, *__: update == 4):
        train(levelling)
    train(levelling)
    manifest = read_json(ROOT / TRAINED / "manifest.json")
    assert (manifest["updates"], manifest["ended"]) == (4, "levelled off")
    kept = ("validation/*.parquet", "checkpoints/*/model.safetensors")
    made = digests(ROOT / TRAINED, *kept)
    assert len(made) == 2 + 2
    assert made.items() <= digests(finished / TRAINED, *kept).items()


def test_the_splits_of_the_clinic_share_no_case(prepared):
    data = prepared / "results/small/data/clinic"
    sets = sorted(folder.name for folder in data.iterdir() if folder.name != "world")
    assert {"train", "sft", "clinic_dev", "clinic_wide"} <= set(sets)
    seen: set[str] = set()
    for name in sets:
        folder = data / name / "latest"
        file = "cases" if name == "sft" else name
        rows = [row for _, row in read_jsonl(folder / f"{file}.jsonl")]
        assert len(rows) == read_json(folder / "manifest.json")["rows"]
        keys = {json.dumps([r["prompt"][1]["content"], r["extra_info"]]) for r in rows}
        assert len(keys) == len(rows)
        assert not keys & seen
        seen |= keys

"""What an edit of settings or source makes again in the finished miniature study."""

import re
import shutil

import pytest
from digests import digests
from workplace import CONTINUED, RUNS, SETTINGS, STUDY, Workplace, started

from pcqc_study.check_results import prepare_to_run
from pcqc_study.graph import Jobs
from pcqc_study.job_kinds import KINDS
from pcqc_study.mlflow_mirror.open_store import SQLITE
from pcqc_study.study_file import load_study

CREDIT = "packages/turn_credit/src/turn_credit/arithmetic.py"
PUBLISH = "Publish the report in MLflow"
REPORT = "Write tables, figures, transcripts and report"
END = ["Collect all runs from MLflow", PUBLISH, REPORT]
WORDS = {
    "train": "Train",
    "select": "Choose the checkpoint of",
    "evaluate": "Evaluate",
    "continuation": "Continue from the candidates of",
    "grounding": "Judge the answers of",
}


def jobs(methods, kinds):
    """Messages of jobs of these kinds, of all runs of methods."""
    messages = [f"Mirror {method} in MLflow" for method in methods if "mirror" in kinds]
    for kind in set(kinds) - {"mirror"}:
        for method in methods:
            of_candidates = kind in ("continuation", "grounding")
            runs = CONTINUED.get(method, "") if of_candidates else RUNS[method]
            if (kind, method) != ("train", "shared_sft"):
                messages += [f"{WORDS[kind]} {method}, run {run}" for run in runs]
    return messages


def test_a_second_run_starts_no_job_and_changes_no_byte(mini):
    before, output = digests(mini.results), mini.make()
    assert "Nothing to be done" in output
    assert not re.search(r"^(Job|rule) ", output, re.MULTILINE)
    assert digests(mini.results) == before


@pytest.mark.slow  # trains
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("job", [("sft",), ("train", "grpo", "A")])
def test_a_job_of_the_clinic_has_its_bytes_whatever_threads_are_asked_for(copy, job, threads):
    """The order of a sum, so its last digits, depends on their number."""
    folder = copy.results / ("models/sft" if job == ("sft",) else "runs/grpo/A")
    weights = {n: d for n, d in digests(folder).items() if n.endswith((".safetensors", ".jsonl"))}
    made = {n: d for n, d in weights.items() if not n.endswith("times.jsonl")}
    shutil.rmtree(folder)
    kind, *run = job
    done = copy.run(copy.command(kind, STUDY, *run), OMP_NUM_THREADS=threads)
    assert done.returncode == 0, done.stderr
    again = digests(folder)
    assert made
    assert {name: again[name] for name in made} == made


LOCAL = jobs(["executed_local"], ["train", "select", "evaluate", "mirror"])


def test_a_setting_of_a_control_reruns_it_and_what_depends_on_it(copy):
    copy.edit(SETTINGS, "executed_local: {", "executed_local: {beta: 0.5, ")
    output = copy.make("--dry-run")
    assert started(output) == sorted([*LOCAL, *END])
    assert (
        output.splitlines()[-1] == "stale (setting method.beta: 1.0 -> 0.5): train executed_local A"
    )


ALL = list(RUNS)
AFTER_CHOICE = ["evaluate", "continuation", "grounding", "mirror"]
BY_GRPO = [method for method in ALL[1:] if method != "atpo"]
SCORED = ["continuation", "grounding", "mirror"]  # candidates are scored as PCQC's are
BY_CREDIT = [
    *jobs(BY_GRPO, ["train", "select", *AFTER_CHOICE]),
    *jobs(["shared_sft"], SCORED),
    *jobs(["atpo"], ["mirror"]),  # a run's page says how many groups hardly differ
    *END,
]


def test_a_lost_store_is_mirrored_anew_and_harmless_edits_rerun_nothing(copy, monkeypatch):
    """A comment, and an edit of a module that no job reaches."""
    edit(copy, CREDIT, "# A comment.")
    edit(copy, "src/pcqc_study/cli.py", "EDITED = 1")
    assert copy.planned() == []
    (copy.folder / load_study(STUDY).tracking.uri.removeprefix(SQLITE)).unlink()
    before = digests(copy.results)
    assert "all would be mirrored again" in copy.make("--dry-run")
    assert digests(copy.results) == before  # a dry run writes nothing
    monkeypatch.chdir(copy.folder)
    study = load_study(STUDY)
    prepare_to_run(study)
    gone = {job.kind for job in Jobs(study).all() if not job.marker.exists()}
    assert gone == {"mirror", "collect", "publish"}


def edit(place, path, line):
    """Add a line to a file of the code."""
    with open(place.folder / path, "a") as file:
        file.write(f"\n{line}\n")


def explained(place, method, run):
    """The jobs on the way to a run that `pcqc explain` says would run again, as messages."""
    done = place.run(place.command("explain", STUDY, method, run))
    assert done.returncode == 0, done.stderr
    kinds = re.findall(rf"^(\w+) {method} {run} would run(?: again)?: ", done.stdout, re.MULTILINE)
    return sorted({f"{WORDS[kind]} {method}, run {run}" for kind in kinds})


@pytest.mark.slow
def test_an_edited_module_reruns_what_imports_it_but_what_is_accepted(copy):
    """`pcqc explain` and the workflow agree, before and after."""
    edit(copy, CREDIT, "EDITED = 1")
    assert copy.planned() == sorted(BY_CREDIT)
    own = [job for job in sorted(BY_CREDIT) if job.endswith(" pcqc, run A")]
    assert explained(copy, "pcqc", "A") == own
    done = copy.run(copy.command("accept", STUDY, "pcqc", "A", "--because", "no number needs it"))
    assert done.returncode == 0, done.stderr
    assert explained(copy, "pcqc", "A") == []
    planned = copy.planned()
    assert "Evaluate grpo, run A" in planned
    assert not [job for job in planned if job.endswith(" pcqc, run A")]


@pytest.mark.slow  # it trains; `test_manifest.py` follows the folders of edited settings
def test_an_edit_leaves_the_old_run_and_taking_it_back_leads_to_it(copy):
    before = digests(copy.results / "runs")
    copy.edit(SETTINGS, "executed_local: {", "executed_local: {beta: 0.5, ")
    last = copy.make("executed_local").splitlines()[-1]
    difference, _, limit = last.partition(" One run of each: ")
    assert re.fullmatch(
        r"Executed-local − Shared SFT: \S+ turns \[.*\] \(1 \+ 1 runs, 60 cases\)\.", difference
    )
    assert limit == "the interval covers cases alone."
    after = digests(copy.results / "runs")
    assert before.items() < after.items()
    copy.edit(SETTINGS, "executed_local: {beta: 0.5, ", "executed_local: {")
    assert copy.planned() == []
    listing = copy.run(copy.command("clean", STUDY)).stdout
    assert "(train executed_local A, " in listing
    assert "4 results of earlier fingerprints" in listing
    done = copy.run(copy.command("clean", STUDY, "--remove", "--yes"))
    assert done.returncode == 0, done.stderr
    assert digests(copy.results / "runs") == before
    assert copy.planned() == []


def test_a_method_alone_by_its_name(tmp_path):
    place = Workplace(tmp_path / "fresh")
    shared = [
        KINDS[job.kind].sentence.format(
            **dict(zip(KINDS[job.kind].arguments, job.arguments, strict=True))
        )
        for job in Jobs(load_study(STUDY)).shared()
    ]
    shared = [f"{sentence[0].upper()}{sentence[1:]}" for sentence in shared]
    assert place.planned("executed_local") == sorted([*shared, *LOCAL])
    assert not place.results.exists()

"""What each job reads and makes: inputs, results, and the receipts that vouch for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.instruction import instruction_files
from pcqc.study.paths import Paths
from pcqc.study.provenance import MadeFrom, made_from
from pcqc.study.receipts import Receipt, read_receipt
from pcqc.study.shapes import Selection
from pcqc.study.superseded import bring_back, set_aside
from pcqc.system.files import read_json
from pcqc.system.machine import now

# Made in seconds from the results of other jobs. Their receipts are declared outputs: Snakemake
# alone says when they are made again, and deletes the receipt before the job writes.
DERIVED = (
    *("convert", "overlap", "prepare"),
    *("store", "mirror", "collect", "tables", "figures", "paper", "report", "transcripts"),
    *("credits", "peers"),
    "publish",
)


@dataclass(frozen=True)
class JobOutput:
    """The result of one job, whether it is there or not.

    Attributes:
        study: whose it is.
        job: name of a job in `provenance.SETTINGS_READ`, or one of `DERIVED`.
        path: folder or file that holds the result.
        receipt_path: of its receipt.
        manifest: a declared output of the job's rule, written last.
        method, run: whose job it is; none for the jobs that all runs share. `convert` and `prepare`
            have a set of cases in place of a method.
        keep: files in the folder that other jobs wrote.
    """

    study: Study
    job: str
    path: Path
    receipt_path: Path
    manifest: Path
    method: str | None = None
    run: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The job and whose it is, such as `train pcqc A`."""
        return " ".join(filter(None, [self.job, self.method, self.run]))

    @cached_property
    def today(self) -> MadeFrom:
        """What it would be made from today, as far as its inputs are there."""
        if self.job in DERIVED:
            return MadeFrom({}, {})
        inputs = [p for p in inputs_of(self.study, self.job, self.method, self.run) if p.exists()]
        return made_from(self.study, self.job, self.method, self.run, inputs)

    def receipt(self) -> Receipt | None:
        """See `read_receipt`; UserError where it is another result's."""
        found = read_receipt(self.receipt_path, self._without_receipt())
        if found and (found.job, found.product) != (self.name, self._product):
            raise UserError(
                f"{self.receipt_path}: the receipt of {found.job}, not of {self.name}; "
                f"{self._without_receipt()}"
            )
        return found

    def _without_receipt(self) -> str:
        """What leads to a result with its receipt again."""
        files = dict.fromkeys((self.receipt_path, self.manifest))
        there = " and ".join(str(path) for path in files if path.exists())
        return f"remove {there} and run the workflow again" if there else "run the workflow again"

    def stands(self) -> bool:
        """Whether it is finished and would come out the same, its manifest put back if missing.

        Raises:
            UserError: one of its files is not the one that the job wrote.
        """
        found = self.receipt()
        if not (found and found.outputs is not None and found.holds_for(self.today)):
            return False
        if not self.path.exists():
            return False
        found.restore_manifests()
        found.check()
        return True

    def begin(self, resumable: bool = False) -> Receipt:
        """Make room for the result: what is there and was made from other things is set aside.

        What was set aside earlier and was made from just these things is brought back.

        Args:
            resumable: what is there belongs to this job, though no receipt says so.

        Returns:
            The receipt to finish; its fingerprint names the resumable state.
        """
        found = self.receipt()
        if found and found.holds_for(self.today):
            return found
        if not resumable:
            why = found.made_from.changes(self.today) if found else ["no receipt"]
            self.set_aside(why or ["altered files"], found)
        if bring_back(self.study.results, self.path, self.today.fingerprint):
            return self.receipt()
        begun = replace(self._receipt(), begun=now())
        begun.write()
        return begun

    def _receipt(self) -> Receipt:
        return Receipt(self.receipt_path, self.name, self._product, self.today)

    def finish(self, names: list[str]) -> None:
        """Write the receipt of the finished job.

        Args:
            names: of the files that it wrote, relative to the receipt's folder.
        """
        found = self.receipt()
        begun = found if found and found.holds_for(self.today) else self._receipt()
        begun.finish(names, [str(self.manifest.relative_to(self.receipt_path.parent))])

    def vouch(self, files: Iterable[Path]) -> None:
        """Write the receipt of a job of `DERIVED`; what an earlier one says of others stays."""
        known = self.receipt()
        replace(self._receipt(), outputs=known.outputs if known else None).vouch(files)

    def set_aside(self, why: list[str], found: Receipt | None) -> None:
        """Move what is there of it to the superseded results; see `pcqc.study.superseded`."""
        there = [self.path] if self.path.exists() else []
        if self.path.is_dir():
            receipts = [self.receipt_path, *self.path.glob("*receipt.json")]
            for path in receipts:
                if one := read_receipt(path, self._without_receipt()):
                    one.restore_manifests()
            entries = [p for p in sorted(self.path.iterdir()) if p.name not in self.keep]
            there = entries if self.keep or not entries else [self.path]
        if there:
            set_aside(
                self.study.results,
                self.path,
                [*there, self.receipt_path],
                copies=[self.path / name for name in self.keep],
                job=self.name,
                why=why,
                fingerprint=found.made_from.fingerprint if found else None,
                finished=bool(found and found.outputs is not None),
            )

    @property
    def _product(self) -> str:
        return str(self.path.relative_to(self.receipt_path.parent))

    def require(self, *names: str) -> Receipt:
        """Check files of the result against its receipt, all of them where none is named.

        Whoever reads what another job wrote calls this first.

        Raises UserError where there is no receipt, the job has not finished, or a file is not its.
        """
        found = self.receipt()
        if found is None:
            raise UserError(f"{self.receipt_path}: missing; {self._without_receipt()}")
        found.check(*names)
        return found


def job_output(
    study: Study, job: str, method: str | None = None, run: str | None = None, model: str = "base"
) -> JobOutput:
    """The result of a job.

    Args:
        study: the study.
        job: name of a job in `provenance.SETTINGS_READ`, or one of `DERIVED`.
        method, run: whose job it is.
        model: folder, of a job that makes several models.
    """
    paths = Paths.of(study)
    if job in DERIVED:
        return _derived(study, job, method)
    if job == "clinic":
        folder = paths.data
        return JobOutput(study, job, folder, folder / "receipt.json", folder / "manifest.json")
    if job in ("pretrain", "models", "sft"):
        folder = paths.model(model)
        receipt = folder.with_name(f"{model}.receipt.json")
        return JobOutput(study, job, folder, receipt, folder / "manifest.json")
    folder = {
        "train": paths.run,
        "continuation": paths.continuation,
        "grounding": paths.continuation,
        "credit_quality": paths.credit_quality,
    }.get(job, paths.evaluation)(method, run)
    if job in ("select", "grounding"):
        file = folder / ("selection.json" if job == "select" else "grounding.csv")
        return JobOutput(study, job, file, file.with_suffix(".receipt.json"), file, method, run)
    keep = {"evaluate": _files("selection.json")}.get(job, ())
    manifest = folder / "manifest.json"
    return JobOutput(study, job, folder, folder / "receipt.json", manifest, method, run, keep)


def _derived(study: Study, job: str, method: str | None) -> JobOutput:
    paths = Paths.of(study)
    path = {
        "convert": paths.converted(method or ""),
        "overlap": paths.overlap,
        "prepare": paths.prepared(method or ""),
        "store": paths.store,
        "mirror": paths.tracking(method or ""),
        "collect": paths.collected,
        "publish": paths.store.with_name("published.json"),
        "credits": paths.root / "tables" / "credit_quality.md",
        "peers": paths.root / "tables" / "peers.md",
        "paper": paths.root / "paper.tex",
        "report": paths.root / "report.html",
    }.get(job, paths.root / job)
    receipt = path.with_suffix(".receipt.json") if path.suffix else path / "receipt.json"
    return JobOutput(study, job, path, receipt, receipt, method)


def _files(name: str) -> tuple[str, str]:
    return name, str(Path(name).with_suffix(".receipt.json"))


def job_outputs(study: Study, job: str, method: str | None, run: str | None) -> list[JobOutput]:
    """All results of a job, of which some make several models."""
    models = {"sft": ("actor", "patient"), "models": tuple(study.pretrained)}.get(job, ("base",))
    return [job_output(study, job, method, run, model) for model in models]


def steps(study: Study, method: str, run: str) -> Iterator[JobOutput]:
    """Results on the way to a run's numbers, in the order in which they are made.

    Those that all runs share come first; they have no `run`.
    """
    for job in [*(("clinic", "pretrain") if study.synthetic else ("models",)), "sft"]:
        yield from job_outputs(study, job, None, None)
    own = [*(["train"] if is_trained(study, method) else []), "select", "evaluate"]
    if (method, run) in study.continued:
        own += ["continuation", "grounding"]
    yield from (job_output(study, job, method, run) for job in own)


def inputs_of(study: Study, job: str, method: str | None, run: str | None) -> list[Path]:
    """Files whose contents a job's outcome depends on, whether they are there or not."""
    paths, instruction = Paths.of(study), instruction_files(study)
    development = paths.cases(study.development)

    def models(*roles: str) -> list[Path]:
        return [paths.model(role) / "manifest.json" for role in roles]

    if job == "pretrain":
        return [paths.world]
    if job == "sft":
        starts = {study.starts_from(role) for role in ("actor", "patient")}
        return [*models(*starts), paths.conversations, *instruction]
    if job == "train":
        roles = ("actor", "patient", study.starts_from("scorer"))
        world = [paths.world] if study.synthetic else []
        return [paths.train_cases, development, *models(*roles), *instruction, *world]
    if job == "select":
        # Not the run's manifest: that it was accepted is no part of its checkpoints.
        return sorted((paths.run(method, run) / "validation").glob("[0-9]*.json"))
    if job == "evaluate":
        selected = _selected(study, method, run)
        for update in study.also_evaluate.get(method, ()):
            folder = paths.run(method, run) / "checkpoints" / f"{update:06d}"
            selected.append(folder / "manifest.json")
        cases = [paths.cases(name) for name in study.benchmarks]
        return [*selected, *cases, *models("patient"), *instruction]
    if job == "continuation":
        asked = models("patient", study.starts_from("scorer"))
        made_to_err = study.continuation and study.continuation.ungrounded
        world = [paths.world] if made_to_err else []
        return [*_selected(study, method, run), development, *asked, *instruction, *world]
    if job == "credit_quality":
        asked = models("patient", study.starts_from("scorer"))
        return [*_selected(study, method, run), development, *asked, *instruction, paths.world]
    if job == "grounding":
        review = study.continuation and study.continuation.review
        judges = [name for name in study.pretrained if name.startswith("judge_")]
        knows = models(*(judges or [study.starts_from("scorer")]))
        knows = [paths.world] if study.synthetic else knows
        candidates = paths.continuation(method, run) / "candidates.parquet"
        return [candidates, development, *knows, *([Path(review)] if review else [])]
    return []


def is_trained(study: Study, method: str) -> bool:
    """Whether runs of the method are trained: Shared SFT is not."""
    return study.method(method).kind == "rl"


def _selected(study: Study, method: str, run: str) -> list[Path]:
    """The choice of a checkpoint and the checkpoint's own manifest."""
    selection = Paths.of(study).evaluation(method, run) / "selection.json"
    if not selection.exists():
        return [selection]
    return [selection, checkpoint_folder(study, method, run) / "manifest.json"]


def checkpoint_folder(study: Study, method: str, run: str) -> Path:
    """Folder of a run's selected weights; Shared SFT's is the actor's.

    Raises:
        UserError: the choice was altered, or is of no checkpoint.
    """
    paths = Paths.of(study)
    selection = paths.evaluation(method, run) / "selection.json"
    job_output(study, "select", method, run).require()
    found = read_json(selection, Selection, f"remove {selection} and run the workflow again")
    update = found["selected"]["update"]
    trained = paths.run(method, run) / "checkpoints" / f"{update:06d}"
    return trained if update else paths.model("actor")

"""Receipts: what a job was made from, and what it wrote.

A job that takes long leaves `receipt.json` with its results (`models/actor.receipt.json` beside a
folder of weights). It holds the settings, modules and inputs that the job was made from, the digest
of every file it wrote, and the text of its manifest, because Snakemake deletes a rule's declared
outputs before it runs the job again. Whoever reads a result asks its receipt first: `check`.

A receipt without `outputs` is of a job that has begun and not finished. `accepted` lists edits that
an author has declared harmless since: `pcqc accept`.
"""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pcqc.errors import UserError
from pcqc.study import digest
from pcqc.study.provenance import MadeFrom, git_commit
from pcqc.study.shapes import FolderManifest
from pcqc.system.files import read_bytes, read_json, sha256_file, write_atomic, write_json
from pcqc.system.machine import now


@dataclass(frozen=True)
class Receipt:
    """See the module.

    Attributes:
        path: of the receipt's file.
        job: name of the job and whose it is, such as `train pcqc A`.
        product: folder or file, relative to the receipt's folder, that holds the result.
        made_from: settings, modules and inputs.
        outputs: file, relative to the receipt's folder -> SHA-256; None for an unfinished job.
        manifests: file -> text, of those that are declared outputs of a rule.
        accepted: what it would have been made from later (`made_from`), `because` and `when`.
        git_commit: of the checkout that made it.
        begun, finished: when, see `now`; a job that was killed began when it began first. None
            where nobody said, as in receipts of earlier versions.
    """

    path: Path
    job: str
    product: str
    made_from: MadeFrom
    outputs: dict[str, str] | None = None
    manifests: dict[str, str] = field(default_factory=dict)
    accepted: list[dict] = field(default_factory=list)
    git_commit: str = field(default_factory=git_commit)
    begun: str | None = None
    finished: str | None = None

    def vouch(self, files: Iterable[Path]) -> None:
        """Write it with the digests of these files too; what it knows of others stays."""
        names = {os.path.relpath(path, self.path.parent): path for path in files}
        outputs = {name: sha256_file(path) for name, path in names.items()}
        replace(self, outputs={**(self.outputs or {}), **outputs}).write()

    def holds_for(self, today: MadeFrom, inputs: bool = True) -> bool:
        """Whether the result would come out the same today, or its author says that it is valid.

        Args:
            today: what it would be made from.
            inputs: compare the input files too, which may not be made yet.
        """
        known = [asdict(self.made_from), *(one["made_from"] for one in self.accepted)]
        return any(
            one["settings"] == today.settings
            and one["modules"] == today.modules
            and (not inputs or one["inputs"] == today.inputs)
            for one in known
        )

    def write(self) -> None:
        """Write the file, with a digest of its own contents."""
        contents = {k: v for k, v in asdict(self).items() if k != "path"}
        write_json(self.path, {**contents, "digest": digest(contents)})

    def finish(self, outputs: list[str], manifests: list[str]) -> "Receipt":
        """Write the receipt of the finished job; its files must be on disk.

        Args:
            outputs: what the job wrote, relative to the receipt's folder.
            manifests: those of them whose text is kept.
        """
        folder, digests = self.path.parent, {}
        for name in outputs:
            digests[name] = sha256_file(folder / name)
            if name.endswith("/manifest.json"):  # of a folder of weights, for all its files
                listed = read_json(folder / name, FolderManifest)["files"]
                digests |= {str(Path(name).with_name(file)): sha for file, sha in listed.items()}
        done = replace(
            self,
            outputs=digests,
            manifests={name: read_bytes(folder / name).decode() for name in manifests},
            finished=self.finished or now(),  # a result that was brought back is as old as it was
        )
        done.write()
        return done

    def check(self, *names: str, touched: bool = False) -> None:
        """Raise UserError where a file is not the one that the job wrote.

        Args:
            names: of files, relative to the receipt's folder; all of the job's where none is given.
            touched: read only files that the system saw changed or renamed since the receipt was
                written, which finds what a user did and not what a disk did.
        """
        folder = self.path.parent
        if self.outputs is None:
            raise UserError(f"{folder}: `pcqc {self.job}` has not finished; run it again")
        written = self.path.stat().st_ctime_ns
        for name in names or self.outputs:
            path = folder / name
            there = path.is_file()
            if there and touched and path.stat().st_ctime_ns < written:
                continue
            if not there or self.outputs.get(name) != sha256_file(path):
                product = folder / self.product
                remedy = f"move {product} away and " if product.exists() else ""
                if name in self.manifests:
                    remedy = f"remove {path} and " if path.exists() else ""
                how = "altered since it was written" if there else "missing"
                raise UserError(f"{path}: {how}; {remedy}run the workflow again")

    def restore_manifests(self) -> None:
        """Write the manifests again that are missing, as they were."""
        for name, text in self.manifests.items():
            path = self.path.parent / name
            if path.parent.is_dir() and not path.exists():
                write_atomic(path, text)


def read_receipt(path: Path, remedy: str) -> Receipt | None:
    """A receipt; None where there is none.

    Raises:
        UserError: the file is not as it was written; ends in the remedy.
    """
    if not path.exists():
        return None
    found = read_json(path, remedy=remedy)
    known = set(Receipt.__dataclass_fields__) - {"path"} | {"digest"}
    shaped = isinstance(found, dict) and set(found) | {"begun", "finished"} == known
    if not shaped or digest({k: v for k, v in found.items() if k != "digest"}) != found["digest"]:
        raise UserError(f"{path}: altered since it was written; {remedy}")
    del found["digest"]
    return Receipt(path, **{**found, "made_from": MadeFrom(**found["made_from"])})

"""Files of cases and conversations, compared with the manifest of the data before they are read."""

from pathlib import Path

from pcqc.errors import UserError
from pcqc.study import Study
from pcqc.study.instruction import instruction_files
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.shapes import DataManifest
from pcqc.system.files import read_json, sha256_file


def check_data(study: Study, *files: Path) -> None:
    """Compare files of cases or conversations, and the system message, with `data/manifest.json`.

    Raises:
        UserError: one of them is not the file that the study's data were made with.
    """
    paths = Paths.of(study)
    manifest = paths.data / "manifest.json"
    if not manifest.exists():
        raise UserError(f"{manifest}: missing; run the workflow again")
    job = ("clinic",) if study.synthetic else ("prepare", "manifest")
    job_output(study, *job).require(manifest.name)
    remedy = f"remove {manifest} and run the workflow again"
    known = read_json(manifest, DataManifest, remedy)
    digests = {paths.data / name: entry["sha256"] for name, entry in known["files"].items()}
    if instruction_files(study):
        digests[paths.instruction] = known["instruction"]["sha256"]
        files = (*files, paths.instruction)
    for file in files:
        if file not in digests:
            raise UserError(f"{manifest}: has no entry for {file.name}; {remedy}")
        if sha256_file(file) != digests[file]:
            raise UserError(
                f"{file}: altered since it was written; remove {file} and run the workflow again"
            )

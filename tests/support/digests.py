"""Digests of files, by which tests compare folders."""

from pathlib import Path

from pcqc_base.system.files import sha256_file


def digests(folder: Path, *patterns: str) -> dict[str, str]:
    """Relative path -> digest of every file below a folder, or of those that match; no locks."""
    paths = {path for pattern in patterns or ("**/*",) for path in folder.glob(pattern)}
    return {
        str(path.relative_to(folder)): sha256_file(path)
        for path in sorted(paths)
        if path.is_file() and not path.name.endswith(".lock") and path.parent.name != "locks"
    }

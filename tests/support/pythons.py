"""The Pythons of this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def pythons(minors: Iterable[int]) -> dict[str, str]:
    """Version, such as 3.12 -> interpreter, on the path or of pyenv; the running one first."""
    own = f"3.{sys.version_info.minor}"
    interpreters = {own: sys.executable}
    for version in (f"3.{minor}" for minor in minors):
        paths = [*PYENV.glob(f"versions/{version}.*/bin/python"), shutil.which(f"python{version}")]
        for path in filter(None, paths):
            if not subprocess.run([path, "-c", ""], capture_output=True).returncode:
                interpreters.setdefault(version, str(path))
    return interpreters

"""A package's wheel, in an empty environment of every Python that this machine has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def pythons() -> dict[str, str]:
    """Version -> interpreter from 3.10 to 3.14, on the path or of pyenv; this one first."""
    own = f"3.{sys.version_info.minor}"
    interpreters = {own: sys.executable}
    for version in (f"3.{minor}" for minor in range(10, 15)):
        paths = [*PYENV.glob(f"versions/{version}.*/bin/python"), shutil.which(f"python{version}")]
        for path in filter(None, paths):
            if not subprocess.run([path, "-c", ""], capture_output=True).returncode:
                interpreters.setdefault(version, str(path))
    return interpreters


def readme_example(package: Path) -> tuple[str, str]:
    """The first lines of code of a package's README, and what they print."""
    text = (package / "README.md").read_text(encoding="utf-8")
    return tuple(text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))


def build(package: Path, folder: Path) -> Path:
    """The wheel of a package, built from a copy of its source."""
    source = shutil.copytree(package, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, source], check=True)
    (path,) = folder.glob("*.whl")
    return path


def runs_from_wheel(wheel: Path, package: Path, version: str, folder: Path) -> None:
    """The README's lines print what it says, in an environment of numpy and the wheel alone."""
    environment = folder / "empty"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run(
        [*uv, "venv", "--quiet", "--python", pythons()[version], environment], check=True
    )
    python = environment / "bin" / "python"
    # numpy is taken as it is installed here, where this Python can have it.
    own = [f"numpy=={np.__version__}"] if version == next(iter(pythons())) else ["numpy"]
    install = [*uv, "pip", "install", "--quiet", "--python", python, *own, wheel]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode and own == ["numpy"]:
        pytest.skip(f"no numpy for Python {version} can be had here")
    assert done.returncode == 0, done.stderr
    code, printed = readme_example(package)
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    listed = subprocess.run(
        [*uv, "pip", "list", "--python", python, "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = sorted(line.split("==")[0] for line in listed.splitlines())
    assert names == sorted(["numpy", package.name.replace("_", "-")])

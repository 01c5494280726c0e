"""The wheel, in an empty environment with numpy alone, of every Python that this machine has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PACKAGE = Path(__file__).parents[1]
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(PACKAGE, folder / "source")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, source], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.parametrize("version", pythons())
def test_the_readmes_lines_run_from_the_wheel(wheel, example, tmp_path, version):
    environment = tmp_path / "empty"
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
    code, printed = example
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    listed = subprocess.run(
        [*uv, "pip", "list", "--python", python, "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert sorted(line.split("==")[0] for line in listed.splitlines()) == ["numpy", "turn-credit"]

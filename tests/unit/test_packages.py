"""What every package of `packages/` promises: its README's lines run, from its wheel too."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from pythons import pythons

from pcqc_base.system.checkout import ROOT

PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
HEAVY = {"torch", "transformers", "pandas", "scipy", "pcqc", "gymnasium"}


@pytest.fixture(scope="module", params=PACKAGES, ids=lambda path: path.name)
def package(request):
    return request.param


@pytest.fixture(scope="module")
def wheel(package, tmp_path_factory):
    """The wheel of a package, built from a copy of its source."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(package, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, source], check=True)
    (path,) = folder.glob("*.whl")
    return path


OWN, *OTHERS = PYTHONS = pythons(range(10, 15))


@pytest.mark.parametrize(
    "version", [OWN, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]
)
def test_the_readmes_lines_run_from_the_wheel(wheel, package, tmp_path, version):
    """They print what it says, in an environment of numpy and the wheel alone."""
    uv, environment = [sys.executable, "-m", "uv"], tmp_path / "empty"
    subprocess.run([*uv, "venv", "--quiet", "--python", PYTHONS[version], environment], check=True)
    python = environment / "bin" / "python"
    # numpy is taken as it is installed here, where this Python can have it.
    numpy = f"numpy=={np.__version__}" if version == OWN else "numpy"
    install = [*uv, "pip", "install", "--quiet", "--python", python, numpy, wheel]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode and version != OWN:
        pytest.skip(f"no numpy for Python {version} can be had here")
    assert done.returncode == 0, done.stderr
    page = (package / "README.md").read_text(encoding="utf-8")
    code, printed = (page.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    listing = [*uv, "pip", "list", "--python", python, "--format", "freeze"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    names = sorted(line.split("==")[0] for line in listed.splitlines())
    assert names == sorted(["numpy", package.name.replace("_", "-")])


def test_importing_it_loads_numpy_and_nothing_else_of_size(package):
    code = f"import sys, {package.name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())

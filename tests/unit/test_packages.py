"""What every package of `packages/` promises: its README's lines run, from its wheel too."""

import subprocess
import sys

import pytest
import wheels

from pcqc.settings import ROOT

PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
HEAVY = {"torch", "transformers", "pandas", "scipy", "pcqc", "gymnasium"}


@pytest.fixture(scope="module", params=PACKAGES, ids=lambda path: path.name)
def package(request):
    return request.param


@pytest.fixture(scope="module")
def wheel(package, tmp_path_factory):
    return wheels.build(package, tmp_path_factory.mktemp("wheel"))


OWN, *OTHERS = wheels.pythons()


@pytest.mark.parametrize(
    "version", [OWN, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]
)
def test_the_readmes_lines_run_from_the_wheel(wheel, package, tmp_path, version):
    wheels.runs_from_wheel(wheel, package, version, tmp_path)


def test_importing_it_loads_numpy_and_nothing_else_of_size(package):
    code = f"import sys, {package.name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())

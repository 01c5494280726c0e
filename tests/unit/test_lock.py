"""One lock: what pyproject, conda, make and this environment use are its versions."""

import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]


def requirements(name):
    """The requirements of a file in requirements/, comments and options left out."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    texts = (re.sub(r"\s*#.*", "", line) for line in lines)
    return [Requirement(text) for text in texts if text and not text.startswith("-")]


def pinned(requirement):
    """The one version that a requirement allows; fails where it allows more."""
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", f"{requirement} is not pinned"
    return specifier.version


LOCK = {canonicalize_name(entry.name): pinned(entry) for entry in requirements("lock.txt")}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def unmet(requirement, extra=""):
    """Whether a requirement that applies here is not satisfied by the lock."""
    if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
        return False
    version = LOCK.get(canonicalize_name(requirement.name))
    return version is None or not requirement.specifier.contains(version, prereleases=True)


@pytest.mark.parametrize("name", ["core.in", "dev.in"])
def test_the_lock_has_the_versions_asked_for(name):
    for entry in requirements(name):
        assert LOCK[canonicalize_name(entry.name)] == pinned(entry)


def test_the_lock_satisfies_pyproject():
    extras = PYPROJECT["project"]["optional-dependencies"]
    wanted = PYPROJECT["project"]["dependencies"] + extras["test"] + extras["lint"]
    assert [text for text in wanted if unmet(Requirement(text))] == []


def test_every_direct_dependency_of_pyproject_is_asked_for_by_name():
    asked = {canonicalize_name(entry.name) for entry in requirements("core.in")}
    assert {canonicalize_name(text) for text in PYPROJECT["project"]["dependencies"]} == asked


def test_the_gpu_packages_stay_out_of_the_lock():
    asked = {canonicalize_name(entry.name): pinned(entry) for entry in requirements("gpu.in")}
    assert set(asked) == set(PYPROJECT["project"]["optional-dependencies"]["gpu"])
    assert not set(asked) & set(LOCK)
    assert "-c lock.txt" in (ROOT / "requirements/gpu.in").read_text().splitlines()


def test_conda_installs_the_same_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    by_conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (by_pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert by_conda == ["python=3.11", "make", "pip"]
    assert by_pip == ["-r requirements/lock.txt", "-e ."]
    assert PYPROJECT["project"]["requires-python"] == ">=3.11,<3.12"


def test_make_has_no_versions_of_its_own():
    makefile = (ROOT / "Makefile").read_text()
    assert "PYTHON ?= python3.11" in makefile
    assert "$(PACKAGES): requirements/lock.txt" in makefile
    assert re.findall(r"==|\d+\.\d+\.\d+(?!\.\d)", makefile.replace("127.0.0.1", "")) == []


def test_this_environment_is_the_lock():
    wrong = {}
    for name, version in LOCK.items():
        installed = importlib.metadata.version(name)
        if Version(installed).public != version:
            wrong[name] = (installed, version)
    assert wrong == {}, "run `make env`"


def test_the_lock_is_closed():
    missing = [
        f"{name} needs {requirement}"
        for name in LOCK
        for text in importlib.metadata.requires(name) or ()
        if unmet(requirement := Requirement(text)) and not cuda(requirement)
    ]
    assert missing == []


def cuda(requirement):
    """CUDA packages belong to the build of torch, not to the lock."""
    return requirement.name.startswith(("nvidia-", "cuda-", "triton"))


def installer():
    """requirements/install.py as a module; it is a script, in no package."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "requirements/install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_uv_looks_where_pip_looks():
    listing = "\n".join(
        [
            ":env:.find-links='wheels'",
            "global.extra-index-url='file:///one\\nfile:///two'",
            "global.find-links='ignored'",
            "global.timeout='60'",
            "install.cert='/certificates.pem'",
        ]
    )
    install = installer()
    assert install.uv_environment(install.pip_options(listing)) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "wheels",
        "UV_INDEX": "file:///one file:///two",
        "SSL_CERT_FILE": "/certificates.pem",
    }

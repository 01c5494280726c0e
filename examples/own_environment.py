"""An adapter in an environment of its own, with the trainer or framework that it is for.

    python examples/own_environment.py verl

makes `.venv/own/verl` and runs the adapter's tests in it: the adapter is handed the framework's own
structures in place of stand-ins. A framework itself is installed without what it needs for training
on GPUs; beside it come the packages that its structures import. CPU only.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "requirements"))

from install import pip_options, uv_environment  # noqa: E402

TRAINERS = "tests/unit/test_trainer_adapters.py"


@dataclass(frozen=True)
class Own:
    """An environment.

    Attributes:
        test: file of tests, and the words that choose those of the adapter.
        alone: packages that are installed without their needs.
        needs: further packages.
        python: version.
    """

    test: tuple[str, str]
    alone: tuple[str, ...]
    needs: tuple[str, ...]
    python: str = "3.11"


ENVIRONMENTS = {
    "verl": Own(
        (TRAINERS, "verl"),
        ("verl==0.9.1",),
        (
            *("torch==2.13.0", "tensordict==0.10.0", "torchdata==0.11.0", "transformers==5.10.4"),
            *("peft==0.21.2", "accelerate==1.15.0", "datasets==5.2.0", "ray==2.60.0"),
            *("hydra-core==1.3.8", "codetiming==1.4.0", "cachetools==8.0.2", "pillow==13.0.0"),
            *("orjson==3.13.0", "fastapi==0.165.0", "uvicorn==0.54.0"),
        ),
    ),
}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=ENVIRONMENTS)
    name = parser.parse_args().name
    own, folder = ENVIRONMENTS[name], ROOT / ".venv" / "own" / name
    if not made(own, folder):
        return 2
    test, chosen = own.test
    command = [folder / "bin" / "python", "-m", "pytest", "--noconftest", "-q", "-rs"]
    command += ["-p", "no:cacheprovider", test, "-k", chosen]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"OWN_ENVIRONMENT": name}).returncode


def made(own: Own, folder: Path) -> bool:
    """Whether the environment is there; it is made where it is not, or is another one."""
    written = folder / "own.txt"  # last
    if written.is_file() and written.read_text() == repr(own):
        return True
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    variables = uv_environment(pip_options(listing.stdout)) | os.environ
    uv = [sys.executable, "-m", "uv"]
    install = [*uv, "pip", "install", "--python", folder / "bin" / "python"]
    ours = [ROOT / "packages" / package for package in ("turn_credit", "clinic_env")]
    for command in (
        [*uv, "venv", "--clear", "--python", own.python, folder],
        [*install, "pytest", *own.needs, *ours],
        [*install, "--no-deps", *own.alone],
    ):
        if subprocess.run(command, env=variables).returncode:
            print(f"{folder.name} cannot be installed here: see above", file=sys.stderr)
            return False
    written.write_text(repr(own))
    return True


if __name__ == "__main__":
    sys.exit(main())

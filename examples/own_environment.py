"""An adapter in an environment of its own, with the trainer or framework that it is for.

    make example-verl        or  python examples/own_environment.py verl

makes `.venv/own/verl` from `requirements/own/verl.txt` and runs the adapter's tests in it: the
adapter is handed the framework's own structures in place of stand-ins. A trainer itself is
installed without what it needs for training on GPUs; beside it come the packages that its
structures import. CPU only.

    --checkout FOLDER    the framework's source, where its repository cannot be reached
    --relock             write requirements/own/NAME.txt anew
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "requirements"))

from install import uv_variables  # noqa: E402

TRAINERS = "tests/unit/test_trainer_adapters.py"
VERL = "tests/unit/test_verl_adapter.py"
CLINIC = "packages/clinic_env/tests/test_adapters.py"
PRIME_RL = "https://github.com/PrimeIntellect-ai/prime-rl/archive/559b44772e471d1538537b8805cc77f3824a5e64.tar.gz"
RLLM = "https://github.com/rllm-org/rllm/archive/9beb6e0f676a46d38858991fd79ac5f8e0b16d4c.tar.gz"


@dataclass(frozen=True)
class Own:
    """An environment.

    Attributes:
        test: file of tests, and the words that choose those of the adapter.
        needs: packages, with all that they need.
        alone: packages that are installed without their needs.
        python: version.
    """

    test: tuple[str, str]
    needs: tuple[str, ...]
    alone: tuple[str, ...] = ()
    python: str = "3.11"


ENVIRONMENTS = {
    "gymnasium": Own((CLINIC, "gymnasium"), ("gymnasium==1.4.0",)),
    "openenv": Own((CLINIC, "openenv"), ("openenv-core==0.3.0",)),
    "prime-rl": Own(
        (TRAINERS, "prime_rl"),
        (
            *("verifiers==0.3.1.dev62", "torch==2.15.0", "transformers==5.6.2", "msgspec==0.22.0"),
            "wandb==0.31.0",
        ),
        (
            f"prime-rl @ {PRIME_RL}",
            f"prime-rl-configs @ {PRIME_RL}#subdirectory=packages/prime-rl-configs",
        ),
        "3.12",
    ),
    "rllm": Own(
        (TRAINERS, "rllm"),
        (
            "pydantic==2.14.3",
            "omegaconf==2.4.0",
            "codetiming==1.4.0",
            "tqdm==4.70.1",
            "click==8.5.1",
        ),
        (f"rllm @ {RLLM}",),
    ),
    "sb3": Own((CLINIC, "sb3"), ("stable-baselines3==2.9.2", "torch==2.13.0")),
    "verifiers": Own((CLINIC, "verifiers"), ("verifiers==0.4.0",)),
    "verl": Own(
        (VERL, "verl"),
        (
            *("torch==2.13.0", "tensordict==0.10.0", "torchdata==0.11.0", "transformers==5.10.4"),
            *("peft==0.21.2", "accelerate==1.15.0", "datasets==5.2.0", "ray==2.60.0"),
            *("hydra-core==1.3.8", "codetiming==1.4.0", "cachetools==8.0.2", "pillow==13.0.0"),
            *("orjson==3.13.0", "fastapi==0.165.0", "uvicorn==0.54.0"),
        ),
        ("verl==0.9.1",),
    ),
}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", choices=ENVIRONMENTS)
    parser.add_argument("--checkout", type=Path, help="the framework's source in a folder")
    parser.add_argument("--relock", action="store_true", help="write its versions anew")
    given = parser.parse_args()
    own, folder = ENVIRONMENTS[given.name], ROOT / ".venv" / "own" / given.name
    lock = ROOT / "requirements" / "own" / f"{given.name}.txt"
    if given.relock:
        return relock(own, lock)
    if not made(own, folder, lock, given.checkout):
        return 2
    test, chosen = own.test
    command = [folder / "bin" / "python", "-m", "pytest", "--noconftest", "-q"]
    command += ["-p", "no:cacheprovider", test, "-k", chosen]
    variables = os.environ | {"OWN_ENVIRONMENT": given.name}
    return subprocess.run(command, cwd=ROOT, env=variables).returncode


def made(own: Own, folder: Path, lock: Path, checkout: Path | None) -> bool:
    """Whether the environment is there; it is made where it is not, or is another one."""
    written, wanted = folder / "own.txt", f"{own}\n{lock.read_text()}"  # written last
    if written.is_file() and written.read_text() == wanted:
        return True
    install = ("pip", "install", "--python", folder / "bin" / "python")
    ours = [f"--editable={ROOT / 'packages' / name}" for name in ("turn_credit", "clinic_env")]
    alone = own.alone
    if checkout:
        alone = tuple(checkout.resolve() / url.partition("#subdirectory=")[2] for url in alone)
    steps = [
        ("venv", "--clear", "--python", own.python, folder),
        (*install, "--constraint", lock, "pytest", *own.needs, *ours),
        *([(*install, "--no-deps", *alone)] if alone else []),
    ]
    if any(uv(*step) for step in steps):
        print(f"{folder.name} cannot be installed here: see above", file=sys.stderr)
        return False
    written.write_text(wanted)
    return True


def relock(own: Own, lock: Path) -> int:
    """Write the version of all that an environment needs; uv's exit status.

    The CUDA packages are left out, and torch has no build, as in `requirements/lock.txt`.
    """
    options = ["--quiet", "--no-header", "--no-annotate", "--python-version", own.python]
    asked = "\n".join(("pytest", "numpy", *own.needs))
    status = uv("pip", "compile", *options, "--output-file", lock, "-", text=asked)
    versions = re.findall(r"^(?!nvidia|cuda|triton)(\S+?==[^\s+]+)", lock.read_text(), re.MULTILINE)
    lock.write_text("".join(f"{version}\n" for version in versions))
    return status


def uv(*arguments: object, text: str = "") -> int:
    """Run uv where pip's configuration points; its exit status."""
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    return subprocess.run(command, env=uv_variables(), input=text, text=True).returncode


if __name__ == "__main__":
    sys.exit(main())

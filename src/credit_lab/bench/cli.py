"""The command `creditbench`: score a credit, make the leaderboard, record the material."""

import argparse
import runpy
import sys
import tempfile
from pathlib import Path

import pcqc.cli
from pcqc.errors import UserError
from pcqc.jobs.cli import load, run_command
from pcqc.study import ROOT

# `analysis` belongs to the checkout: a name so common is not installed.
sys.path.insert(0, str(ROOT))
PAGE = Path(__file__).with_name("README.md")


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; see `pcqc.cli.main`."""
    return pcqc.cli.main(arguments, parser())


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands; each sets `handler`, called with the arguments."""
    top: argparse.ArgumentParser = pcqc.cli.Parser(prog="creditbench", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    text = "score the credits of a Python file, which is run, beside the bench's controls"
    command = commands.add_parser("run", help=text, description=text)
    command.add_argument("file", type=Path, help="defines a function under `@turn_credit.credit`")
    command.set_defaults(handler=_run)
    text = "score all credits of turn_credit; write the table into the bench's README"
    command = commands.add_parser("leaderboard", help=text, description=text)
    command.set_defaults(handler=_leaderboard)
    text = "record a bundle from Shared SFT and a run's first and last checkpoint"
    command = run_command(commands, "record", _record, text)
    command.add_argument("bundle", type=Path, help="the file to write")
    return top


def _run(arguments: argparse.Namespace) -> None:
    from credit_lab.bench.table import CONTROLS, markdown, rows
    from turn_credit import CREDITS

    if not arguments.file.is_file():
        raise UserError(f"{arguments.file}: no such file; name a Python file")
    before = {*CREDITS}
    runpy.run_path(str(arguments.file))
    own = [credit for name, credit in CREDITS.items() if name not in before]
    if not own:
        raise UserError(
            f"{arguments.file}: it defines no credit; put `@turn_credit.credit(title, of)` above "
            "a function of a group"
        )
    print(markdown(rows([*own, *CONTROLS])))


def _leaderboard(_: argparse.Namespace) -> None:
    from credit_lab.bench.table import CONTROLS, markdown, replaced, rows
    from turn_credit import CREDITS

    credits = [credit for credit in CREDITS.values() if credit.of != "nodes"]
    text = markdown(rows([*credits, *CONTROLS]))
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)


def _record(arguments: argparse.Namespace) -> None:
    from credit_lab.bench.bundle import write_bundle
    from credit_lab.bench.record import Sizes, record
    from pcqc.results.graph import Jobs
    from pcqc.results.manifest import read_manifest
    from pcqc.system.files import sha256_file

    study = load(arguments)
    folder = Jobs(study).job("train", arguments.method, arguments.run).path
    first, *_, last = read_manifest(folder)["checkpoints"]
    name = arguments.method
    policies = {
        "shared_sft": None,
        f"{name}_early": folder / first["path"],
        f"{name}_late": folder / last["path"],
    }
    with tempfile.TemporaryDirectory(prefix="creditbench-") as scratch:
        write_bundle(arguments.bundle, record(study, policies, Sizes(), Path(scratch)))
    print(f"{arguments.bundle}: SHA-256 {sha256_file(arguments.bundle)}; write it on the card")


if __name__ == "__main__":
    sys.exit(main())

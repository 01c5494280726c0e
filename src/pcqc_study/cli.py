"""The command `pcqc`: look at a study, make and change it, and the steps of its workflow."""

import argparse
import importlib.metadata
import os
import re
import select
import sys
from collections.abc import Mapping
from typing import NoReturn

import shtab

from pcqc_base.errors import UserError, nearest
from pcqc_base.system.processes import report_to_launcher
from pcqc_base.system.terminal import complain, print_anywhere

READER_LEFT = 141  # exit status that shells give a program whose reader has gone
# What `pcqc --help` lists; the steps of the workflow are the third group.
GROUPS = {
    "Look at a study": "status answer diff explain consult check doctor plan",
    "Make and change": "init data vary tune accept clean restore tables figures docs archive "
    "completion",
}
STEPS = "Steps of the workflow, which snakemake runs"


class Parser(argparse.ArgumentParser):
    """Takes no abbreviated option; its error is one line that names what may have been meant."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """End with one line and status 2."""
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = nearest(choice[1], re.findall(r"'([^']*)'", choice[2]))
            message = f"{message.split(':')[0]}: unknown '{choice[1]}'{hint}"
        complain(f"{self.prog}: error: {message} (`{self.prog} --help` has more)")
        sys.exit(2)

    def parse_known_args(self, args=None, namespace=None):
        """Refuse what is unknown, here where the options of this command are known."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = re.findall(r"--?[a-z][\w-]*", self.format_usage())
            hint = nearest(unknown[0], options) if unknown[0].startswith("-") else ""
            self.error(f"unknown argument '{unknown[0]}'{hint}")
        return namespace, unknown


def main(arguments: list[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run a subcommand; a `UserError` becomes one line on standard error and exit status 2.

    Args:
        arguments: of the command line; those of this process by default.
        parser: of the program; that of `pcqc` by default.

    It ends quietly where whoever reads its output, such as `head`, has seen enough.
    """
    print_anywhere()
    try:
        try:
            return _run(parser or _parser(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_left():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT


def _reader_left() -> bool:
    """Whether nobody reads standard output any more; other pipes break too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _run(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    parsed = parser.parse_args(arguments)
    try:
        parsed.handler(parsed)
    except Exception as error:
        expected = isinstance(error, UserError)
        if report_to_launcher(error):
            return 2 if expected else 1
        if not expected:
            raise
        complain(f"{parser.prog}: error: {error}")
        return 2
    return 0


def _parser(commands_help: str | None = argparse.SUPPRESS) -> Parser:
    """The parser; its own help lists the commands, so argparse's listing is suppressed."""
    from pcqc_base.system.checkout import ROOT

    # `analysis` and `data_prep` belong to the checkout: names so common are not installed.
    sys.path.insert(0, str(ROOT))
    import analysis.cli
    import data_prep.cli
    import pcqc_study.commands
    import pcqc_study.job_commands

    parser = Parser(prog="pcqc", formatter_class=argparse.RawDescriptionHelpFormatter)
    version = f"pcqc {importlib.metadata.version('pcqc')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help=commands_help)
    for module in (pcqc_study.job_commands, pcqc_study.commands, data_prep.cli, analysis.cli):
        module.register(commands)
    text = 'print a script that completes commands for a shell: eval "$(pcqc completion bash)"'
    completion = commands.add_parser("completion", help=text, description=text)
    completion.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    completion.set_defaults(handler=_complete)
    # Python leaves docstrings out where it is asked to (-OO).
    title = (__doc__ or "The command `pcqc`").split("\n")[0]
    parser.description = "\n".join([title, *_listing(commands.choices)])
    parser.usage = "pcqc [--version] COMMAND ..."
    parser.epilog = "`pcqc COMMAND --help` says more of a command."
    return parser


def _complete(arguments: argparse.Namespace) -> None:
    # shtab leaves out what is suppressed.
    print(shtab.complete(_parser(commands_help=None), arguments.shell))


def _listing(commands: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """The commands by group, a line each."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    listed = {name for names in groups.values() for name in names}
    groups[STEPS] = [name for name in commands if name not in listed]
    lines = []
    for title, names in groups.items():
        lines += ["", f"{title}:"]
        for name in names:
            first = str(commands[name].description).split(". ")[0].rstrip(".")
            lines.append(f"  {name:13} {first[0].lower()}{first[1:]}")
    return lines


if __name__ == "__main__":
    sys.exit(main())

"""What all commands share: how a program of commands runs and ends, and arguments of several."""

import errno
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import shell_complete

from pcqc_base.errors import UserError, describe, nearest
from pcqc_base.system.processes import report_to_launcher
from pcqc_base.system.terminal import complain, drop_output, print_anywhere

READER_LEFT = 141  # exit status that shells give a program whose reader has gone
FULL = (errno.ENOSPC, errno.EDQUOT)  # of a disk, or a user's share of it
INTERRUPTED = 130  # and one that Ctrl-C ended
HELP = {
    "study": "name of a study in config/studies/, or a path",
    "file": "name of the file: train, sft or a benchmark",
    "set": "`train` or a benchmark; of the clinic also `world` and `sft`",
    "method": "name of a method in config/methods.yaml",
    "run": "letter of the run",
}


class Program(click.Group):
    """A program's commands, which its help lists by the titles in `sections`."""

    sections: dict[str, list[str]]

    def __init__(self, name: str, title: str) -> None:
        look = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        end = f"`{name} COMMAND --help` says more of a command."
        super().__init__(name, help=title, epilog=end, no_args_is_help=False, context_settings=look)
        self.sections = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, a line each."""
        for title, names in (self.sections or {"Commands": list(self.commands)}).items():
            with formatter.section(title):
                formatter.write_dl([(name, _summary(self.commands[name])) for name in names])

    def run(self, arguments: list[str] | None = None) -> int:
        """Run a command, and return its exit status; an error is one line on standard error.

        Args:
            arguments: words after the program's name; those of this process by default.

        It ends quietly where whoever reads its output, such as `head`, has seen enough, and on
        Ctrl-C.
        """
        print_anywhere()
        variable = f"_{self.name}_COMPLETE".upper()
        if asked := os.environ.get(variable):
            return shell_complete(self, {}, str(self.name), variable, asked)
        try:
            return self._run(sys.argv[1:] if arguments is None else arguments)
        except BrokenPipeError:
            if not _reader_left():
                raise
            drop_output()
            return READER_LEFT
        except KeyboardInterrupt:
            with suppress(OSError):  # who read it may have been stopped, too
                complain("stopped", f"{self.name}:")
            return INTERRUPTED

    def _run(self, arguments: list[str]) -> int:
        try:
            try:
                with self.make_context(self.name, [*arguments]) as context:
                    self.invoke(context)
            finally:
                if sys.stdout:  # None where it was closed
                    sys.stdout.flush()
        except click.exceptions.Exit as ended:  # of `--help` and `--version`
            return ended.exit_code
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else self.name
            complain(f"{error.format_message()} (`{path} --help` has more)", f"{path}: error:")
            return 2
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FULL:
                with suppress(OSError):  # tests have a standard output that is no file
                    drop_output()
                name = f" {error.filename}" if error.filename else ""
                error = UserError(f"cannot write{name}: {describe(error)}")
            expected = isinstance(error, UserError)
            if report_to_launcher(error):
                return 2 if expected else 1
            if not expected:
                raise
            complain(str(error), f"{self.name}: error:")
            return 2
        return 0


def _summary(command: click.Command) -> str:
    # Python leaves docstrings out where it is asked to (-OO).
    title = (command.help or " ").strip().split("\n\n")[0].rstrip(".")
    return f"{title[:1].lower()}{title[1:]}"


def _reader_left() -> bool:
    """Whether nobody reads standard output any more; other pipes break too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class Name(click.Choice):
    """One of some names; of another it says which may have been meant."""

    def get_invalid_choice_message(self, value, ctx) -> str:
        """The error's words."""
        return f"unknown '{value}'{nearest(value, self.choices)}"


def argument(name: str, text: str = "", **more: Any) -> Callable:
    """Decorator of a command: an argument, and its help."""
    return click.argument(name, help=text, **more)


def option(usage: str, text: str = "", name: str | None = None, **more: Any) -> Callable:
    """Decorator of a command: an option as it is typed, such as `--to FOLDER` or `--yes`.

    Args:
        text: its help.
        name: the parameter's of the command, where it is not the option's.
        more: what `click.Option` takes.
    """
    typed, _, value = usage.partition(" ")
    shape = {"metavar": value} if value else {"is_flag": True}
    return click.option(*filter(None, (typed, name)), help=text, **shape, **more)


def load(context: click.Context, _: click.Parameter, value: str | None):
    """Callback of an argument: the study of a name or path; None where none is given."""
    if value is None or context.resilient_parsing:
        return None
    from pcqc_study.study_file import load_study

    return load_study(value)


def of_a_run(command: Callable) -> Callable:
    """Decorator of a command: the arguments `study`, which is loaded, `method` and `run`."""
    return study(argument("method", HELP["method"])(argument("run", HELP["run"])(command)))


pcqc = Program("pcqc", "Look at a study, make and change it, and the steps of its workflow.")
study_name = argument("study", HELP["study"])
study = argument("study", HELP["study"], callback=load)  # the command is handed the study
as_json = option("--json", "print JSON instead of sentences", "as_json")
COUNT = click.IntRange(1, 100)
FILE = click.Path(path_type=Path)

"""`pcqc track`: prepare the MLflow store, mirror runs into it, collect them for the analysis."""

import argparse


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add `pcqc track` and its actions; each action sets `handler`, called with the arguments."""
    track = subparsers.add_parser("track", help="mirror runs in MLflow and fetch them back")
    actions = track.add_subparsers(required=True, metavar="ACTION")
    for name, handler, text in (
        ("prepare", _prepare, "create or migrate the MLflow store; find what it has lost"),
        ("mirror", _mirror, "mirror a method's finished runs; completes an interrupted mirror"),
        ("publish", _publish, "put the report, tables, figures and transcripts into MLflow"),
        ("collect", _collect, "fetch all methods' artifacts for the analysis, checking digests"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("study", help="name of a study in config/studies/, or a path")
        action.set_defaults(handler=handler)
        if name == "prepare":
            action.add_argument("--number", type=int, help="of the preparation; the workflow's")
        if name == "collect":
            action.add_argument(
                "--add",
                action="store_true",
                help="keep the runs that are collected already, as `pcqc restore` brings them",
            )
        if name == "mirror":
            action.add_argument("method", help="name of a method in config/methods.yaml")
            action.add_argument(
                "--runs", type=_letters, help="letters, e.g. A,B (default: all evaluated runs)"
            )


def _letters(text: str) -> list[str]:
    return [letter.strip() for letter in text.split(",") if letter.strip()]


def _prepare(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.prepare import prepare

    prepare(load_study(arguments.study), arguments.number)


def _mirror(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.mirror import mirror

    mirror(load_study(arguments.study), arguments.method, arguments.runs)


def _publish(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.publish import publish

    publish(load_study(arguments.study))


def _collect(arguments: argparse.Namespace) -> None:
    from pcqc.study import load_study
    from pcqc.tracking.collect import collect

    collect(load_study(arguments.study), arguments.add)

"""Reads the user message that opens a consultation in ATPO's files: exactly, or not at all."""

import ast
import warnings
from dataclasses import dataclass

from data_prep.rows import BadRow

LONGEST_OPTIONS = 20_000  # characters; the longest published ones have under 2,000
PROBLEM, OPTIONS = "\nProblem: ", "\nOptions: "


@dataclass(frozen=True)
class Opening:
    """Parts of a user message: initial information, question, and options by label."""

    initial: str
    question: str
    options: dict[str, str]


def read_opening(text: str) -> Opening:
    """Read `<initial information>\\nProblem: <question>\\nOptions: {'A': '...', ...}`.

    Raises BadRow if a part is missing or repeated: the text would be cut at a wrong place.
    """
    for part in (PROBLEM, OPTIONS):
        if (count := text.count(part)) != 1:
            name = part.strip()
            raise BadRow(f"the user message must hold one line '{name} ...', found {count}")
    initial, rest = text.split(PROBLEM)
    if OPTIONS not in rest:
        raise BadRow("the user message must state 'Options:' after 'Problem:'")
    question, options = rest.split(OPTIONS)
    return Opening(initial, question, read_options(options))


def read_options(text: str) -> dict[str, str]:
    """Options from the text of a Python dictionary of strings; nothing in it is ever run.

    The syntax tree, unlike `ast.literal_eval`, still shows a duplicate label.
    """
    if len(text) > LONGEST_OPTIONS:
        raise BadRow(f"the options' text is longer than {LONGEST_OPTIONS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in an option's text
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        raise BadRow(
            f"the options are not a dictionary's text such as {{'A': '...'}} ({problem})"
        ) from None
    if not isinstance(tree, ast.Dict):
        raise BadRow("the options are not a dictionary's text such as {'A': '...'}")
    keys = [_text(node) for node in tree.keys]
    if len(set(keys)) < len(keys):
        raise BadRow(f"duplicate option label in {'/'.join(keys)}")
    return {key: _text(node) for key, node in zip(keys, tree.values, strict=True)}


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise BadRow("labels and options must be plain strings")

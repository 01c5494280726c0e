"""A notebook is run by a plain script: what its cells print, show and draw.

`python tests/support/notebook.py FILE` runs a notebook in the working directory and writes its
outputs into it.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(path: Path) -> list[list[dict]]:
    """Outputs of each code cell, in the notebook's form; all cells share their names."""
    names: dict = {"__name__": "__main__"}
    return [_outputs("".join(c["source"]), names) for c in code_cells(json.loads(path.read_text()))]


def _outputs(source: str, names: dict) -> list[dict]:
    from matplotlib import pyplot

    tree, printed, shown = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if hasattr(shown, "_repr_html_"):
        outputs.append(_displayed({"text/plain": repr(shown), "text/html": shown._repr_html_()}))
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, dpi=80, metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append(_displayed(data))
    pyplot.close("all")
    return outputs


def _displayed(data: dict[str, str]) -> dict:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def fill(path: Path) -> None:
    """Write the outputs of its cells into a notebook."""
    outputs, notebook = run(path), json.loads(path.read_text())
    for number, cell in enumerate(code_cells(notebook)):
        cell["execution_count"], cell["outputs"] = number + 1, outputs[number]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    fill(Path(sys.argv[1]))

"""The site (Sphinx): the repository's pages as they are, the report, a reference from docstrings.

`make site` builds it. A link that leads nowhere fails the build, as does any other warning.
"""

import re

from pygments.lexers import TextLexer

project = html_title = "PCQC"
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Pages are read where they lie, so that their links hold here as they do in the repository.
include_patterns = ["**.md"]
exclude_patterns = [".*", "data", "results/[!aR]*", "src/credit_lab/bench/card.md"]
html_extra_path = ["../../results/site/study/results/clinic-full/report/latest"]
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme = "furo"
html_show_sourcelink = False
myst_heading_anchors = 6  # as the repository's host makes them
default_role = "code"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
maximum_signature_line_length = 88
html_show_copyright = False

contents = {
    "Start": "docs/first-run docs/site/clinic-full docs/read-a-run docs/clinic docs/README "
    "docs/glossary docs/troubleshooting",
    "Studies": "docs/own-cases docs/real-study docs/real-cpu docs/templates docs/data docs/plan "
    "docs/engines docs/gpu docs/deepspeed docs/clusters docs/benchmarks benchmarks/nodes",
    "Method": "docs/equations docs/deviations docs/tuning docs/analysis docs/atpo docs/credits "
    "docs/map",
    "Findings": "src/pcqc_clinic/lost_points packages/pcqc_peers/stopping "
    "packages/pcqc_peers/newer_peers packages/pcqc_peers/repairs "
    "src/pcqc/methods/atpo/positions src/credit_lab/audit/dividing src/credit_lab/audit/stopping",
    "Code": "docs/architecture docs/add-a-method docs/add-a-table docs/add-a-metric "
    "docs/add-a-benchmark "
    "docs/add-an-engine CONTRIBUTING PROMISES SECURITY CHANGELOG",
    "Packages and files": "packages/turn_credit/README packages/clinic_env/README "
    "packages/clinic_env/src/clinic_env/worlds/clinic-v2 "
    "packages/clinic_env/src/clinic_env/worlds/clinic-v1 src/credit_lab/bench/README "
    "src/credit_lab/bench/replay models/README results/README",
    "Reference": "docs/site/pcqc docs/site/turn_credit docs/site/clinic_env",
}


def add_contents(app, name, source):
    """Give README, the front page, the contents that the sidebar shows."""
    if name == root_doc:
        for caption, pages in contents.items():
            entries = "\n".join(pages.split())
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n{entries}\n```\n"


def as_fields(app, what, name, obj, options, lines):
    """Docstrings are plain text: a bar marks nothing, and `Needs: ...` of a credit is a field."""
    field = re.compile(r"^(Formula|Needs|Costs|Bias|Source)(?=: )")
    lines[:] = [field.sub(r":\1", line.replace("|", r"\|")) for line in lines]


def setup(app):
    app.add_lexer("mermaid", TextLexer)  # the repository's host draws these graphs
    app.add_config_value("contents", {}, "env")  # a change of them builds all pages anew
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-docstring", as_fields)

"""One page of a run in MLflow: settings, learning curve, accuracies and every compared question."""

from collections.abc import Iterator
from itertools import groupby

from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.mlflow_mirror.values import PREFIXES, metrics, parameters
from pcqc_study.study_file import Study
from turn_credit.arithmetic import SMALL_SPREAD, small_spread_share

NAME = "run.html"
# Without it the interface shows its pages for language models beside a run.
VIEW = "?workflowType=machine_learning"
BASELINE = "grpo"
MOST = 5000  # states of one page: about 4 MB
WIDTH, HEIGHT = 560, 160  # of the curve, in pixels

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{{ run.title }}</title>
<style>
body { font: 14px/1.5 sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .3rem 0 1rem }
td, th { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: left }
.n { text-align: right } .x { font-weight: bold } summary { cursor: pointer }
</style>
<h1>{{ run.title }}</h1>
<p>Commit <code>{{ run.evaluation.git_commit }}</code>, seed {{ run.study.seed(run.run) }}
{%- if run.training %}; the checkpoint of update {{ run.evaluation['update'] }} was selected
{%- endif %}.
<h2>Accuracy</h2>
<table><tr><th>Benchmark<th>Accuracy, %<th>Inquiry turns
{% for update, name, result in evaluated %}
<tr><td>{{ run.study.benchmarks[name].title }}{% if update %}, update {{ update }}{% endif %}
<td class="n">{{ "%.1f"|format(100 * result.accuracy) }}
<td class="n">{{ "%.2f"|format(result.turns) }}
{% endfor %}</table>
{% if curve|length > 1 %}<h2>Learning curve</h2>
<p>Accuracy on {{ run.study.benchmarks[run.study.development].title }} by update, from Shared
SFT (0) on; {% for update, value in curve %}{{ update }}: {{ "%.1f"|format(100 * value) }} %
{%- if not loop.last %}, {% endif %}{% endfor %}.
<p><svg width="{{ width + 70 }}" height="{{ height + 45 }}" viewBox="-50 -10 {{ width + 70 }}
 {{- " " }}{{ height + 45 }}" role="img" font-size="11" text-anchor="middle" fill="#555">
{% for percent in (0, 25, 50, 75, 100) %}{% set y = height * (1 - percent / 100) %}
<path d="M0 {{ y }}H{{ width }}" stroke="#ddd"/>
<text x="-8" y="{{ y + 4 }}" text-anchor="end">{{ percent }} %</text>
{% endfor %}
{% for update, _ in curve %}
<text x="{{ width * update / curve[-1][0] }}" y="{{ height + 15 }}">{{ update }}</text>
{% endfor %}
<text x="{{ width / 2 }}" y="{{ height + 31 }}">RL update</text>
<polyline points="{{ line }}" fill="none" stroke="#0072b2" stroke-width="2"/></svg>
{% endif %}
{% if differing %}<h2>Settings that differ from {{ baseline }}</h2>
<table><tr><th>Setting<th>{{ baseline }}<th>This run
{% for name, other, own in differing %}<tr><td><code>{{ name }}</code><td>{{ other }}<td>{{ own }}
{% endfor %}</table>{% endif %}
{% if updates %}<h2>Questions</h2>
<p>{% if shown < run.groups|length %}{{ shown }} of {% endif %}
{{- run.groups|length }} states at which
questions were compared, by update. The executed question is bold.
{% for update, groups in updates %}
<details{% if update == run.evaluation['update'] %} open{% endif %}>
{{- "" }}<summary>Update {{ update }}: {{ groups|length }};
share of credit from near ties (spread below {{ below }}):
{{ "%.0f"|format(100 * small(groups)) }} %</summary>
{% for group in groups %}
<p>{{ group.case_id }}, turn {{ group.turn + 1 }}, spread {{ "%.4f"|format(group.spread) }}:
{{ group.initial }} {% for label, text in group.options.items() -%}
{{ "; " if not loop.first }}{% if label == group.answer_label -%}
<b>{{ label }}. {{ text }} (right)</b>{% else %}{{ label }}. {{ text }}{% endif %}
{%- endfor %}.{% for turn in group.history %} {{ turn.question }} {{ turn.answer }}{% endfor %}
<table><tr><th>Question<th>Answer<th>Utility<th>Gain<th>Credit
{% for each in group.candidates %}<tr{% if each.executed %} class="x"{% endif %}>
<td>{{ each.question }}<td>{{ each.answer }}
{% for number in (each.utility, each.gain, each.credit) %}<td class="n">{{ "%.3f"|format(number) }}
{% endfor %}{% endfor %}</table>{% endfor %}</details>
{% endfor %}{% endif %}
"""


def of_run(run: FinishedRun) -> str:
    """The page, which needs no other file."""
    from jinja2 import Environment

    step = max(1, len(run.groups) / MOST)
    groups = [run.groups[int(n * step)] for n in range(min(MOST, len(run.groups)))]
    # (update, accuracy of its checkpoint on the development benchmark)
    accuracy = f"{PREFIXES['validation']}accuracy"
    curve = [(update, value) for name, value, update, _ in metrics(run) if name == accuracy]
    return (
        Environment(autoescape=True, trim_blocks=True)
        .from_string(PAGE)
        .render(
            run=run,
            evaluated=list(_evaluated(run)),
            baseline=baseline(run.study),
            differing=_differing(run),
            curve=curve,
            line=_line(curve),
            width=WIDTH,
            height=HEIGHT,
            shown=len(groups),
            small=_small,
            below=SMALL_SPREAD,
            updates=[(u, list(rows)) for u, rows in groupby(groups, lambda row: row["update"])],
        )
    )


def _small(groups: list[dict]) -> float:
    credits = [[candidate["credit"] for candidate in group["candidates"]] for group in groups]
    return small_spread_share([group["spread"] for group in groups], credits)


def _evaluated(run: FinishedRun) -> Iterator[tuple[str, str, dict]]:
    """Update, benchmark and result of each evaluation; that of the selected checkpoint is ""."""
    further = run.evaluation.get("further_updates", {})
    for update, manifest in {"": run.evaluation, **further}.items():
        for name, result in manifest["benchmarks"].items():
            yield update, name, result


def address(experiment_id: str, run_id: str, page: str = f"artifacts/{NAME}") -> str:
    """Link to a page of a run in MLflow's interface."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/{page}{VIEW}"


def has(study: Study) -> str:
    """What the page has, on one line: the interface keeps line breaks."""
    return f"commit, settings unlike {baseline(study)}'s, curve, accuracies, questions with credit"


def baseline(study: Study) -> str:
    """Title of the method whose settings the others' are set beside."""
    return study.methods[BASELINE].title


def _differing(run: FinishedRun) -> list[tuple[str, str, str]]:
    """Name, baseline's value and own value of each setting that differs."""
    if not run.training:
        return []
    other, own = parameters(run.study, BASELINE), parameters(run.study, run.method)
    pairs = [(name, other.get(name, "none"), own.get(name, "none")) for name in other | own]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _line(curve: list[tuple[int, float]]) -> str:
    """The curve's points in pixels: from 0 to 100 % upwards."""
    last = max([update for update, _ in curve], default=0) or 1
    return " ".join(
        f"{WIDTH * update / last:.1f},{HEIGHT * (1 - value):.1f}" for update, value in curve
    )

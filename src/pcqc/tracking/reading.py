"""Why a question was credited, in words and as a page: candidate groups for human readers."""

from collections.abc import Sequence
from html import escape

GROUPS_ON_PAGE = 24

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 1080px; margin: 24px auto;
       padding: 0 16px; background: #fff; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin: 32px 0 4px; }
p { margin: 4px 0; } .dim { color: #5b6570; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; }
th { text-align: left; font-weight: 600; border-bottom: 1px solid #888; padding: 4px 8px; }
td { border-bottom: 1px solid #e3e6ea; padding: 4px 8px; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.executed td { background: #eef4fb; }
.up { color: #116329; } .down { color: #a40e26; }
"""


def evenly(rows: Sequence, count: int) -> list:
    """At most `count` of `rows`, evenly spread, the first and the last among them."""
    if len(rows) <= count:
        return list(rows)
    if count == 1:
        return [rows[0]]
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


def why(group: dict, candidate: dict, question_credit: str) -> str:
    """One paragraph that derives a candidate's credit from its group (paper, Section 3.2).

    Args:
        group: a row of candidate_groups.jsonl.
        candidate: one of its candidates.
        question_credit: the method's setting, `same_state` or `executed_local`.
    """
    before, utility = group["baseline"], candidate["utility"]
    if candidate["question"] is None:
        first = (
            "This response asks no question, so the scorer read the dialogue as it was: the "
            f"probability of the correct option stayed {before:.3f}."
        )
    else:
        first = (
            "With this question and its answer the scorer gives the correct option a probability "
            f"of {utility:.3f} (the utility); before them it was {before:.3f}."
        )
    return f"{first} {_compared(group, candidate, question_credit)}"


def _compared(group: dict, candidate: dict, question_credit: str) -> str:
    """What the utility is compared with, and the credit that comes of it."""
    credit, spread = candidate["credit"], group["spread"]
    if not candidate["supervised"]:
        return "Its tokens were not supervised, so it taught the policy nothing."
    if question_credit == "executed_local":
        return (
            "Executed-local credit compares its gain with those of all executed questions of this "
            f"update, whatever their state: credit {credit:+.2f}."
        )
    utilities = [other["utility"] for other in group["candidates"]]
    if credit == 0:
        return (
            f"All {len(utilities)} candidates at this state have nearly the same utility (spread "
            f"{spread:.1e}), so none of them is credited."
        )
    mean = sum(utilities) / len(utilities)
    return (
        f"The {len(utilities)} candidates at this state have a mean utility of {mean:.3f} and a "
        f"spread of {spread:.3f}: credit ({candidate['utility']:.3f} - {mean:.3f}) / {spread:.3f} "
        f"= {credit:+.2f}."
    )


def table(group: dict) -> str:
    """A group's candidates as a Markdown table, the most useful first.

    It is written tightly, because the interface folds long texts.
    """
    lines = [
        "|Candidate|Patient's answer|Utility|Gain|Credit|Role|",
        "|-|-|-|-|-|-|",
    ]
    for candidate in _ranked(group):
        role = "executed" if candidate["executed"] else "unexecuted"
        cells = [
            _asked(candidate),
            candidate["answer"] or "",
            f"{candidate['utility']:.3f}",
            f"{candidate['gain']:+.3f}",
            f"{candidate['credit']:+.3f}",
            role if candidate["supervised"] else f"{role}, not supervised",
        ]
        lines.append(f"|{'|'.join(' '.join(cell.split()).replace('|', '/') for cell in cells)}|")
    return "\n".join(lines)


def page(title: str, groups: list[dict]) -> str:
    """A self-contained HTML page of candidate groups spread over the run's updates."""
    chosen = evenly(groups, GROUPS_ON_PAGE)
    body = "\n".join(_group(group) for group in chosen)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<style>{STYLE}</style></head><body>
<h1>{escape(title)}: what was asked, and why it was credited</h1>
<p>{len(chosen)} of {len(groups)} candidate groups, spread evenly over the updates; all of them are
in <code>training/candidate_groups.jsonl</code>. In each group the policy proposed several questions
at one and the same state of a consultation. The patient answered each of them; the scorer then
read the dialogue with that one question and answer added.</p>
<p><b>Utility</b> is the probability the scorer then gives the correct option, <b>gain</b> is the
utility less the probability before the question, and <b>credit</b> is what the policy was taught:
positive makes the question likelier at such a state, negative less likely. The shaded question was
executed, that is, it continued the consultation; the others were not, and an unsupervised one
taught the policy nothing.</p>
{body}
</body></html>
"""


def _group(group: dict) -> str:
    options = "; ".join(
        f"<b>{escape(label)}. {escape(text)} (correct)</b>"
        if label == group["answer_label"]
        else f"{escape(label)}. {escape(text)}"
        for label, text in group["options"].items()
    )
    history = "".join(
        f"<p>{escape(turn['question'] or '')} <span class=dim>→ {escape(turn['answer'] or '')}"
        "</span></p>"
        for turn in group["history"]
    )
    place = f"Update {group['update']}, case {group['case_id']}, turn {len(group['history']) + 1}"
    return f"""<h2>{escape(place)}</h2>
<p>{escape(group["initial"])} <span class=dim>Options: {options}</span></p>
{history or "<p class=dim>Nothing has been asked yet.</p>"}
<p>Probability of the correct option before the question {group["baseline"]:.3f}, spread of the
utilities {group["spread"]:.3f}.</p>
<table><tr><th>Candidate</th><th>Patient's answer</th><th class=n>Utility</th><th class=n>Gain</th>
<th class=n>Credit</th><th>Executed</th><th>Supervised</th></tr>
{"".join(_candidate(candidate) for candidate in _ranked(group))}</table>"""


def _candidate(candidate: dict) -> str:
    credit = candidate["credit"]
    tone = "up" if credit > 0 else "down" if credit < 0 else "dim"
    shade = " class=executed" if candidate["executed"] else ""
    return (
        f"<tr{shade}><td>{escape(_asked(candidate))}</td>"
        f"<td>{escape(candidate['answer'] or '')}</td>"
        f"<td class=n>{candidate['utility']:.3f}</td>"
        f"<td class=n>{candidate['gain']:+.3f}</td>"
        f"<td class='n {tone}'>{candidate['credit']:+.3f}</td>"
        f"<td>{'yes' if candidate['executed'] else ''}</td>"
        f"<td>{'yes' if candidate['supervised'] else 'no'}</td></tr>\n"
    )


def _ranked(group: dict) -> list[dict]:
    return sorted(group["candidates"], key=lambda candidate: -candidate["utility"])


def _asked(candidate: dict) -> str:
    return candidate["question"] or f"(no question) {candidate['response']}"

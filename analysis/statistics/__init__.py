"""Intervals over runs, verdicts. Over cases: `pcqc.evaluation.intervals_over_cases`."""

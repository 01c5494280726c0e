"""Intervals over runs, verdicts. Over cases: `pcqc_study.intervals_over_cases`."""

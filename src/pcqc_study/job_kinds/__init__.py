"""The kinds of jobs: a function for each says what its jobs are told and read.

A function gets the study's `Jobs` and the job's arguments. It returns the job's settings, name by
name, and its inputs: name -> result or part of one, or a raw file. Its decorator says the rest. The
command line, the checks of settings and the workflow's rules are made from this table.
"""

from pcqc_study.job_kinds import cases, runs, whole_study
from pcqc_study.job_kinds.register import CHECKPOINTS, KINDS, RUN, Kind

__all__ = ["CHECKPOINTS", "IN_STORE", "KINDS", "RUN", "Kind", "cases", "runs", "whole_study"]

# Their results are in MLflow's store too.
IN_STORE = frozenset(name for name, of_name in KINDS.items() if of_name.in_store)

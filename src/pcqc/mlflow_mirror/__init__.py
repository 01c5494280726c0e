"""MLflow: all that writes to it and reads from it.

A run appends to its own files and never talks to MLflow. Four modules write: `mirror_runs`
(finished runs), `live` (curves of runs in training), `checkpoints` (selected policies as models)
and `publish_report`; `prepare` makes the store. `collect` fetches files back for the analysis and
checks their digests.
"""

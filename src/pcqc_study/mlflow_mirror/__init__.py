"""MLflow: all that writes to it and reads from it.

A run appends to its own files and never talks to MLflow. Four modules write: `write_runs` (finished
runs), `write_curves` (curves of runs in training), `write_models` (selected policies as models) and
`write_report`; `prepare` makes the store. `collect` fetches files back for the analysis and checks
their digests.
"""

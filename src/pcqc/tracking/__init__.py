"""What a run writes about itself, and its mirror in MLflow.

A run appends to its own files and never talks to MLflow. Once it is finished, `mirror_runs` copies
its files into MLflow, and `collect` fetches them back for the analysis and checks their digests.
"""

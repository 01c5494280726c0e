"""What a run writes about itself, and its mirror in MLflow.

A run appends to its own files (`record`) and never talks to MLflow. Afterwards `mirror` copies
what is finished into MLflow, and `collect` fetches it back, digest by digest, for the analysis.
"""

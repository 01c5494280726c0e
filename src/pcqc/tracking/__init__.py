"""What a run writes about itself, and its mirror in MLflow.

A run appends to its own files (`record`) and never talks to MLflow. Once it is finished, `mirror`
copies its files into MLflow, and `collect` fetches them back for the analysis and checks digests.
"""

"""Results on disk: recipes, manifests, the jobs of a study, and where each result lies."""

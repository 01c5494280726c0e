"""When a result is made again, and what it was made from: recipes, manifests, a study's jobs."""

"""How fast it is, beside what one would use otherwise; `python -m benchmarks` runs everything."""

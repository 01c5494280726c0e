"""Raw files to cases: converters, the synthetic clinic, exclusions, overlap audit."""

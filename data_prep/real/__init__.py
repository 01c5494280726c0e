"""Published cases: from the files of their sources to cases, data cards and an overlap audit."""

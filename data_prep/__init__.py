"""Published files: download, check, conversion to cases, overlap audit."""

"""The machine below: files, processes, threads, random streams, progress."""

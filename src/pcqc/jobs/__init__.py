"""Jobs: one module per kind of work in the DAG; they bring settings, files and library together."""

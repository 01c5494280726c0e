"""What the runs logged to tables, figures and the report; never trains, never samples."""

"""What is logged beside a result: metrics, and rows that people read.

Nothing here decides a number, so an edit remakes no result.
"""

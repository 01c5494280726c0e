"""The one exception that a user is meant to read."""


class UserError(Exception):
    """Something the user can fix: a wrong file, row, setting or machine.

    The message is one line that says what is wrong, where (file and row), and the remedy. The
    command line prints it as ``pcqc: error: <message>`` and exits with status 2; any other
    exception is a defect of this program and keeps its traceback.
    """

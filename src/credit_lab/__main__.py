"""`python -m credit_lab`."""

import sys

from credit_lab.cli import main

sys.exit(main())

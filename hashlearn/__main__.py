"""``python -m hashlearn``: the command line."""

import sys

from hashlearn.cli import main

if __name__ == "__main__":
    sys.exit(main())

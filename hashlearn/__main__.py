"""``python -m hashlearn`` and the command ``hashlearn``: the command line."""

import sys

from hashlearn.starting import leaving_at_once


def main() -> int:
    """Run the command line of this process and return its exit code."""
    with leaving_at_once():
        from hashlearn.cli import main as run
    return run()


if __name__ == "__main__":
    sys.exit(main())

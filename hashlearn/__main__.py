"""``python -m hashlearn`` and the command ``hashlearn``: the command line."""

import sys

from hashlearn.starting import exit_on_interrupt


def main() -> int:
    """Run the command line of this process and return its exit code."""
    with exit_on_interrupt():
        from hashlearn.cli import main as run
    return run()


if __name__ == "__main__":
    sys.exit(main())

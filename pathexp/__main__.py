"""python -m pathexp does what the command pathexp does."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())

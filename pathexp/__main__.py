"""python -m pathexp does what the command pathexp does."""

import sys

from .cli import main

sys.exit(main())

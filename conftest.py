"""Tests are many small products: one thread each is faster than handing them around."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["COLUMNS"] = "100"  # pages show what is printed at this width

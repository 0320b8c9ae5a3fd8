"""Measure pieces of a benchmark, each alone in a process of its own: seconds, the best of several, and peak memory."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def parser(claim: str | None) -> argparse.ArgumentParser:
    """The arguments of every benchmark: its claim as help, and --tiny."""
    made = argparse.ArgumentParser(description=claim, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tiny", action="store_true", help="a run of a moment, to see that the script works")
    made.add_argument("--part", default=None, help=argparse.SUPPRESS)
    return made


def measured(work: Callable[[], Any], repeats: int) -> tuple[Any, dict[str, float]]:
    """Run some work and return its result, its best seconds (by the clock, and of the processor), and the process's peak memory in MB."""
    before = peak()
    seconds, processor = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        result = work()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return result, {"seconds": min(seconds), "processor": min(processor), "before": before, "peak": peak()}


def peak() -> float:
    """The process's peak memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def alone(script: str, part: str, python: str = sys.executable) -> dict[str, Any] | None:
    """Run one part of a script in a process of its own and return the JSON it prints last; None if it cannot run."""
    environment = {k: v for k, v in os.environ.items() if python == sys.executable or k != "PYTHONPATH"}
    done = subprocess.run([python, script, "--part", part], capture_output=True, text=True, env=environment)
    if done.returncode:
        print(
            f"({re.split('[,:]', part)[0]} cannot run here: {(done.stderr.strip().splitlines() or ['?'])[-1]})"
        )
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> str:
    """What the figures were measured on."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, load {load:.1f} before"

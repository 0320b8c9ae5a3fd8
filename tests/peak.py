"""The peak memory of a process that a test starts."""

PEAK = """
def peak_bytes():
    # ru_maxrss counts what the parent held when it started this process; VmHWM does not.
    try:
        with open("/proc/self/status") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except OSError:
        import resource, sys
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

"""
"""Source of a function `peak_bytes()` to put before a script."""

"""How much memory a run writes, whichever runtime it is: the pages that a fork has shared and that a run makes the process's own again.

Weights are read only, so they stay shared; activations, workspaces and outputs are written, wherever they were allocated and
whether they come from a heap, an arena or a mapping.  What a runtime frees to the kernel within the run is not seen.
"""
import ctypes
import os
import pathlib

PR_SET_THP_DISABLE = 41


def use_small_pages():
    """Before anything is allocated: one byte written in a huge page would count as 2 MiB."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def private_bytes():
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/smaps_rollup has no Private_Dirty")


def written_bytes(run):
    """Of a run in the steady state; what measuring itself writes is taken off."""
    def measure(work):
        ready, wait = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:  # holds the pages until it is told to go
            os.write(ready[1], b"x")
            os.close(wait[1])
            os.read(wait[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
        before = private_bytes()
        work()
        after = private_bytes()
        for end in (*ready, *wait):
            os.close(end)
        os.waitpid(child, 0)
        return after - before

    return max(0, measure(run) - measure(lambda: None))

"""Runs one fit under a limit of memory, and reports as JSON what comes of it; see test_memory_limit.py."""

import json
import os
import pickle
import resource
import sys
import threading
import time
import warnings

import numpy as np
from digests import fitted, sequences
from interrupted_fits import contents


def use_of_memory():
    """Bytes of address space of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def attempt(model, X, y, room):
    """Fit with so many bytes of room; return what is raised, and leave no limit."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (use_of_memory() + room, hard))
    try:
        model.fit(X, y)
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return "nothing", ""


def main(name):
    warnings.simplefilter("ignore")
    X, y = sequences(150, 60)
    model = fitted(name, X, y)
    before, state = contents(model), pickle.dumps(model)
    if "classes" in name:
        y = np.array(["low", "middle", "high"])[np.digitize(y, [0.0] if "two" in name else [-0.5, 0.5])]
    other = y[::-1]
    X_list = X.to_list()  # which a fit packs anew
    reports = []
    # Small rooms are too small for X, or for what a fit makes beside it; the last is large enough.
    rooms = [(X, 2**k) for k in range(12, 22)] + [(X_list, 2**k) for k in (14, 18, 22)] + [(X_list, 2**30)]
    for given, room in rooms:
        n_files = len(os.listdir("/proc/self/fd"))
        raised, message = attempt(model, given, other, room)
        unchanged = contents(model) == before
        deadline = time.monotonic() + 5.0
        while threading.active_count() > 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        reports.append(
            {
                "room": room,
                "raised": raised,
                "message": message,
                "unchanged": unchanged,
                "threads": threading.active_count(),
                "files": len(os.listdir("/proc/self/fd")) - n_files,
            }
        )
        model = pickle.loads(state)
    expected = model.fit(X_list, y).objective_
    again = model.fit(X_list, y).objective_
    print(json.dumps({"reports": reports, "next fit": again == expected}))


if __name__ == "__main__":
    main(sys.argv[1])

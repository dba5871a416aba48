"""The victim of test_embedded_crash.py: forks a child for every line on standard input; the child changes a collection
and says on standard output what it is about to do and what was acknowledged, until it is killed."""

import json
import os
import sys

import numpy as np

from hashlearn import Collection
from hashlearn.collection.stores.embedded import store as embedded

IDS, BITS = 3000, 20


def code_of(ids, version):
    """A code that tells the id and the version of a row."""
    mixed = np.asarray(ids, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(version) * np.uint64(40503)
    shifted = [mixed >> np.uint64(8), mixed >> np.uint64(16), (mixed >> np.uint64(20)) & np.uint64(0xF0)]
    return np.stack(shifted, axis=1).astype(np.uint8)


def operations(seed, version):
    """Endless changes: (version, what, ids)."""
    rng = np.random.default_rng(seed)
    while True:
        version += 1
        what = rng.choice(["add", "delete", "delete where"], p=[0.65, 0.25, 0.1])
        size = int(rng.choice([1, 5, 300]))
        ids = np.sort(rng.choice(IDS, size, replace=False)) if what != "delete where" else rng.integers(0, 50, 1)
        yield version, str(what), ids.tolist()


def change(collection, version, what, ids):
    if what == "add":
        payload = [{"v": version, "group": number % 50} if number % 3 else None for number in ids]
        collection.add(codes=code_of(ids, version), ids=ids, payload=payload)
    elif what == "delete":
        collection.delete(ids)
    else:
        collection.delete(where={"group": ids[0]})


def change_model(model, version, what, ids):
    """The same on a dict id -> version."""
    if what == "add":
        return {**model, **dict.fromkeys(ids, version)}
    if what == "delete":
        return {number: v for number, v in model.items() if number not in set(ids)}
    return {number: v for number, v in model.items() if number % 3 == 0 or number % 50 != ids[0]}


def say(line):
    os.write(1, (line + "\n").encode())


def main(folder):
    # Blocks merge and are written anew all the time, so that a kill often comes in the middle of it.
    embedded._FAN, embedded._FULL_ROWS, embedded._WASTE_ROWS = 3, 400, 1500
    for line in sys.stdin:
        seed, last = map(int, line.split())
        pid = os.fork()
        if pid:
            say(f"pid {pid}")
            os.waitpid(pid, 0)
            say("end")
            continue
        collection = Collection.open(folder)
        for version, what, ids in operations(seed, last):
            say("begin " + json.dumps([version, what, ids]))
            change(collection, version, what, ids)
            say("done")


if __name__ == "__main__":
    main(sys.argv[1])

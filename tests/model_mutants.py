"""Models whose numbers and shapes are changed one at a time, loaded and used in a process with little memory.

    python tests/model_mutants.py

Prints, for every method, how many mutants were refused, how many encode rows and how many raise an error there. The
exit code is 1 when a mutant asks for more memory than the process may take, or when it encodes for seconds.
"""

from __future__ import annotations

import collections
import copy
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from sklearn.datasets import load_digits
from small_methods import small

import hashlearn as hl
from hashlearn import models
from hashlearn.models.format import to_bytes

X, Y = (part[:200] for part in load_digits(return_X_y=True))
NUMBERS = (0, -1, 3, 10**6, 10**10)
ROOM = 2**29
SECONDS = 20


class TooSlow(BaseException):
    """Not an Exception, so that nothing in between takes it for an error of the model."""


def fitted() -> Iterator[tuple[str, Any]]:
    for name in hl.METHODS:
        yield name, small(name).fit(X, Y)
    yield "joined", hl.JoinedHasher([small("gsdhp"), small("lsh")]).fit(X, Y)
    yield "trees", small("gsdhp", function="trees").fit(X, Y)
    try:
        import torch  # noqa: F401
    except ImportError:
        return
    yield "network", small("gsdhp", function=hl.deep.Network(head=[16], n_epochs=1)).fit(X, Y)
    yield "deep", small("dch").fit(X, Y)


def numbers_in(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths that lead to numbers of a document, without timings."""
    if isinstance(node, dict | list):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            if key != "seconds_":
                yield from numbers_in(part, (*path, key))
    elif type(node) in (int, float):
        yield path


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    result = copy.deepcopy(document)
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return result


def other_shapes(array: np.ndarray) -> Iterator[np.ndarray]:
    for shape in {(array.size,), (1, array.size), (array.size, 1), array.shape[::-1]} - {array.shape}:
        yield array.reshape(shape)
    for shape in ((10**10, 0), (0, 10**10), (len(array) if array.ndim else 1, 0)):
        yield np.empty(shape, dtype=array.dtype)
    if array.size > 1:
        yield array.reshape(-1)[:1]
    if array.ndim and array.dtype.itemsize > 1:
        yield np.frombuffer(array.tobytes(), dtype=np.uint8).reshape(*array.shape[:-1], -1)


def mutants(hasher: Any) -> Iterator[tuple[str, bytes]]:
    document, arrays = models.saving._walked(hasher)
    for path in numbers_in(document):
        for value in NUMBERS:
            model = changed(document, path, value)
            yield f"{path} = {value}", to_bytes({"hashlearn": "0", "model": model}, arrays)
    for name, array in arrays.items():
        for other in other_shapes(array):
            whole = to_bytes({"hashlearn": "0", "model": document}, {**arrays, name: other})
            yield f"{name} {other.dtype} {other.shape}", whole


def outcome(data: bytes) -> str:
    """What becomes of a mutant: refused, ok, the name of an error, or what must not be."""
    signal.alarm(SECONDS)
    try:
        hasher = models.loads(data, "mutant")
        hasher.encode(X[:5])
        return "ok"
    except models.ModelFileError:
        return "refused"
    except MemoryError:
        return "MEMORY"
    except TooSlow:
        return "SLOW"
    except Exception as error:
        return type(error).__name__
    finally:
        signal.alarm(0)


def too_slow(*_: Any) -> None:
    raise TooSlow


def main() -> int:
    warnings.simplefilter("ignore")
    hashers = list(fitted())
    for _, hasher in hashers:
        hasher.encode(X[:5])
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))
    signal.signal(signal.SIGALRM, too_slow)
    wrong = 0
    for name, hasher in hashers:
        counts: collections.Counter[str] = collections.Counter()
        for what, data in mutants(hasher):
            result = outcome(data)
            counts[result] += 1
            if result.isupper():
                wrong += 1
                print(f"{name}: {what}: {result}")
        print(f"{name:12s} {dict(counts)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Build the index file of very many codes of 64 bits, or a collection of them, and search it, exactly.

    python benchmarks/billion.py FOLDER [--collection] [--rows 1000000000] [--threads 2] [--copy URI]

Codes are random, and each of 64 queries has 10 planted rows at distances 0 to 3. The file is built in blocks with
bounded memory; after Ctrl-C, the same command goes on. Prints the rate of building, the time from opening to the first
answer, memory, and the times of searches: one query, batches of 64, and within radius 3; of the index file also of
real-valued queries and among 1 % of the rows. All answers are checked against the planted rows. The file stays in
FOLDER (8 bytes per row). With --collection it is a collection in a folder (16 bytes per row in the file, 8 in memory;
100,000,000 rows unless told otherwise), which is filled by ``Collection.add``. With --copy it is then copied to
another collection, such as ``milvus://host:port/name``, whose distances must be the same for all queries.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn import Collection
from hashlearn.index import Index, build_file, scan_info
from hashlearn.progress import Listener, listening

BLOCK, QUERIES, PLANTED = 2**22, 64, 10


def queries() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**64, QUERIES, dtype=np.uint64)


def planted_rows(rows: int) -> np.ndarray:
    """The rows (queries, planted) that are near each query, spread over the file, nearest first and then by row."""
    return np.linspace(0, rows - 1, QUERIES * PLANTED).astype(np.int64).reshape(PLANTED, QUERIES).T


def planted_distances() -> np.ndarray:
    return np.sort(np.arange(PLANTED) % 4)


def blocks(rows: int, first: int) -> Iterator[np.ndarray]:
    """The codes from row ``first`` on. Each block has a random generator that its number seeds."""
    near, distances, asked = planted_rows(rows), planted_distances(), queries()
    for number in range(first // BLOCK, -(-rows // BLOCK)):
        begin, stop = number * BLOCK, min((number + 1) * BLOCK, rows)
        codes = np.random.Generator(np.random.Philox(key=number)).integers(0, 2**64, BLOCK, dtype=np.uint64)
        for query, place in zip(*np.nonzero((near >= begin) & (near < stop)), strict=True):
            flips = (1 << int(distances[place])) - 1
            codes[near[query, place] - begin] = asked[query] ^ np.uint64(flips << int(place))
        yield codes[max(first - begin, 0) : stop - begin].view(np.uint8).reshape(-1, 8)


def memory() -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {
        line.split(":")[0]: int(line.split()[1]) / 2**20 for line in lines if line.startswith(("VmRSS", "RssAnon"))
    }
    return f"{sizes['VmRSS']:.2f} GB resident, {sizes['RssAnon']:.2f} GB of it not in the mapped file"


def timed(what: str, work: Callable[[], Any], repeats: int = 3, per: int = 1) -> Any:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = work()
        times.append((time.perf_counter() - start) / per)
    print(f"{what}: best {min(times):.3f} s, median {np.median(times):.3f} s", flush=True)
    return answer


def check(hits: Any, rows: int, n: int, what: str) -> None:
    if not np.array_equal(hits.ids, planted_rows(rows)[:n]):
        raise SystemExit(f"{what} did not find the planted rows.")


def told(rows: int, work: Callable[[], Any]) -> None:
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(f"\n{rows:,} rows in {seconds:.0f} s, {rows / seconds:,.0f} rows/s (random numbers included); {memory()}")


def shown(first: int, rows: int) -> Listener:
    """Print how many of the rows are done, ``first`` of them before."""
    return lambda phase, done, _: print(f"\r{phase}: {first + done:,} of {rows:,} rows", end="", file=sys.stderr)


def fill(shop: Collection, rows: int) -> None:
    """Add the rows that are missing. A transaction adds all of its rows or none, so their count says where to go on."""
    for codes in blocks(rows, len(shop)):
        first = len(shop)
        with listening(shown(first, rows)):
            shop.add(codes=codes, ids=np.arange(first, first + len(codes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--collection", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--copy", metavar="URI", help="with --collection: copy it there and compare the answers")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = options.rows or (10**8 if options.collection else 10**9)
    print(scan_info())
    if options.collection:
        path = options.folder / f"{rows}.collection"
        search_collection(path, rows, options.threads)
        if options.copy:
            copy_collection(path, rows, options.copy)
    else:
        search_file(options.folder / f"{rows}.index", rows, options.threads)
    print(memory())


def search_collection(path: Path, rows: int, jobs: int) -> None:
    with Collection.create(path, n_bits=64, exist_ok=True) as shop:
        if len(shop) < rows:
            told(rows - len(shop), lambda: fill(shop, rows))

    def search(queries: np.ndarray) -> Any:
        return shop.search(codes=queries, k=PLANTED, include=[], n_jobs=jobs)

    start = time.perf_counter()
    with Collection.open(path, read_only=True) as shop:
        search_by_bits(rows, start, search, lambda query: shop.within(codes=query, radius=3, include=[], n_jobs=jobs))


def copy_collection(path: Path, rows: int, uri: str) -> None:
    """Copy the collection and compare the distances of all queries. Rows at one distance may come in any order."""
    asked = queries().view(np.uint8).reshape(-1, 8)
    with Collection.open(path, read_only=True) as shop:
        start = time.perf_counter()
        with listening(shown(0, rows)), shop.copy(uri) as copied:
            seconds = time.perf_counter() - start
            print(f"\ncopied to {copied.uri} in {seconds:.0f} s, {rows / seconds:,.0f} rows/s; it has {len(copied):,}")
            found = timed("batch of 64 there, per query", lambda: copied.search(codes=asked, k=PLANTED), 3, QUERIES)
        here = shop.search(codes=asked, k=PLANTED)
        if len(shop) != rows or not np.array_equal(found.distances, here.distances):
            raise SystemExit("The copy gives other answers.")
    same = np.mean(found.ids == here.ids)
    print(f"all distances are equal, and {same:.1%} of the ids stand in the same place")


def search_by_bits(
    rows: int, start: float, search: Callable[[np.ndarray], Any], within: Callable[[np.ndarray], Any]
) -> None:
    """Time the searches by Hamming distance, the first of them since ``start``, and check their answers."""
    asked = queries().view(np.uint8).reshape(-1, 8)
    opened = time.perf_counter() - start
    check(search(asked[:1]), rows, 1, "The first search")
    print(f"open {opened:.3f} s, to the first answer {time.perf_counter() - start:.3f} s; {memory()}")
    check(timed("one query", lambda: search(asked[:1])), rows, 1, "One query")
    check(timed("batch of 64, per query", lambda: search(asked), 1, QUERIES), rows, QUERIES, "The batch")
    ball = timed("within radius 3", lambda: within(asked[:1]))
    if set(ball.ids.tolist()) != set(planted_rows(rows)[0].tolist()):
        raise SystemExit("within did not find the planted rows.")


def search_file(path: Path, rows: int, jobs: int) -> None:
    if not path.exists():
        told(rows, lambda: build_file(path, 64, lambda first: blocks(rows, first), progress=shown(0, rows)))
    start = time.perf_counter()
    index = Index.load(path)
    search_by_bits(
        rows,
        start,
        lambda queries: index.search(queries, PLANTED, n_jobs=jobs),
        lambda query: index.within(query, 3, n_jobs=jobs),
    )
    asked = queries().view(np.uint8).reshape(-1, 8)
    values = np.unpackbits(asked, axis=1) * 2.0 - 1
    check(timed("one real-valued query", lambda: index.search(values[:1], PLANTED, n_jobs=jobs), 3), rows, 1, "Scores")
    for share in (0.01, 0.1) if rows <= 10**8 else (0.01,):  # a tenth of a billion ids is 0.8 GB
        some = np.unique(np.random.default_rng(2).integers(0, rows, int(share * rows)))
        hits = timed(f"among {share:.0%} of the rows", lambda ids=some: index.search(asked[:1], PLANTED, ids, jobs), 3)
        if not np.isin(hits.ids, some).all():
            raise SystemExit("A filtered search found other rows.")


if __name__ == "__main__":
    main()

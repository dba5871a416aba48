"""The paper's Table 3 from a folder of images: 500 training images and 100 queries per class, the others as database.

    python benchmarks/deep_table3.py images --weights alexnet.pth --keep table3

Prints a row after each training: MAP@5000, MAP within Hamming radius 2 (strict, and as the evaluators released with DCH
compute it), and seconds. With ``--keep``, finished rows are kept in that folder, and each training writes a checkpoint
there after every epoch, so that the same command resumes after a stop.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes, metrics
from hashlearn.bench.store import BenchRun, RunDefinition, RunStore, machine_facts, now
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import protocol
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.methods import DEEP_METHODS, find_method
from hashlearn.parallel import thread_count

HEADER = "| method | bits | MAP@5000 | MAP within 2 | as released | seconds |\n|---|---|---|---|---|---|"
BITS, EPOCHS = (12, 24, 32, 48), 40
SplitParts = tuple[tuple[Any, NDArray[Any]], ...]
"""Training rows, queries and database, each as the input of a hasher and its labels."""


def row_of(store: RunStore | None, definition: RunDefinition, settings: dict[str, Any], parts: SplitParts) -> str:
    """Return a row of the table, either of a kept run or trained and scored now."""
    run = None if store is None else store.get(definition.key)
    if run is None:
        checkpoint = None if store is None else store.folder / f"{definition.key}.checkpoint"
        run = _trained(definition, settings, parts, checkpoint)
        if store is not None and checkpoint is not None:
            store.save(run, None)
            checkpoint.unlink(missing_ok=True)
    seconds = f"{run.seconds['fit']:.0f}" if run.seconds else "–"
    figures = " | ".join(f"{run.measured[name]:.3f}" for name in ("ranked", "near", "released"))
    return f"| {definition.method} | {definition.n_bits} | {figures} | {seconds} |"


def _trained(
    definition: RunDefinition, settings: dict[str, Any], parts: SplitParts, checkpoint: Path | None
) -> BenchRun:
    (train, train_y), (query, query_y), (database, database_y) = parts
    # The rest of a training that was resumed does not tell how long the whole training takes.
    resumed = checkpoint is not None and checkpoint.exists()
    hasher = find_method(definition.method)(definition.n_bits, checkpoint=checkpoint, verbose=1, **settings)
    began = time.perf_counter()
    hasher.fit(train, train_y)
    seconds = {} if resumed else {"fit": time.perf_counter() - began}
    # Our networks end before tanh; the released evaluators expect outputs after it.
    outputs = np.tanh(hasher.decision_function(query)), np.tanh(hasher.decision_function(database))
    problem = (codes.pack(outputs[0] >= 0), codes.pack(outputs[1] >= 0), query_y, database_y)
    jobs = settings.get("n_jobs")
    measured = {
        "ranked": metrics.mean_average_precision(*problem, at=5000, n_jobs=jobs),
        "near": metrics.map_within_radius(*problem, n_jobs=jobs).map,
        "released": metrics.map_within_radius(*problem, form="official", projections=outputs, n_jobs=jobs).map,
    }
    facts = machine_facts(thread_count(jobs))
    return BenchRun(definition, seconds=seconds, measured=measured, machine=facts, finished=now())


def folder_parts(folder: str, seed: int) -> SplitParts:
    """Split a folder whose sub-folders are classes by CIFAR-10's deep protocol."""
    from hashlearn.deep.images import folder_classes, image_names

    if not Path(folder).is_dir():
        raise ValueError(f"{folder} is not a folder of images; unpack archives first.")
    found = image_names(folder)
    names, y = np.unique(folder_classes(found), return_inverse=True)
    paths = np.array([str(Path(folder) / name) for name in found])
    pool = Pool(Path(folder).name, np.zeros((len(paths), 0)), y.astype(np.int64), tuple(map(str, names)), ids=paths)
    split = protocol("cifar10-deep").split(pool, seed)
    return tuple((paths[rows].tolist(), pool.y[rows]) for rows in (split.train, split.query, split.database))


def _settings(name: str, options: argparse.Namespace, backbone: Any) -> dict[str, Any]:
    """Return the settings of the method's authors, and those of the command line."""
    method = cast("type[DeepHasher]", find_method(name))
    settings = {"n_epochs": EPOCHS, **method.authors, "backbone": backbone, "random_state": options.seed}
    settings |= {"device": options.device, "n_jobs": options.jobs}
    return settings if options.epochs is None else {**settings, "n_epochs": options.epochs}


def _definition(name: str, bits: int, options: argparse.Namespace, settings: dict[str, Any]) -> RunDefinition:
    return RunDefinition(
        data=options.images,
        protocol="cifar10-deep",
        split="table3",
        split_hash="",
        seed=options.seed,
        label=name,
        method=name,
        settings={key: value for key, value in settings.items() if key != "n_jobs"},
        n_bits=bits,
        revision=find_method(name).info.revision,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/deep_table3.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("images", help="a folder with a sub-folder for each class")
    parser.add_argument("--weights", help="weights of AlexNet: a state dict of torchvision, .pth or .safetensors")
    parser.add_argument("--backbone", type=json.loads, help="another network, as JSON, in place of AlexNet")
    parser.add_argument("--methods", nargs="+", choices=DEEP_METHODS, default=["gsdhp-star"], metavar="METHOD")
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--epochs", type=int, help="default: as many as the method's authors used, or 40")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the training")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, help="number of threads (default: all cores)")
    parser.add_argument("--keep", type=Path, help="a folder of finished rows")
    options = parser.parse_args(arguments)
    if (options.weights is None) == (options.backbone is None):
        parser.error("give either --weights (of AlexNet) or --backbone")
    backbone = options.backbone or {"name": "alexnet", "weights": options.weights}
    try:
        parts = folder_parts(options.images, options.seed)
        store = None if options.keep is None else RunStore(options.keep)
        if store is not None:
            store.make()
        print(HEADER, flush=True)
        for bits in options.bits:
            for name in options.methods:
                settings = _settings(name, options, backbone)
                definition = _definition(name, bits, options, settings)
                print(row_of(store, definition, settings, parts), flush=True)
    except (ValueError, OSError, ImportError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; with --keep the same command goes on after the last whole epoch.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

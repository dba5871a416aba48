"""The paper's Table 3 from a folder of images: 500 training images and 100 queries per class, the others as database.

    python -m hashlearn.reproduction.table3 images --weights alexnet.pth --keep table3.json

Prints a row after each training: MAP@5000, MAP within Hamming radius 2 (strict, and as the evaluators released with DCH
compute it), and seconds. With ``--keep``, finished rows are written to that file, and each training writes a checkpoint
beside it after every epoch, so that the same command resumes after a stop.
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
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import protocol
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.hashers import DEEP_METHODS, find_method
from hashlearn.wholefile import whole_file

HEADER = "| method | bits | MAP@5000 | MAP within 2 | as released | seconds |\n|---|---|---|---|---|---|"
BITS, EPOCHS = (12, 24, 32, 48), 40
SplitParts = tuple[tuple[Any, NDArray[Any]], ...]
"""Training rows, queries and database, each as the input of a hasher and its labels."""


class KeptRows:
    """Finished rows by their settings, in a JSON file that is replaced as a whole; without a path, only in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.rows = json.loads(path.read_text(encoding="utf-8"))

    def add(self, key: str, row: dict[str, Any]) -> None:
        self.rows[key] = row
        if self.path is not None:
            with whole_file(self.path) as file:
                file.write(json.dumps(self.rows, indent=1).encode())

    def checkpoint(self, name: str) -> Path | None:
        return None if self.path is None else self.path.with_name(f"{self.path.stem}-{name}.checkpoint")


def made_row(kept: KeptRows, about: str, method: str, bits: int, settings: dict[str, Any], parts: SplitParts) -> str:
    """Return a row of the table, either kept or trained and scored now. ``about`` names the data in the row's key."""
    key = json.dumps([about, method, bits, {name: settings[name] for name in settings if name != "n_jobs"}])
    row = kept.rows.get(key)
    if row is None:
        row = _measured(kept, method, bits, settings, parts)
        kept.add(key, row)
        checkpoint = kept.checkpoint(f"{method}-{bits}")
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
    seconds = "–" if row["seconds"] is None else f"{row['seconds']:.0f}"
    figures = " | ".join(f"{row[name]:.3f}" for name in ("ranked", "near", "released"))
    return f"| {method} | {bits} | {figures} | {seconds} |"


def _measured(kept: KeptRows, method: str, bits: int, settings: dict[str, Any], parts: SplitParts) -> dict[str, Any]:
    (train, train_y), (query, query_y), (database, database_y) = parts
    checkpoint = kept.checkpoint(f"{method}-{bits}")
    # The rest of a training that was resumed does not tell how long the whole training takes.
    resumed = checkpoint is not None and checkpoint.exists()
    hasher = find_method(method)(bits, checkpoint=checkpoint, verbose=1, **settings)
    began = time.perf_counter()
    hasher.fit(train, train_y)
    seconds = None if resumed else time.perf_counter() - began
    # Our networks end before tanh; the released evaluators expect outputs after it.
    outputs = np.tanh(hasher.decision_function(query)), np.tanh(hasher.decision_function(database))
    problem = (codes.pack(outputs[0] >= 0), codes.pack(outputs[1] >= 0), query_y, database_y)
    jobs = settings.get("n_jobs")
    return {
        "ranked": metrics.mean_average_precision(*problem, at=5000, n_jobs=jobs),
        "near": metrics.map_within_radius(*problem, n_jobs=jobs).map,
        "released": metrics.map_within_radius(*problem, form="official", projections=outputs, n_jobs=jobs).map,
        "seconds": seconds,
    }


def folder_parts(folder: str, seed: int) -> SplitParts:
    """Split a folder whose sub-folders are classes by CIFAR-10's deep protocol."""
    from hashlearn.deep.stores import TreeStore, folder_classes

    if not Path(folder).is_dir():
        raise ValueError(f"{folder} is not a folder of images; unpack archives first.")
    store = TreeStore(Path(folder))
    store.close()
    names, y = np.unique(folder_classes(store.names), return_inverse=True)
    paths = np.array([str(Path(folder) / name) for name in store.names])
    pool = Pool(Path(folder).name, np.zeros((len(paths), 0)), y.astype(np.int64), tuple(map(str, names)), ids=paths)
    split = protocol("cifar10-deep").split(pool, seed)
    return tuple((paths[rows].tolist(), pool.y[rows]) for rows in (split.train, split.query, split.database))


def _settings(name: str, options: argparse.Namespace, backbone: Any) -> dict[str, Any]:
    """The settings of the method's authors, and those of the command line."""
    method = cast("type[DeepHasher]", find_method(name))
    settings = {"n_epochs": EPOCHS, **method.authors, "backbone": backbone, "random_state": options.seed}
    settings |= {"device": options.device, "n_jobs": options.jobs}
    return settings if options.epochs is None else {**settings, "n_epochs": options.epochs}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hashlearn.reproduction.table3",
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
    parser.add_argument("--keep", type=Path, help="a JSON file of finished rows")
    options = parser.parse_args(arguments)
    if (options.weights is None) == (options.backbone is None):
        parser.error("give either --weights (of AlexNet) or --backbone")
    backbone = options.backbone or {"name": "alexnet", "weights": options.weights}
    try:
        parts = folder_parts(options.images, options.seed)
        kept = KeptRows(options.keep)
        print(HEADER, flush=True)
        for bits in options.bits:
            for name in options.methods:
                settings = _settings(name, options, backbone)
                print(made_row(kept, options.images, name, bits, settings, parts), flush=True)
    except (ValueError, OSError, ImportError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; with --keep the same command goes on after the last whole epoch.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

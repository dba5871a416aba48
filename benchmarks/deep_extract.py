"""Compare the extraction of features with the bare forward pass, and the image loader with the network.

    python benchmarks/deep_extract.py                # generates 192 photographs of 500×375 pixels

Prints three ratios; the exit code is 1 if one misses its target:
- time of ``extract`` (read, decode, scale, network, .npy file) over time of the network on ready tensors, at most 1.2;
- photographs per second that the loader decodes over those that EfficientNet-Lite2 takes at 160 pixels, at least 1;
- 32×32 images per second that the loader crops and mirrors over those that the small CNN learns from, at least 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import best_of
from PIL import Image

from hashlearn.deep.backbones import build
from hashlearn.deep.extract import extract
from hashlearn.deep.images import ImageSource
from hashlearn.parallel import thread_count

BATCH = 16
SIZE = 160
MOST, LEAST = 1.2, 1.0


def photographs(folder: Path, count: int) -> None:
    """Write JPEG files with the size and detail of photographs on the web: smooth shapes with some grain."""
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.float32)
        grain = rng.normal(scale=6, size=smooth.shape)
        pixels = np.clip(smooth + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:04}.jpg", quality=88)


def plan(count: int, size: int) -> list[np.ndarray]:
    """Row numbers of the batches."""
    return np.split(np.arange(count), np.arange(size, count, size))


def loader_seconds(source: ImageSource) -> float:
    start = time.perf_counter()
    for _ in source.batches(plan(len(source), BATCH)):
        pass
    return time.perf_counter() - start


def extraction(folder: Path, count: int, repeats: int) -> tuple[float, float, float]:
    """Seconds of the plain network on ready tensors, of the folded network, and of the whole extraction."""
    made = build("efficientnet_lite2", image_size=SIZE)
    plain, folded = made.module.eval(), made.for_features()
    with ImageSource(folder, SIZE) as source:
        ready = [images for _, images in source.batches(plan(count, BATCH))]

    def forward(network: torch.nn.Module) -> None:
        with torch.inference_mode():
            for images in ready:
                network(images)

    whole = folder / "X.npy"
    times = np.full((repeats, 3), np.inf)
    # The three take turns, so that other load on the machine slows all of them.
    for repeat in range(repeats):
        times[repeat, 0] = best_of(1, lambda: forward(plain))[0]
        times[repeat, 1] = best_of(1, lambda: forward(folded))[0]
        times[repeat, 2] = best_of(1, lambda: extract(folder, made, whole, batch_size=BATCH, restart=True))[0]
    bare, folded_bare, complete = times.min(axis=0)
    return float(bare), float(folded_bare), float(complete)


def training(count: int, repeats: int) -> tuple[float, float]:
    """Seconds that the small CNN takes to learn from 32×32 images, and seconds that the loader takes to make them."""
    made = build("small_cnn")
    head = torch.nn.Linear(made.n_features, 48)
    optimizer = torch.optim.Adam([*made.module.parameters(), *head.parameters()])
    pixels = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    made.module.train()
    with ImageSource(pixels, 32, recipe=made.recipe) as source:
        ready = [images for _, images in source.batches(plan(count, 128), (0,))]

        def learn() -> None:
            for images in ready:
                optimizer.zero_grad()
                head(made.module(images)).square().mean().backward()
                optimizer.step()

        def load() -> None:
            for _ in source.batches(plan(count, 128), (0,)):
                pass

        return best_of(repeats, learn)[0], best_of(repeats, load)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    count = arguments.images
    torch.set_num_threads(thread_count(None))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photographs(folder, count)
        bare, folded, complete = extraction(folder, count, arguments.repeats)
        with ImageSource(folder, SIZE, memory=0) as source:
            loading = min(loader_seconds(source) for _ in range(arguments.repeats))
    learning, cropping = training(2048, arguments.repeats)
    print(f"network on ready tensors   {count / bare:8.1f} images/s ({count / folded:.1f} folded)")
    print(f"extraction                 {count / complete:8.1f} images/s")
    print(f"loader alone               {count / loading:8.1f} images/s")
    print(f"small CNN, training        {2048 / learning:8.1f} images/s")
    print(f"its loader alone           {2048 / cropping:8.1f} images/s")
    checks = (
        ("extraction / bare forward pass", complete / bare, complete <= MOST * bare, f"at most {MOST}"),
        ("loader / EfficientNet-Lite2", bare / loading, loading <= LEAST * bare, f"at least {LEAST:g}"),
        ("loader / small CNN", learning / cropping, cropping <= LEAST * learning, f"at least {LEAST:g}"),
    )
    for title, ratio, kept, asked in checks:
        print(f"{title:<32} {ratio:7.2f}  ({asked}) {'' if kept else 'MISSED'}")
    print(f"extraction / folded forward pass {complete / folded:7.2f}")
    return 0 if all(kept for _, _, kept, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())

import numpy as np
from numpy.typing import NDArray

def usable() -> bool: ...
def nearest(
    planes: NDArray[np.uint8],
    count: int,
    sample: NDArray[np.uint8],
    queries: NDArray[np.float32],
    entries: NDArray[np.float64],
    k: int,
    widen: float,
    places: NDArray[np.int64],
    scores: NDArray[np.float32],
    found: NDArray[np.int64],
) -> None: ...

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import Float32Array, PackedCodes

def scan(
    codes: PackedCodes,
    width: int,
    allowed: NDArray[np.uint8] | None,
    numbers: NDArray[np.uint32] | None,
    queries: PackedCodes | None,
    entries: Float32Array | None,
    words: Float32Array | None,
    starts: NDArray[np.int64] | None,
    groups: NDArray[np.int32] | None,
    limits: NDArray[np.int64],
    k: int,
) -> tuple[bytes, bytes, bytes]: ...
def runnable() -> list[str]: ...
def use(name: str) -> None: ...

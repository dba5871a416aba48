import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int32]
Floats = NDArray[np.float64]

def sums(table: Floats, at: Bits, bit: Bits, other: Bits, weight: Floats, pull: Floats, own: Floats) -> None: ...
def move(at: Bits, old: Bits, before: Bits, new: Bits, after: Bits) -> None: ...

from typing import Any

import numpy as np
from numpy.typing import NDArray

def update_batch(
    bits: NDArray[np.float32],
    kinds: NDArray[np.intp],
    columns: NDArray[np.intp],
    table: NDArray[np.float64],
    pull: NDArray[np.float64],
    gram: NDArray[np.float64],
    scale: float,
    beta: float,
    stagewise: bool,
    inner_iter: int,
    classes: bool,
) -> bool: ...
def code_rows(
    codes: NDArray[np.float32],
    group: NDArray[np.intp],
    scaled: NDArray[np.float64],
    gram: NDArray[Any],
    beta: float,
    stagewise: bool,
    max_iter: int,
) -> None: ...

"""Writes rounded.txt: numbers of binary32 and their values rounded by ml_dtypes. Usage: rounded.py (needs ml_dtypes)"""

import pathlib
import random

import ml_dtypes
import numpy as np

FORMATS = {"bf16": (ml_dtypes.bfloat16, np.uint16), "fp16": (np.float16, np.uint16),
           "fp8_e5m2": (ml_dtypes.float8_e5m2, np.uint8), "fp8_e4m3": (ml_dtypes.float8_e4m3fn, np.uint8)}  # fmt: skip


def inputs(dtype, bits):
    """Values of the format, midpoints to the next value, and the neighbours of midpoints."""
    values = np.arange(np.iinfo(bits).max // 2 + 1, dtype=bits).view(dtype).astype(np.float32)
    values = values[np.isfinite(values)].astype(float)
    chosen = range(len(values))
    if len(values) > 256:  # the first and last few values and a random sample
        chosen = sorted({0, 1, 2, 3, *random.Random(1).sample(chosen, 30), *chosen[-3:]})
    for i in chosen:
        middle = (values[i] + values[i + 1]) / 2 if i + 1 < len(values) else 1.5 * values[i] - 0.5 * values[i - 1]
        yield from (values[i], middle, *np.nextafter(np.float32(middle), np.float32([0, np.inf])))
    yield from (0.0, 1e-45, 2 * values[-1], 3.4e38, np.inf, np.nan)


np.seterr(over="ignore", invalid="ignore")
lines = []
for name, (dtype, bits) in FORMATS.items():
    for k, x in enumerate(inputs(dtype, bits)):
        x = np.float32(-x if k % 3 == 1 else x)
        lines.append(f"{name} {float(x)!r} {float(x.astype(dtype).astype(np.float32))!r}\n")
(pathlib.Path(__file__).parent / "rounded.txt").write_text("".join(lines))

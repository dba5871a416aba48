"""Encode a Spark data frame with a fitted model. mapInArrow calls a function that takes and returns Arrow batches.

    pip install pyspark pyarrow
    python encode_on_spark.py model.hl rows.parquet vector codes.parquet

Spark sends the model file to every executor. Codes are a binary column; bit 0 is the highest bit of the first byte.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType


def encoder(model: str, column: str):
    """Return a function that encodes Arrow batches. It loads the model once per task."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import hashlearn as hl

        hasher = hl.load(SparkFiles.get(model))
        hasher.n_jobs = 1
        for batch in batches:
            vectors = batch.column(column)
            rows = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
            packed = hasher.encode(np.asarray(rows, dtype=np.float32))
            codes = pa.array([row.tobytes() for row in packed], type=pa.binary())
            yield pa.RecordBatch.from_arrays([*batch.columns, codes], names=[*batch.schema.names, "code"])

    return encode


def main() -> None:
    model, source, column, target = sys.argv[1:]
    # Local executors use this Python. On a cluster, set PYSPARK_PYTHON to the Python that has hashlearn.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("hashlearn encode").getOrCreate()
    spark.sparkContext.addFile(model)
    rows = spark.read.parquet(source)
    schema = StructType([*rows.schema.fields, StructField("code", BinaryType())])
    rows.mapInArrow(encoder(model.rsplit("/", 1)[-1], column), schema).write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main()

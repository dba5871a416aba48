"""Fit and encode on a Dask cluster: on this machine, SLURM, Kubernetes or Coiled.

    python fit_on_dask.py 'shards/x*.npy' 'shards/y*.npy' --output model.hl --codes codes
    python fit_on_dask.py … --cluster tcp://scheduler:8786        a cluster that runs already
    python fit_on_dask.py … --slurm 8                             eight SLURM jobs (pip install dask-jobqueue)
    python fit_on_dask.py … --kubernetes 8                        eight pods (pip install dask-kubernetes)
    python fit_on_dask.py … --coiled 8                            eight machines (pip install coiled)

Workers read the files themselves, so the files must have the same names on every worker, on a shared file system or in
an image. All bits of the codes agree only if all workers have the same hashlearn, NumPy and processor family.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

import dask
from distributed import Client, LocalCluster

import hashlearn as hl


def cluster_of(options: argparse.Namespace) -> Any:
    """The cluster that the options choose. Each worker process has one thread, because BLAS has one thread in each."""
    if options.slurm:
        from dask_jobqueue import SLURMCluster

        cluster = SLURMCluster(cores=16, processes=16, memory="32GB", walltime="02:00:00")
        cluster.scale(jobs=options.slurm)
        return cluster
    if options.kubernetes:
        from dask_kubernetes.operator import KubeCluster

        resources = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
        return KubeCluster(name="hashlearn", image=options.image, n_workers=options.kubernetes, resources=resources)
    if options.coiled:
        import coiled

        return coiled.Cluster(n_workers=options.coiled, worker_options={"nthreads": 1})
    return LocalCluster(threads_per_worker=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="files with rows, or a pattern of them")
    parser.add_argument("labels", help="files with labels, or a pattern of them")
    parser.add_argument("--output", default="model.hl")
    parser.add_argument("--codes", default=None, help="a folder for the codes; without it, rows are not encoded")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--checkpoint", default="fit-checkpoint")
    parser.add_argument("--cluster", default=None)
    parser.add_argument("--slurm", type=int, default=0)
    parser.add_argument("--kubernetes", type=int, default=0)
    parser.add_argument("--coiled", type=int, default=0)
    parser.add_argument(
        "--image", default="ghcr.io/dask/dask:latest", help="image of the pods, which must contain hashlearn"
    )
    options = parser.parse_args()
    # This setting reaches workers that are started here. Workers that run already need the same environment variables.
    dask.config.set({"distributed.nanny.pre-spawn-environ": hl.rows.WORKER_ENVIRONMENT})
    with ExitStack() as stack:
        cluster = options.cluster or stack.enter_context(cluster_of(options))
        client = stack.enter_context(Client(cluster))
        client.wait_for_workers(1)
        hasher = hl.GSDHP(options.bits, random_state=0, verbose=1)
        hasher.fit_chunks(options.rows, options.labels, executor=client, checkpoint=options.checkpoint, codes=False)
        hl.save(hasher, options.output)
        print({phase: round(seconds, 2) for phase, seconds in hasher.seconds_.items()})
        if options.codes:
            print(f"{len(hasher.encode_chunks(options.rows, options.codes, executor=client))} code files")


if __name__ == "__main__":
    main()

"""Processes and a real Dask cluster of two of them: the same answer by every method, also when a worker is killed."""

import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import distributed
import numpy as np
import pytest
from chunk_data import Chunks, assert_same, hasher, rows_and_classes, shards
from distributed.scheduler import KilledWorker
from small_methods import SETTINGS

import hashlearn as hl
from hashlearn.pairwise import gsdhp as pairwise
from hashlearn.rows import WorkersLost
from hashlearn.rows.reduce import _run_on_cluster

CHUNKED = ["auto", "open"] + [name for name, method in hl.methods.METHODS.items() if method.info.passes]
FEW_ROWS = 2300

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_ranges")]


@pytest.fixture(scope="module")
def client():
    import dask

    patient = {"distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


def few_rows():
    """Some of them without labels, and more than one block in every pass."""
    X, y = rows_and_classes(FEW_ROWS)
    return X, np.where(np.arange(FEW_ROWS) % 9 == 0, np.nan, y)


@pytest.fixture(scope="module")
def few_files(tmp_path_factory):
    return shards(tmp_path_factory.mktemp("few"), *few_rows(), [700, 1500], [1000])


def small_fit(name):
    method = hl.methods.find_method(name)
    known = method().get_params()
    settings = {**SETTINGS, "n_bits": 16 if name == "open" else 12, "max_iter": 3, "n_partners": 10}
    return method(**{key: value for key, value in settings.items() if key in known})


@cache
def fitted_in_memory(name):
    X, y = few_rows()
    return small_fit(name).fit(X, y)


@pytest.mark.parametrize("name", CHUNKED)
def test_every_method_on_processes(name, pool, few_files):
    X, y = few_files
    assert_same(fitted_in_memory(name), small_fit(name).fit_chunks(X, y, executor=pool))


@pytest.mark.parametrize("name", CHUNKED)
def test_every_method_on_the_cluster(name, client, few_files):
    X, y = few_files
    assert_same(fitted_in_memory(name), small_fit(name).fit_chunks(X, y, executor=client))


def test_files(client, data, in_memory, tmp_path):
    X, y = shards(tmp_path, *data, [2500, 5000], [3000])
    assert_same(in_memory, hasher().fit_chunks(X, y, executor=client))


def test_the_executor_of_a_client_and_a_stream(client, data, in_memory):
    assert_same(in_memory, hasher().fit_chunks(Chunks(*data, 1500), executor=client.get_executor()))


def test_dask_arrays_lazy_and_kept_on_the_cluster(client, data, in_memory):
    import dask.array as da

    X, y = (da.from_array(part, chunks=1100) for part in data)
    assert_same(in_memory, hasher().fit_chunks(X, y, executor=client))
    assert_same(in_memory, hasher().fit_chunks(client.persist(X), client.persist(y), executor=client))


def test_an_error_in_a_worker_names_the_row(client, data, tmp_path):
    X = data[0].copy()
    X[6500, 3] = np.nan
    names = shards(tmp_path, X, data[1], [3000], [100])
    with pytest.raises(ValueError, match=r"row 6500 \(row 3500 of .*x-001\.npy\) holds NaN"):
        hasher().fit_chunks(*names, executor=client)


def test_a_killed_worker_changes_nothing(client, data, in_memory, tmp_path, monkeypatch):
    """Tasks wait for a file that appears only after one of the workers has been killed in the midst of them."""
    client.wait_for_workers(2, timeout=120)
    gate = tmp_path / "gate"

    def gated(plan, rows):
        from hashlearn.pairwise.row_pass import code_rows

        (tmp_path / f"started-{os.getpid()}").touch()
        while not gate.exists():
            time.sleep(0.02)
        return code_rows(plan, rows)

    monkeypatch.setattr(pairwise, "code_rows", gated)
    victims: list[int] = []

    def kill() -> None:
        while not (started := list(tmp_path.glob("started-*"))):
            time.sleep(0.05)
        victims.append(int(started[0].name.removeprefix("started-")))
        os.kill(victims[0], signal.SIGKILL)
        gate.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    X, y = shards(tmp_path, *data, [2500, 5000], [3000])
    fitted = hasher().fit_chunks(X, y, executor=client)
    killer.join()
    assert victims
    assert_same(in_memory, fitted)


class LosingClient:
    """A client whose workers go away: the first tasks are cancelled, or every worker that takes them dies."""

    def __init__(self, losses, error):
        self.losses, self.error, self.scattered = losses, error, 0

    def scatter(self, shared, **options):
        self.scattered += 1
        return shared

    def nthreads(self):
        return {"one": 1}

    def submit(self, function, *args, **options):
        future = Future()
        if self.losses and args[-1] >= 3:
            self.losses -= 1
            future.set_exception(self.error)
        else:
            future.set_result(function(*args))
        return future


def add(shared, task):
    return shared + task


def test_what_was_sent_and_lost_is_sent_again():
    client = LosingClient(2, CancelledError())
    assert list(_run_on_cluster(client, add, 10, range(8))) == [10 + k for k in range(8)]
    assert client.scattered > 1


def test_workers_that_keep_dying_are_given_up():
    with pytest.raises(WorkersLost, match="again and again"):
        list(_run_on_cluster(LosingClient(10**6, CancelledError()), add, 10, range(8)))
    killed = KilledWorker("task", None, 4)
    with pytest.raises(WorkersLost, match="took several workers down"):
        list(_run_on_cluster(LosingClient(1, killed), add, 10, range(8)))

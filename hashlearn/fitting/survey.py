"""The first pass over rows in chunks: how many there are, their moments, label sets, and the rows that a fit draws.

Drawn rows have the lowest random keys (see ``rowkeys``), for anchors the lowest of their group. Which ones those are is
known only at the end, so every task keeps candidates: of n rows seen so far a draw of p can hold hardly more than
p / n of any part. What is discarded is remembered by its lowest key; should that ever matter, the pass is made again
with more candidates, and the draw is always the one that a sort of all rows would have made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.fitting.grouping import Collision, FoundSets, KnownGroups, KnownSets, LabelReader
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import AnySource, Cut, Stream, stack
from hashlearn.labels import check_variety
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.progress import report
from hashlearn.typing import IntArray

Keys = NDArray[np.uint64]
CUT_BLOCKS = 16
CUT_BYTES = 32 * 2**20
SLACK = 24
_TOP = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Plan:
    """What a survey looks for; ``features`` sums up blocks with ``moments``."""

    features: Any
    width: int
    labels: LabelReader | None = None
    anchors: int = 0
    anchor_seed: int = 0
    landmarks: int = 0
    landmark_seed: int = 0
    carry: bool = True
    slack: int = SLACK


@dataclass
class Drawn:
    """Candidates of a draw: their keys and rows, and the rows' features where they are carried along."""

    key: Keys
    row: NDArray[np.int64]
    features: list[Any]
    below: Keys
    """Candidates are complete below this key; for anchors, one a label set."""
    identity: NDArray[Any] | None = None

    def kept(self, places: IntArray) -> Drawn:
        features = [stack(self.features)[places]] if self.features else []
        identity = None if self.identity is None else self.identity[places]
        return Drawn(self.key[places], self.row[places], features, self.below, identity)

    def joined(self, other: Drawn, below: Keys) -> Drawn:
        identity = None
        if self.identity is not None and other.identity is not None:
            parts = [part for part in (self.identity, other.identity) if len(part)]
            # Nothing has no type: beside it, numbers would become floats.
            identity = np.concatenate(parts) if parts else self.identity
        return Drawn(
            np.concatenate([self.key, other.key]),
            np.concatenate([self.row, other.row]),
            [block for block in (*self.features, *other.features) if block.shape[0]],
            below,
            identity,
        )


@dataclass
class Seen:
    """What one task hands back; ``sums`` has a line a block, so that they add up in one order whoever adds them."""

    start: int
    stop: int
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    landmarks: Drawn
    found: FoundSets | None = None
    anchors: Drawn | None = None


@dataclass
class Survey:
    """What the first pass leaves."""

    n_rows: int
    total: NDArray[np.float64]
    squares: float
    landmark_rows: Any
    known: KnownSets | None = None
    groups: KnownGroups | None = None
    anchors: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_groups: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_rows: Any = None
    n_unlabelled: int = 0


def carries(source: AnySource) -> bool:
    """Whether tasks hand back the rows they may draw: where reading single rows is dear, or rows are few."""
    return not source.cheap or (source.n_rows or 0) <= CUT_BLOCKS * BLOCK_ROWS


def survey(source: AnySource, plan: Plan, job: Job) -> Survey:
    """The pass; again with other settings in the rare cases where its shortcuts were too short."""
    for attempt in range(8):
        progress = job.checkpoint.load(f"survey-{attempt}")
        running = Running.of_state(plan, progress) if progress else Running(plan)
        try:
            with job.checkpoint.saving(f"survey-{attempt}", running.state) as save:
                for seen in job.run(look, plan, _tasks(source, running)):
                    running.add(seen)
                    save()
                    report("look at rows", running.stop, source.n_rows or running.stop)
            return running.finish(source)
        except Collision:
            assert plan.labels is not None
            reader = LabelReader(plan.labels.unlabeled, plan.labels.seed + 1)
            plan = Plan(**{**plan.__dict__, "labels": reader})
        except rowkeys.Incomplete:
            plan = Plan(**{**plan.__dict__, "slack": 8 * plan.slack})
    raise RuntimeError("The first pass over the rows failed eight times; this should not happen, please report it.")


def _tasks(source: AnySource, running: Running) -> Iterator[tuple[Cut, int]]:
    """Cuts of the rows not seen yet, each with the labelled rows that are counted already when it is handed out."""
    blocks = CUT_BLOCKS
    if isinstance(source, Stream):
        # These rows are in memory here while they wait.
        blocks = int(np.clip(CUT_BYTES // (4 * running.plan.width * BLOCK_ROWS), 1, CUT_BLOCKS))
    elif source.n_rows < 2 * blocks * BLOCK_ROWS:
        # Two tasks at least: with one, all other cores would wait for it.
        blocks = -(-source.n_rows // (2 * BLOCK_ROWS))
    for cut in source.cuts(blocks * BLOCK_ROWS, running.stop):
        yield cut, running.labelled


def look(plan: Plan, task: tuple[Cut, int]) -> Seen:
    """One task: moments of each block, label sets, and candidates for the draws."""
    cut, labelled_before = task
    count = cut.stop - cut.start
    keep = np.zeros(count, dtype=bool)
    landmark_keys = rowkeys.row_keys(plan.landmark_seed, rowkeys.LANDMARKS, cut.start, cut.stop)
    limit = rowkeys.limit(plan.landmarks, cut.stop, plan.slack)
    landmark_places = np.flatnonzero(landmark_keys <= limit) if plan.landmarks else np.empty(0, dtype=np.intp)
    keep[landmark_places] = True
    found = anchors = None
    if plan.labels is not None:
        labels = cut.read_labels(cut.start, cut.stop)
        found = plan.labels.found(labels, cut.start)
        anchors, places = _anchor_candidates(plan, cut, found, labelled_before)
        keep[places] = True
    blocks, sums, squares = [], [], []
    for start in range(cut.start, cut.stop, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, cut.stop)
        rows = cut.checked(start, stop, plan.width)
        total, square = plan.features.moments(rows)
        sums.append(total)
        squares.append(square)
        wanted = np.flatnonzero(keep[start - cut.start : stop - cut.start])
        if plan.carry and len(wanted):
            blocks.append(rows[wanted])
    landmarks = Drawn(landmark_keys[landmark_places], landmark_places + cut.start, [], np.array([limit]))
    if plan.carry and blocks:
        carried, place = stack(blocks), np.cumsum(keep) - 1
        landmarks.features = [carried[place[landmark_places]]]
        if anchors is not None:
            anchors.features = [carried[place[places]]]
    if found is not None:
        found.place = np.empty(0, dtype=np.intp)  # a number a row that nobody needs any more
    return Seen(cut.start, cut.stop, np.array(sums), np.array(squares), landmarks, found, anchors)


def _anchor_candidates(plan: Plan, cut: Cut, found: FoundSets, before: int) -> tuple[Drawn, IntArray]:
    keys = rowkeys.row_keys(plan.anchor_seed, rowkeys.ANCHORS, cut.start, cut.stop)
    labelled = np.flatnonzero(found.place >= 0)
    order = labelled[np.lexsort((keys[labelled], found.place[labelled]))]
    # Labelled rows up to here: those counted for sure, or what this cut's own share of labels makes likely.
    likely = cut.stop * len(labelled) / (cut.stop - cut.start) / 8
    seen = max(before + len(labelled), int(likely), 1)
    kept, below = _lowest_of_groups(found.place[order], keys[order], found.count, plan.anchors, seen, plan.slack)
    places = order[kept]
    identity = found.identity[found.place[places]]
    return Drawn(keys[places], places + cut.start, [], below, identity), places


def _lowest_of_groups(
    group: IntArray, keys: Keys, counts: NDArray[np.int64], draw: int, seen: int, slack: int
) -> tuple[IntArray, Keys]:
    """Of candidates sorted by group and key: places of those worth keeping, and the lowest key discarded a group."""
    expected = counts * (draw / seen) * (slack / SLACK)
    most = expected + 8 * np.sqrt(expected) + slack
    first = np.searchsorted(group, np.arange(len(counts)))
    rank = np.arange(len(group)) - first[group]
    share = min(1.0, slack * draw / seen)
    limit = _TOP if share >= 1 else np.uint64(share * 2.0**64)
    # A common set gives its lowest keys by its share; a rare one gives a row only if its key is low among all rows'.
    keep = (rank < most[group]) & (keys <= limit)
    below = np.full(len(counts), _TOP)
    np.minimum.at(below, group[~keep], keys[~keep])
    return np.flatnonzero(keep), below


class Running:
    """A survey under way, over all rows before ``stop``."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.stop = plan, 0
        self.total, self.squares = np.zeros(plan.width), 0.0
        self.landmarks = _nobody(None)
        self.known = self.anchors = None
        if plan.labels is not None:
            self.known, self.anchors = KnownSets(), _nobody(np.empty(0, dtype=np.uint64))
        self.labelled = 0
        self._room = 0

    def add(self, seen: Seen) -> None:
        self.stop = seen.stop
        for total, square in zip(seen.sums, seen.squares, strict=True):
            self.total += total
            self.squares += float(square)
        self.landmarks = self.landmarks.joined(seen.landmarks, np.minimum(self.landmarks.below, seen.landmarks.below))
        if self.known is not None and self.anchors is not None and seen.found is not None and seen.anchors is not None:
            before = self.known.identity
            below = self.anchors.below
            self.known.add(seen.found)
            self.labelled += int(seen.found.count.sum())
            merged = np.full(len(self.known.identity), _TOP)
            if len(before):
                merged[self.known.places(before)] = below
            if len(seen.found.identity):
                np.minimum.at(merged, self.known.places(seen.found.identity), seen.anchors.below)
            self.anchors = self.anchors.joined(seen.anchors, merged)
        if len(self.landmarks.key) + (0 if self.anchors is None else len(self.anchors.key)) > self._room:
            self._prune()

    def _prune(self) -> None:
        plan = self.plan
        self.landmarks = self.landmarks.kept(rowkeys.lowest(self.landmarks.key, plan.landmarks))
        held = len(self.landmarks.key)
        if self.anchors is not None and self.known is not None and len(self.known.identity):
            assert self.anchors.identity is not None
            group = self.known.places(self.anchors.identity)
            order = np.lexsort((self.anchors.key, group))
            kept, below = _lowest_of_groups(
                group[order], self.anchors.key[order], self.known.count, plan.anchors, self.labelled, plan.slack
            )
            self.anchors = self.anchors.kept(order[kept])
            self.anchors.below = np.minimum(self.anchors.below, below)
            held += len(self.anchors.key)
        self._room = 2 * held + 4096

    def finish(self, source: AnySource) -> Survey:
        plan = self.plan
        if self.stop < 2:
            raise ValueError(f"At least 2 rows are needed. Got {self.stop}.")
        places = rowkeys.lowest(self.landmarks.key, plan.landmarks)
        chosen = self.landmarks.kept(places)
        if len(places) < min(plan.landmarks, self.stop) or np.any(chosen.key > self.landmarks.below):
            raise rowkeys.Incomplete
        result = Survey(self.stop, self.total, self.squares, self._rows(chosen, source))
        if self.known is None or self.anchors is None or plan.labels is None:
            return result
        check_variety(len(self.known.identity))
        result.known, result.groups = self.known, KnownGroups(plan.labels, self.known)
        result.n_unlabelled = self.stop - self.labelled
        # In group numbers rather than places, because ties between groups are decided by their order.
        assert self.anchors.identity is not None
        numbers = self.known.numbers()
        by_number = np.argsort(numbers)
        group = numbers[self.known.places(self.anchors.identity)]
        order = np.lexsort((self.anchors.key, group))
        picked = order[
            rowkeys.choose_evenly(
                group[order],
                self.anchors.key[order],
                self.known.count[by_number],
                plan.anchors,
                self.anchors.below[by_number],
            )
        ]
        picked = picked[np.argsort(self.anchors.row[picked])]
        drawn = self.anchors.kept(picked)
        result.anchors, result.anchor_groups = drawn.row.astype(np.intp), group[picked].astype(np.intp)
        result.anchor_rows = self._rows(drawn, source)
        return result

    def _rows(self, drawn: Drawn, source: AnySource) -> Any:
        if not len(drawn.row):
            return None
        return stack(drawn.features) if self.plan.carry else source.take(drawn.row)  # type: ignore[union-attr]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as plain arrays, for a checkpoint."""
        arrays = {"stop": np.array(self.stop), "total": self.total, "squares": np.array(self.squares)}
        arrays |= {f"landmarks.{name}": value for name, value in _drawn_state(self.landmarks).items()}
        if self.known is not None and self.anchors is not None:
            arrays |= {f"known.{name}": value for name, value in self.known.state().items()}
            arrays |= {f"anchors.{name}": value for name, value in _drawn_state(self.anchors).items()}
            arrays["labelled"] = np.array(self.labelled)
        return arrays

    @classmethod
    def of_state(cls, plan: Plan, state: dict[str, NDArray[Any]]) -> Running:
        running = cls(plan)
        running.stop, running.total, running.squares = int(state["stop"]), state["total"], float(state["squares"])
        running.landmarks = _drawn_of(_under(state, "landmarks."))
        if plan.labels is not None:
            running.known = KnownSets.of_state(_under(state, "known."))
            running.anchors = _drawn_of(_under(state, "anchors."))
            running.labelled = int(state["labelled"])
        return running


def _under(state: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _nobody(identity: NDArray[Any] | None) -> Drawn:
    below = np.array([_TOP]) if identity is None else np.empty(0, dtype=np.uint64)
    return Drawn(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), [], below, identity)


def _drawn_state(drawn: Drawn) -> dict[str, NDArray[Any]]:
    arrays = {"key": drawn.key, "row": drawn.row, "below": drawn.below}
    if drawn.identity is not None:
        arrays["identity"] = drawn.identity
    if drawn.features:
        rows = stack(drawn.features)
        if sparse.issparse(rows):
            arrays |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
        else:
            arrays["rows"] = np.asarray(rows)
    return arrays


def _drawn_of(state: dict[str, NDArray[Any]]) -> Drawn:
    features: list[Any] = []
    if "rows" in state:
        features = [state["rows"]]
    elif "data" in state:
        features = [sparse.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=tuple(state["shape"]))]
    return Drawn(state["key"], state["row"], features, state["below"], state.get("identity"))

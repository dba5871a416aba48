"""Plans of runs: methods with their settings, bit lengths, seeds and a protocol, from options or from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hashlearn.codes import MAX_BITS
from hashlearn.data.own import DataSource
from hashlearn.data.protocols import PROTOCOLS
from hashlearn.methods import make_hasher, method_names
from hashlearn.parameters import check_parameters

FIRST_PROTOCOL = "mixed"
"""The protocol of ``bench run`` if none is named: a database of known classes and of classes without labels."""
# The data set that each protocol was made for. Other protocols take any data set, so a plan must name one.
USUAL_DATA = {
    "cifar10-1k": "cifar10-gist",
    "cifar10-full": "cifar10-gist",
    "cifar10-fig1": "cifar10-gist",
    "cifar10-deep": "cifar10-lite2",
    "label-sets-deep": "coco18",
    "nuswide-10k": "nuswide",
    "nuswide-full": "nuswide",
    "coco-10k": "coco",
    "coco-full": "coco",
}
_WORDS = ("data", "labels", "text", "embed", "protocol")
_LISTS: dict[str, type] = {"methods": str, "bits": int, "seeds": int}
# The plan sets these parameters, so a variant must not set them too.
_OF_THE_PLAN = {"n_bits": "bits", "random_state": "seeds", "n_jobs": "--threads", "verbose": "the progress bar"}


class PlanError(ValueError):
    """A plan is invalid; the message is one sentence. The command line ends with ``exit_code``, which means bad use."""

    exit_code = 2


@dataclass(frozen=True)
class Variant:
    """A method under a given name, with the settings that differ from its defaults."""

    label: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in method_names():
            raise PlanError(f"The method must be one of {', '.join(method_names())}. Got {self.method!r} instead.")
        for name in self.settings:
            if name in _OF_THE_PLAN:
                raise PlanError(f"{name} of {self.label} is set by {_OF_THE_PLAN[name]} and cannot be set again.")
        try:
            hasher = make_hasher(self.method, self.settings)
            check_parameters(hasher)
        except (TypeError, ValueError) as error:
            raise PlanError(f"{self.label}: {error}") from error
        if not hasattr(hasher, "encode_queries"):
            raise PlanError(
                f"{self.label} has codes that are searched by tables, not by Hamming distance: "
                "'hashlearn bench frontier' measures it."
            )


@dataclass(frozen=True)
class BenchPlan:
    """A plan: every variant at every bit length, for every seed of a protocol on a data set.

    Parameters
    ----------
    data : str
        A name from ``hashlearn.data.DATA_SETS``, or a file of features or texts.
    protocol : str
        A name from ``hashlearn.data.PROTOCOLS``.
    variants : tuple of Variant
    bits, seeds : tuple of int
    labels, text, embed : str, optional
        The labels of a file, its column of texts and the model that embeds them; see ``hashlearn.data.own.DataSource``.

    Raises
    ------
    PlanError
        If a name is unknown or a number is out of range.

    Examples
    --------
    >>> plan = BenchPlan("digits", "holdout", (Variant("itq", "itq"),), bits=(8, 16), seeds=(0, 1, 2))
    >>> plan.size
    6
    """

    data: str
    protocol: str
    variants: tuple[Variant, ...]
    bits: tuple[int, ...] = (16, 32, 64)
    seeds: tuple[int, ...] = (0,)
    labels: str | None = None
    text: str | None = None
    embed: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise PlanError(f"The protocol must be one of {', '.join(PROTOCOLS)}. Got {self.protocol!r} instead.")
        try:
            self.source  # noqa: B018 (making it checks it)
        except ValueError as error:
            raise PlanError(str(error)) from error
        if not self.variants:
            raise PlanError("A plan needs at least one method.")
        labels = [variant.label for variant in self.variants]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise PlanError(f"The name {twice[0]!r} stands for two methods of the plan; give one another name.")
        if not self.bits or not self.seeds:
            raise PlanError("A plan needs at least one bit length and one seed.")
        for bits in self.bits:
            if not 1 <= bits <= MAX_BITS:
                raise PlanError(f"Bits must be between 1 and {MAX_BITS}. Got {bits} instead.")

    @property
    def source(self) -> DataSource:
        """Where the rows come from."""
        return DataSource(self.data, self.labels, self.text, self.embed)

    @property
    def size(self) -> int:
        """Number of runs per split of the protocol."""
        return len(self.variants) * len(self.bits) * len(self.seeds)


def make_plan(
    protocol: str = FIRST_PROTOCOL,
    methods: Sequence[str] = (),
    bits: Sequence[int] = BenchPlan.bits,
    seeds: int | Sequence[int] = 1,
    data: str | None = None,
    variants: Sequence[Variant] = (),
    **of_a_file: str,
) -> BenchPlan:
    """Make a plan of methods with their default parameters, and of variants.

    With a number of seeds they are 0, 1, 2, and so on. ``labels``, ``text`` and ``embed`` are those of ``BenchPlan``.
    """
    data = data or USUAL_DATA.get(protocol)
    if protocol in PROTOCOLS and data is None:
        raise PlanError(f"The protocol {protocol} takes any data set: name one, for example digits.")
    if isinstance(seeds, int) and seeds < 1:
        raise PlanError(f"The number of seeds must be at least 1. Got {seeds} instead.")
    chosen: Sequence[int] = range(seeds) if isinstance(seeds, int) else seeds
    if any(seed < 0 for seed in chosen):
        raise PlanError(f"Seeds must not be negative. Got {min(chosen)} instead.")
    plain = tuple(Variant(name, name) for name in dict.fromkeys(methods))
    lengths, draws = tuple(dict.fromkeys(bits)), tuple(dict.fromkeys(chosen))
    return BenchPlan(data or "", protocol, (*plain, *variants), lengths, draws, **of_a_file)


def read_plan(path: str | Path) -> BenchPlan:
    """Read the plan in a TOML file. Raises a PlanError if the file cannot be read or the plan is invalid.

    ::

        protocol = "cifar10-1k"
        data = "mine.parquet"           # a data set or a file; may be left out where the protocol has its own
        labels = "topic"                # of a file: a column or array of it, or another file
        bits = [16, 64]
        seeds = 3                       # 0, 1, 2; or a list
        methods = ["gsdhp", "ksh"]      # at their defaults
        [variant.gsdhp-hinge]           # under another name, with settings
        method = "gsdhp"
        loss = "hinge"
    """
    path = Path(path)
    try:
        return _plan_from_table(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} is not TOML: {error}.") from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def _plan_from_table(table: dict[str, Any]) -> BenchPlan:
    variants = table.pop("variant", {})
    if not isinstance(variants, dict):
        raise PlanError("Variants are tables, [variant.NAME], with method = and settings in them.")
    for name, value in table.items():
        if name in _LISTS:
            words = "names" if _LISTS[name] is str else "whole numbers"
            good = isinstance(value, list) and all(_is_a(one, _LISTS[name]) for one in value)
            if not good and not (name == "seeds" and _is_a(value, int)):
                raise PlanError(f"{name} must be a list of {words}. Got {value!r} instead.")
        elif name not in _WORDS:
            raise PlanError(f"A plan has no field {name!r}; it has {', '.join((*_WORDS, *_LISTS, 'variant'))}.")
        elif not isinstance(value, str):
            raise PlanError(f"{name} must be a name. Got {value!r} instead.")
    return make_plan(variants=[_variant(*item) for item in variants.items()], **table)


def _variant(label: str, fields: Any) -> Variant:
    if not isinstance(fields, dict) or not isinstance(fields.get("method"), str):
        raise PlanError(f"The table [variant.{label}] needs method = one of {', '.join(method_names())}.")
    return Variant(label, fields["method"], {name: value for name, value in fields.items() if name != "method"})


def _is_a(value: Any, kind: type) -> bool:
    # Python takes True for a whole number; in a plan it is a mistake.
    return isinstance(value, kind) and not isinstance(value, bool)


def spread_lists(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Repeat an option before each of its values.

    >>> spread_lists(["--bits", "16", "64", "-o", "out"], {"--bits"})
    ['--bits', '16', '--bits', '64', '-o', 'out']
    """
    spread: list[str] = []
    option = None
    for word in words:
        if word.startswith("-"):
            option = word if word in options else None
            if option is None:
                spread.append(word)
        else:
            spread += [word] if option is None else [option, word]
    # An option without a value is put at the end, so that the parser reports that its value is missing.
    return spread + [word for word in words if word in options and word not in spread]


def plan_from_options(plan_file: str | None, options: dict[str, Any]) -> BenchPlan:
    """Return the plan of a file or of options by their command-line names; raise PlanError if both are given."""
    given = {name: value for name, value in options.items() if value}
    if plan_file is not None:
        if given:
            raise PlanError(f"{next(iter(given))} and a plan file contradict each other: give one of them.")
        return read_plan(plan_file)
    if "--methods" not in given:
        raise PlanError("Give a plan file, or --methods.")
    return make_plan(**{name.removeprefix("--"): value for name, value in given.items()})

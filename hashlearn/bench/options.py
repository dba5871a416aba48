"""From the words of a command line to plans and measures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hashlearn.bench.plan import BenchPlan, PlanError, make_plan, read_plan
from hashlearn.bench.scoring import NAMES, Measures


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
    # An option that was left without a value goes to the end, where the parser misses its value and says so.
    return spread + [word for word in words if word in options and word not in spread]


def plan_of(plan_file: str | None, options: dict[str, Any]) -> BenchPlan:
    """The plan of a file, or of options by their names on the command line; not of both."""
    given = [name for name, value in options.items() if value]
    if plan_file is not None:
        if given:
            raise PlanError(f"{given[0]} and a plan file contradict each other: the plan says it all.")
        return read_plan(plan_file)
    if not options["--protocol"] or not options["--methods"]:
        raise PlanError("Give a plan file, or --protocol and --methods.")
    bits, seeds = options["--bits"] or BenchPlan.bits, options["--seeds"] or 1
    return make_plan(options["--protocol"], options["--methods"], bits, seeds, options["--data-set"])


def measures_of(**fields: Any) -> Measures:
    """Measures by the names of their options; a cut-off of 0 is the whole database."""
    try:
        return Measures(**(fields | {"at": fields.get("at") or None}))
    except ValueError as error:
        raise PlanError(str(error)) from error


def score_of(name: str | None) -> str | None:
    """The name of a score, or None for the usual one."""
    if name is not None and name not in NAMES:
        raise PlanError(f"The score must be one of {', '.join(NAMES)}. Got {name!r} instead.")
    return name

"""Convert the options of a command line to plans and measures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hashlearn.bench.plan import FIRST_PROTOCOL, BenchPlan, PlanError, make_plan, read_plan
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
    # An option without a value is put at the end, so that the parser reports that its value is missing.
    return spread + [word for word in words if word in options and word not in spread]


def plan_of(plan_file: str | None, options: dict[str, Any]) -> BenchPlan:
    """The plan from a file, or from options (by their names on the command line); PlanError if both are given."""
    given = [name for name, value in options.items() if value]
    if plan_file is not None:
        if given:
            raise PlanError(f"{given[0]} and a plan file contradict each other: give one of them.")
        return read_plan(plan_file)
    if not options["--methods"]:
        raise PlanError("Give a plan file, or --methods.")
    bits, seeds = options["--bits"] or BenchPlan.bits, options["--seeds"] or 1
    own = {name: options[f"--{name}"] for name in ("labels", "text", "embed")}
    return make_plan(
        options["--protocol"] or FIRST_PROTOCOL, options["--methods"], bits, seeds, options["--data"], **own
    )


def measures_of(**fields: Any) -> Measures:
    """Measures from the values of their options. A cut-off of 0 means the whole database."""
    try:
        return Measures(**(fields | {"at": fields.get("at") or None}))
    except ValueError as error:
        raise PlanError(str(error)) from error


def score_of(name: str | None) -> str | None:
    """Check the name of a score. None stands for the usual score."""
    if name is not None and name not in NAMES:
        raise PlanError(f"The score must be one of {', '.join(NAMES)}. Got {name!r} instead.")
    return name

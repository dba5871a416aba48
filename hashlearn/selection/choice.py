"""The rule that chooses between candidates, and the sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hashlearn.selection.candidates import Candidate
from hashlearn.selection.trial import Result

MARGIN = 0.75
"""Share of ``unknown_cost`` that is spent: scores are estimates, and on new rows the loss may be a little larger."""


@dataclass(frozen=True)
class Choice:
    """The chosen candidate and the reason."""

    candidate: Candidate
    reason: str


def choose(results: Sequence[Result], unknown_cost: float, score_name: str) -> Choice:
    """Choose the best candidate on unknown classes among those that lose little on known classes.

    Without unknown classes the best one on known classes is chosen. The first of equal ones wins.
    """
    tried = [result for result in results if result.scores]
    if not tried:
        why = {"no time": "There was no time to try any candidate", "few rows": "There are too few rows to compare"}
        return Choice(results[0].candidate, f"{why[results[0].not_tried]}, so this is the usual division.")
    best = max(tried, key=lambda result: result.mean("known"))
    if "unknown" not in best.scores:
        return Choice(best.candidate, f"It has the highest {score_name} ({_shown(best.mean('known'))}).")
    floor = best.mean("known") - MARGIN * unknown_cost
    chosen = max((one for one in tried if one.mean("known") >= floor), key=lambda result: result.mean("unknown"))
    if chosen is best:
        reason = (
            f"It has the highest {score_name} on known classes ({_shown(best.mean('known'))}), and no candidate within "
            f"{MARGIN * unknown_cost:.4g} of it is better on unknown classes."
        )
    else:
        reason = (
            f"It is best on unknown classes ({_shown(chosen.mean('unknown'))}) among the candidates that lose at most "
            f"{MARGIN * unknown_cost:.4g} of the highest {score_name} on known classes ({_shown(best.mean('known'))})."
        )
    return Choice(chosen.candidate, reason)


def _shown(value: float) -> str:
    return f"{value:.3f}"

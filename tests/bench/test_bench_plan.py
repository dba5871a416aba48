"""Plans: what a TOML file may say, and one sentence for what it may not."""

from pathlib import Path

import pytest

from hashlearn.bench import PlanError, read_plan

GOOD = """
protocol = "holdout"
data = "digits"
bits = [8, 16]
seeds = [4, 7]
methods = ["lsh"]
[variant.itq-short]
method = "itq"
max_iter = 5
"""


def test_a_plan_of_a_file(tmp_path):
    (tmp_path / "plan.toml").write_text(GOOD)
    plan = read_plan(tmp_path / "plan.toml")
    assert (plan.data, plan.protocol, plan.bits, plan.seeds) == ("digits", "holdout", (8, 16), (4, 7))
    assert [(v.label, v.method, v.settings) for v in plan.variants] == [
        ("lsh", "lsh", {}),
        ("itq-short", "itq", {"max_iter": 5}),
    ]


def test_the_plan_of_the_defaults_can_be_read():
    """docs/choices.md tells readers to run it."""
    plan = read_plan(Path(__file__).parents[2] / "benchmarks" / "choices.toml")
    assert len(plan.variants) > 5


@pytest.mark.slow
def test_a_plan_runs_from_the_command_line(call, tmp_path):
    (tmp_path / "plan.toml").write_text(GOOD)
    code, out, _ = call("bench", "run", "plan.toml", "-o", "results")
    assert code == 0
    assert "itq-short" in out


WRONG = {
    "toml": ("protocol = ", "is not TOML"),
    "field": (GOOD.replace("bits", "bit"), "no field 'bit'"),
    "no protocol": ("methods = ['lsh']", "The protocol mixed takes any data set"),
    "protocol": (GOOD.replace("holdout", "held"), "Got 'held' instead"),
    "data": (GOOD.replace('"digits"', '"digit"'), "Got 'digit' instead"),
    "no data": (GOOD.replace('data = "digits"', ""), "takes any data set"),
    "method": (GOOD.replace('["lsh"]', '["lhs"]'), "Got 'lhs' instead"),
    "tables": (GOOD.replace('["lsh"]', '["open"]'), "open has codes that are searched by tables"),
    "parameter": (GOOD.replace("max_iter", "iterations"), "itq has no parameter 'iterations'; it has"),
    "value": (GOOD.replace("max_iter = 5", "max_iter = 'five'"), "'max_iter' parameter of ITQ must be"),
    "bits": (GOOD.replace("[8, 16]", "[0]"), "between 1 and 1024"),
    "kind of bits": (GOOD.replace("[8, 16]", "8"), "list of whole numbers"),
    "true bits": (GOOD.replace("[8, 16]", "[true]"), "list of whole numbers"),
    "seeds": (GOOD.replace("[4, 7]", "0"), "at least 1"),
    "negative seeds": (GOOD.replace("[4, 7]", "[-1]"), "not be negative"),
    "twice": (GOOD.replace("variant.itq-short", "variant.lsh"), "stands for two methods"),
    "variant without method": (GOOD.replace("method =", "methods ="), "needs method ="),
    "bits of a variant": (GOOD.replace("max_iter", "n_bits"), "set by bits"),
    "no methods": ('protocol = "holdout"\ndata = "digits"', "at least one method"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_plan_is_one_sentence(call, tmp_path, case):
    text, sentence = WRONG[case]
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(PlanError, match=r"plan\.toml"):
        read_plan(tmp_path / "plan.toml")
    code, out, err = call("bench", "run", "plan.toml", "-o", "results")
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan.toml"], "cannot be read"),
        (["plan.toml", "--bits", "8"], "contradict"),
        (["--protocol", "holdout"], "Give a plan file"),
        (["--protocol", "holdout", "--methods"], "requires an argument"),
    ],
)
def test_wrong_options_are_one_sentence(call, arguments, sentence):
    code, _, err = call("bench", "run", *arguments)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1

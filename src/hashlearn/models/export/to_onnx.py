"""ONNX: one graph from float32 rows to packed codes, in plain operators.

The graph computes in double precision, as ``encode`` does for float64 rows, so that its bits do not depend on the order
in which a runtime adds. Weights are kept in the precision they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.models.export import steps
from hashlearn.models.export.steps import Description, ExportError, Steps, Tables

OPSET = 17
TREE_OPSET = 3
IR_VERSION = 8
"""The versions of 2022: runtimes of today read them, and nothing newer is needed."""
N_WORDS = 4096
"""Label words that a code can name."""
FINITE_ROWS = "ROWS_MUST_BE_FINITE"
"""The node that refuses NaN and infinity. Runtimes name it in their error."""


def onnx_model(description: Description) -> bytes:
    """Return the bytes of a model.

    Its input ``rows`` is float32 (n, n_features). Its outputs ``codes`` and ``query_codes`` are uint8
    (n, ceil(n_bits / 8)), bit 0 the most significant bit of byte 0, and ``expected_bits`` is float32 (n, n_bits). For
    codes that are searched by tables the outputs beside ``codes`` are these tables, ``nibbles`` (n, 2 n_bits / 8, 16)
    and ``words`` (n, 4096), both float32, and the number ``emphasis`` is an input that may be left out (0.5).
    Rows with NaN or infinity are an error of the node ``FINITE_ROWS``.
    """
    onnx = _import_onnx()
    graph, kinds = _Graph(onnx), onnx.TensorProto
    base = graph.run(description.steps[:-1], graph.finite_rows())
    z = graph.step(description.steps[-1], base)
    shifted = z if description.shift is None else graph.add("Sub", z, graph.constant(description.shift))
    graph.pack(shifted, description.n_bits, "codes")
    helper, width = onnx.helper, n_bytes(description.n_bits)
    inputs = [helper.make_tensor_value_info("rows", kinds.FLOAT, ["rows", description.n_features])]
    outputs = [helper.make_tensor_value_info("codes", kinds.UINT8, ["rows", width])]
    if description.tables is not None:
        flat = graph.add("Cast", graph.run(description.tables.nibbles, base), to=kinds.FLOAT)
        graph.add("Reshape", flat, graph.tensor(np.array([0, -1, 16])), result="nibbles")
        outputs.append(helper.make_tensor_value_info("nibbles", kinds.FLOAT, ["rows", 2 * width, 16]))
        if description.tables.n_words:
            graph.word_table(description.tables, base)
            inputs.append(helper.make_tensor_value_info("emphasis", kinds.FLOAT, []))
            outputs.append(helper.make_tensor_value_info("words", kinds.FLOAT, ["rows", N_WORDS]))
    else:
        graph.pack(z, description.n_bits, "query_codes")
        expected = z
        if description.slopes is not None and description.offsets is not None:
            half = graph.add("Mul", z, graph.constant(description.slopes / 2))
            expected = graph.add("Tanh", graph.add("Add", half, graph.constant(description.offsets / 2)))
        graph.add("Cast", expected, result="expected_bits", to=kinds.FLOAT)
        outputs.append(helper.make_tensor_value_info("query_codes", kinds.UINT8, ["rows", width]))
        outputs.append(helper.make_tensor_value_info("expected_bits", kinds.FLOAT, ["rows", description.n_bits]))
    made = helper.make_graph(graph.nodes, description.method, inputs, outputs, graph.tensors)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    model = helper.make_model(made, opset_imports=imports, producer_name="hashlearn")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model.SerializeToString()


class _Graph:
    """Nodes and constants of a graph, with a name for every value."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def add(self, kind: str, *inputs: str, result: str | None = None, domain: str = "", **settings: Any) -> str:
        """Add a node and return the name of its result."""
        name = result or f"value_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], domain=domain, **settings))
        return name

    def finite_rows(self) -> str:
        """Add the nodes that refuse NaN and infinity, and return the rows in double precision.

        ONNX has no operator that raises an error. But an index outside an array is an error, and here the number of
        bad values is an index into an array of one element.
        """
        largest = self.tensor(np.array(np.finfo(np.float32).max))
        bad = self.add("Not", self.add("LessOrEqual", self.add("Abs", "rows"), largest))
        count = self.add("ReduceSum", self.add("Cast", bad, to=self.onnx.TensorProto.INT64), keepdims=0)
        one = self.add("Gather", self.tensor(np.ones(1)), count, name=FINITE_ROWS)
        return self.add("Mul", self.add("Cast", "rows", to=self.onnx.TensorProto.DOUBLE), one)

    def tensor(self, array: NDArray[Any]) -> str:
        """Add an array as it is."""
        name = f"array_{len(self.tensors)}"
        self.tensors.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def constant(self, value: Any) -> str:
        """Add numbers that are used in double precision. A runtime casts them once, when it loads the model."""
        array = np.asarray(value)
        name = self.tensor(array)
        return name if array.dtype == np.float64 else self.add("Cast", name, to=self.onnx.TensorProto.DOUBLE)

    def run(self, path: Steps, x: str) -> str:
        for step in path:
            x = self.step(step, x)
        return x

    def step(self, step: steps.Step, x: str) -> str:
        """Add the nodes of one step and return the name of its result."""
        match step:
            case steps.Unit():
                return self._unit(x)
            case steps.Subtract(vector):
                return self.add("Sub", x, self.constant(vector))
            case steps.Scale(factors):
                return self.add("Mul", x, self.constant(factors))
            case steps.Kernel():
                return self._kernel(step, x)
            case steps.Affine(weights, bias):
                return self.add("Add", self.add("MatMul", x, self.constant(weights)), self.constant(bias))
            case steps.Relu():
                return self.add("Max", x, self.constant(np.float64(0)))
            case steps.Cosine():
                return self.add("Cos", x)
            case steps.Softmax():
                return self.add("Softmax", x, axis=1)
            case steps.LogOdds(limit):
                return self._log_odds(x, limit)
            case steps.Largest():
                return self._largest(x)
            case steps.Take(start, stop):
                first, last, columns = (self.tensor(np.array([number])) for number in (start, stop, 1))
                return self.add("Slice", x, first, last, columns)
            case steps.Rank():
                return self._rank(step, x)
            case steps.Neighbors():
                return self._neighbors(step, x)
            case steps.Trees():
                return self._trees(step, x)
            case steps.Join(parts):
                return self.add("Concat", *(self.run(part, x) for part in parts), axis=1)
        raise ExportError(f"The step {step.name!r} of this hasher cannot be exported to ONNX.")

    def pack(self, z: str, n_bits: int, result: str) -> None:
        """Add the nodes that make bits of projections and pack them into bytes, as output ``result``."""
        bits = self.add("GreaterOrEqual", z, self.constant(np.float64(0)))
        numbers = self.add("Cast", bits, to=self.onnx.TensorProto.FLOAT)
        if n_bits % 8:
            ends = self.tensor(np.array([0, 0, 0, -n_bits % 8]))
            numbers = self.add("Pad", numbers, ends)
        split = self.add("Reshape", numbers, self.tensor(np.array([-1, n_bytes(n_bits), 8])))
        places = self.tensor(2.0 ** np.arange(7, -1, -1, dtype=np.float32))
        self.add("Cast", self.add("MatMul", split, places), result=result, to=self.onnx.TensorProto.UINT8)

    def word_table(self, tables: Tables, base: str) -> None:
        """Add the nodes that make the table of label words, as output ``words``."""
        kinds = self.onnx.TensorProto
        zero, one, two = (self.constant(np.float64(number)) for number in (0, 1, 2))
        # An input that has a value may be left out.
        self.tensors.append(self.onnx.numpy_helper.from_array(np.array(0.5, dtype=np.float32), "emphasis"))
        twice = self.add("Mul", self.add("Cast", "emphasis", to=kinds.DOUBLE), two)
        root, trust = self.add("Min", twice, one), self.add("Max", self.add("Sub", twice, one), zero)
        strength = self.add("Mul", self.add("Mul", root, root), self.constant(np.float64(8)))
        familiarity = self.run(tables.familiarity, base)
        rank, best, near = (self.step(steps.Take(place, place + 1), familiarity) for place in range(3))
        usual = self.add("Mul", self.add("Mul", rank, near), self.add("Sub", one, trust))
        familiarity = self.add("Add", usual, self.add("Mul", best, trust))
        weight = self.add("Mul", familiarity, strength)
        affinities = self.step(steps.Take(0, tables.n_words), base)
        words = self.add("Cast", self.add("Mul", affinities, weight), to=kinds.FLOAT)
        missing = self.tensor(np.array([0, 0, 0, N_WORDS - tables.n_words]))
        self.add("Pad", words, missing, result="words")

    def _rank(self, step: steps.Rank, x: str) -> str:
        best = self.add("ReduceMax", x, axes=[1])
        # One value above all others does not count as below; without values the share is 0.
        values = np.append(step.values.astype(np.float64), np.inf)[None]
        below = self.add("Cast", self.add("Less", self.constant(values), best), to=self.onnx.TensorProto.DOUBLE)
        count = self.constant(np.float64(max(len(step.values), 1)))
        share = self.add("Div", self.add("ReduceSum", below, self.tensor(np.array([1]))), count)
        power = self.add("Pow", share, self.constant(np.float64(step.power)))
        zero, one = self.constant(np.float64(0)), self.constant(np.float64(1))
        return self.add("Concat", power, self.add("Clip", best, zero, one), axis=1)

    def _neighbors(self, step: steps.Neighbors, x: str) -> str:
        products = self.add("MatMul", x, self.constant(step.rows.T))
        places = f"value_{len(self.nodes)}_places"
        top = self.onnx.helper.make_node(
            "TopK", [products, self.tensor(np.array([step.count]))], [f"{places}_values", places], axis=1
        )
        self.nodes.append(top)
        marks = self.add("Gather", self.constant(step.marks), places)
        return self.add("Min", self.add("ReduceMean", marks, axes=[1]), self.constant(np.float64(1)))

    def _unit(self, x: str) -> str:
        norms = self.add("ReduceL2", x, axes=[1])
        zero, one = self.constant(np.float64(0)), self.constant(np.float64(1))
        return self.add("Div", x, self.add("Where", self.add("Equal", norms, zero), one, norms))

    def _kernel(self, step: steps.Kernel, x: str) -> str:
        landmarks = step.landmarks.astype(np.float64)
        products = self.add("MatMul", x, self.add("Transpose", self.constant(step.landmarks), perm=[1, 0]))
        exponent = self.add("Mul", products, self.constant(np.float64(2 * step.scale)))
        squares = self.add("ReduceSumSquare", x, axes=[1])
        exponent = self.add("Sub", exponent, self.add("Mul", squares, self.constant(np.float64(step.scale))))
        own = step.scale * np.einsum("ij,ij->i", landmarks, landmarks)
        return self.add("Exp", self.add("Sub", exponent, self.constant(own)))

    def _log_odds(self, x: str, limit: float) -> str:
        # As logarithms, because onnxruntime has Atanh in single precision only.
        one = self.constant(np.float64(1))
        e = self.add("Clip", x, self.constant(np.float64(-limit)), self.constant(np.float64(limit)))
        return self.add("Sub", self.add("Log", self.add("Add", one, e)), self.add("Log", self.add("Sub", one, e)))

    def _largest(self, x: str) -> str:
        place = self.add("ArgMax", x, axis=1, keepdims=0)
        width = self.add("Gather", self.add("Shape", x), self.tensor(np.array(1)))
        # onnxruntime has OneHot in single precision only.
        chosen = self.add("OneHot", place, width, self.tensor(np.array([0, 1], dtype=np.float32)), axis=1)
        return self.add("Cast", chosen, to=self.onnx.TensorProto.DOUBLE)

    def _trees(self, step: steps.Trees, x: str) -> str:
        """Return all trees of all bits in one node: tree t of bit b has the number b * n_trees + t."""
        n_bits, n_trees, splits = step.feature.shape
        nodes, count = 2 * splits + 1, n_bits * n_trees
        tree, node = np.divmod(np.arange(count * nodes), nodes)
        inner = node < splits
        feature, threshold = np.zeros((count, nodes), dtype=np.int64), np.zeros((count, nodes))
        feature[:, :splits] = step.feature.reshape(count, splits)
        threshold[:, :splits] = step.threshold.reshape(count, splits)
        leaves, at = np.divmod(np.arange(count * (splits + 1)), splits + 1)
        as_tensor = self.onnx.numpy_helper.from_array
        sums = self.add(
            "TreeEnsembleRegressor",
            x,
            domain="ai.onnx.ml",
            n_targets=n_bits,
            aggregate_function="SUM",
            nodes_treeids=tree.tolist(),
            nodes_nodeids=node.tolist(),
            nodes_featureids=feature.ravel().tolist(),
            nodes_values_as_tensor=as_tensor(threshold.ravel(), "thresholds"),
            nodes_modes=["BRANCH_GT" if split else "LEAF" for split in inner],
            nodes_truenodeids=np.where(inner, 2 * node + 2, 0).tolist(),
            nodes_falsenodeids=np.where(inner, 2 * node + 1, 0).tolist(),
            target_treeids=leaves.tolist(),
            target_nodeids=(at + splits).tolist(),
            target_ids=(leaves // n_trees).tolist(),
            target_weights_as_tensor=as_tensor(step.leaf.reshape(-1).astype(np.float64), "leaves"),
        )
        # Sums are made in double precision, as the leaves are, and rounded to single precision at the end.
        return self.add("Cast", sums, to=self.onnx.TensorProto.DOUBLE)


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("Export to ONNX needs the package onnx: pip install '.[onnx]'.") from error
    return onnx

"""ONNX's own conformance cases (onnx.backend.test), through the Python package.  run-tests: seconds=600

Every case either passes, or its model is refused as unsupported, with the reason, and is counted apart (skipped).  A case
whose operators are all in REQUIRED may not be refused.  Run as a program it prints the table:

    PYTHONPATH=build/release/python python tests/conformance/test_onnx_backend.py [part of a name]
"""
import collections
import re
import sys

import pytest
from onnx_cases import KINDS, RANDOM, alike, cases, feed, operators, same

import tercel

# What the networks that tercel is tested with are made of.
REQUIRED = set("""
Add AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv ConvTranspose Div Equal Erf Exp Expand Gather
Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity If LSTM LayerNormalization Log MatMul Max MaxPool Mul Neg
Not Pad Pow Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize Shape Sigmoid Size Slice Softmax Split
Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
""".split())


def run_case(case):
    """Raises tercel.Unsupported where the model, AssertionError where an answer, is not what it should be."""
    session = tercel.Session(case.model.SerializeToString(), threads=1)
    for i, (inputs, outputs) in enumerate(case.sets):
        got = session.run(None, feed(case, inputs))
        for value, want, info in zip(got, outputs, case.model.graph.output):
            (alike if case.name in RANDOM else same)(value, want, case, f"set {i}, output '{info.name}'")


def reason(error):
    """What is unsupported, without the names of nodes, so that cases with one reason stand together."""
    missing = sorted(set(re.findall(r"operator (\S+) \(", str(error))))
    return f"not supported yet: {', '.join(missing)}" if missing else re.sub(r"'[^']*'", "'...'", str(error))


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.kind}/{case.name}")
def test_case(case):
    try:
        run_case(case)
    except tercel.Unsupported as error:
        if set(operators(case.model.graph.node)) <= REQUIRED:
            raise
        pytest.skip(reason(error))


def main(part):
    outcomes = collections.Counter()
    for case in cases():
        if part not in case.name:
            continue
        try:
            run_case(case)
            outcome, detail = "random" if case.name in RANDOM else "pass", ""
        except tercel.Unsupported as error:
            outcome, detail = "unsupported", str(error)
        except (tercel.Error, AssertionError) as error:
            outcome, detail = "fail", f"{type(error).__name__}: {error}"
        outcomes[case.kind, outcome] += 1
        if outcome != "pass":
            print(outcome, case.kind, case.name, " ".join(detail.split())[:300], sep="\t")
    for kind in KINDS:
        print(kind, ", ".join(f"{count} {outcome}" for (k, outcome), count in sorted(outcomes.items()) if k == kind))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

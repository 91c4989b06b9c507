"""ONNX's own conformance cases (onnx.backend.test), through the Python package.  run-tests: seconds=600

Every case either passes, or its model is refused as unsupported, with the reason, and is counted apart (skipped).  A case
whose operators are all in REQUIRED may not be refused.  Run as a program it prints the table:

    PYTHONPATH=build/release/python python tests/conformance/test_onnx_backend.py [part of a name]
"""
import re
import shutil
import subprocess
import sys

import make_table
import pytest
from export_cases import export_all
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


CASES = list(cases())
OUTCOMES = {}  # (kind, name): a word of WORDS
WORDS = ("passed", "failed", "skipped", "random")


def outcome_of(case):
    """A word of WORDS, and the error, if there is one."""
    try:
        run_case(case)
    except tercel.Unsupported as error:
        return "skipped", error
    except (tercel.Error, AssertionError) as error:
        return "failed", error
    return "random" if case.name in RANDOM else "passed", None


def count_line(outcomes):
    """As `tercel test` ends."""
    passed, failed, skipped, random = (list(outcomes).count(word) for word in WORDS)
    return f"{passed} passed, {failed} failed, {skipped} skipped" + (f", {random} random (checked by property)" if random else "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}/{case.name}")
def test_case(case):
    OUTCOMES[case.kind, case.name], error = outcome_of(case)
    if isinstance(error, tercel.Unsupported) and not set(operators(case.model.graph.node)) <= REQUIRED:
        pytest.skip(reason(error))
    if error:
        raise error


def test_the_command_counts_the_same(build, tmp_path):
    """`tercel test` over the same cases as files."""
    if len(OUTCOMES) < len(CASES):
        pytest.skip("only a part of the cases was run")
    export_all(CASES, tmp_path)
    result = subprocess.run([build / "tercel", "test", tmp_path, "--skip-unsupported"], capture_output=True, text=True, timeout=300)
    shutil.rmtree(tmp_path)  # more than 50 MB
    assert result.stdout.splitlines()[-1] == count_line(OUTCOMES.values()), result.stdout[-4000:]
    print(result.stdout.splitlines()[-1])


def test_the_table_is_not_stale(source):
    """docs/onnx.md shows tercel's column as this run has it."""
    if len(OUTCOMES) < len(CASES):
        pytest.skip("only a part of the cases was run")
    table = make_table.make(CASES, OUTCOMES)
    assert (source / "docs/onnx.md").read_text() == table, "docs/onnx.md is stale: tests/conformance/make_table.py writes it"


def main(part):
    for case in CASES:
        if part not in case.name:
            continue
        OUTCOMES[case.kind, case.name], error = outcome_of(case)
        if OUTCOMES[case.kind, case.name] != "passed":
            print(OUTCOMES[case.kind, case.name], case.kind, case.name, " ".join(str(error or "").split())[:300], sep="\t")
    for kind in KINDS:
        print(f"{kind}: {count_line(word for (k, _), word in OUTCOMES.items() if k == kind)}")
    print(count_line(OUTCOMES.values()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

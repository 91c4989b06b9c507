"""Small real models, mutated, against ONNX Runtime: the first of the mutations that mutate_onnx.py makes by the thousands."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mutate_onnx  # noqa: E402

COUNT = 300


def test_mutated_models(tmp_path):
    wrong = []

    def report(index, name, verdict, details):
        if verdict in ("differs", "broken"):
            wrong.append(f"--seed {mutate_onnx.DEFAULT_SEED} --first {index}: {verdict}: {name}: {details}")

    cases = list(mutate_onnx.load_cases())
    counts = mutate_onnx.try_many(cases, mutate_onnx.DEFAULT_SEED, 0, COUNT, tmp_path, report)
    print(f"seed {mutate_onnx.DEFAULT_SEED}: {dict(counts)}")
    assert not wrong, "\n".join(wrong)
    assert counts["same"] > COUNT // 4

"""Operators of ai.onnx.ml against what ONNX Runtime gave (make_ml_cases.py).  run-tests: command"""
import pathlib
import subprocess

CASES = pathlib.Path(__file__).parent / "ml"


def test_ml_cases(build):
    command = [build / "tercel", "test", "--rtol", "1e-5", "--atol", "1e-6", CASES]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == f"{len(list(CASES.iterdir()))} passed, 0 failed, 0 skipped"

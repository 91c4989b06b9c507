"""Operators of com.microsoft against what ONNX Runtime gave (make_contrib_cases.py).  run-tests: command"""
import pathlib
import subprocess

CASES = pathlib.Path(__file__).parent / "contrib"


def test_contrib_cases(build):
    command = [build / "tercel", "test", "--rtol", "1e-4", "--atol", "1e-5", CASES]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == f"{len(list(CASES.iterdir()))} passed, 0 failed, 0 skipped"

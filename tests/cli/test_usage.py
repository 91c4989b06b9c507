"""What the command says when it is asked for help or called wrongly: one line, what to do, and the documented exit status.

run-tests: command
"""
import pytest

COMMANDS = ["run", "bench", "check", "inspect", "explain", "test", "version"]


def check_error(result, status, *parts):
    assert result.returncode == status, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("tercel")
    for part in parts:
        assert part in result.stderr


def test_help_lists_every_command(tercel):
    for arguments in (["--help"], ["-h"], ["help"]):
        result = tercel(*arguments)
        assert result.returncode == 0 and not result.stderr
        for command in COMMANDS:
            assert f"\n  {command} " in result.stdout
        assert "examples:" in result.stdout and "exit status:" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(tercel, command):
    result = tercel(command, "--help")
    assert result.returncode == 0 and not result.stderr
    assert result.stdout.startswith(f"usage: tercel {command}")
    assert f"examples:\n  tercel {command}" in result.stdout
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    assert tercel("help", command).stdout == result.stdout


def test_no_command(tercel):
    result = tercel()
    assert result.returncode == 2 and "usage:" in result.stdout


def test_version(tercel):
    assert tercel("--version").stdout.startswith("tercel 0.")
    result = tercel("version")
    assert result.returncode == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["tercel", "cpu", "levels", "in", "cpus"]


@pytest.mark.parametrize("arguments, part", [
    (["frobnicate"], "no command 'frobnicate'"),
    (["help", "frobnicate"], "no command 'frobnicate'"),
    (["run"], "MODEL is missing"),
    (["bench"], "MODEL is missing"),
    (["inspect"], "MODEL is missing"),
    (["test"], "DIR... is missing"),
    (["run", "a.onnx", "b.onnx"], "'b.onnx' is one argument too many"),
    (["run", "a.onnx", "--frob"], "no option '--frob'"),
    (["run", "a.onnx", "--frob=1"], "no option '--frob'"),
    (["run", "a.onnx", "--threads"], "--threads wants a value"),
    (["run", "a.onnx", "--threads", "two"], "--threads 'two'"),
    (["run", "a.onnx", "--threads", "-1"], "--threads '-1'"),
    (["run", "a.onnx", "--max-memory", "1X"], "--max-memory '1X'"),
    (["run", "a.onnx", "--check=1"], "--check takes no value"),
    (["run", "a.onnx", "--output-format", "txt"], "want pb or npy"),
    (["bench", "a.onnx", "--onnx=b.onnx"], "twice"),
    (["bench", "a.onnx", "--percentile", "101"], "--percentile '101'"),
    (["bench", "a.onnx", "--streams", "0"], "--streams"),
    (["test", "a", "--rtol", "-1"], "--rtol"),
])
def test_wrong_usage(tercel, arguments, part):
    check_error(tercel(*arguments), 2, part, "--help")


@pytest.mark.parametrize("command", ["run", "bench", "inspect", "explain"])
def test_bad_files(tercel, tmp_path, command):
    check_error(tercel(command, tmp_path / "none.onnx"), 1, "none.onnx")
    check_error(tercel(command, tmp_path), 1, str(tmp_path))
    junk = tmp_path / "junk.onnx"
    junk.write_bytes(b"\xff" * 100)
    result = tercel(command, junk)
    assert result.returncode in (1, 3) and result.stderr.count("\n") == 1
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    result = tercel(command, empty)
    assert result.returncode in (1, 3) and result.stderr.count("\n") == 1


def test_wrong_inputs(tercel, models, tmp_path):
    relu = models / "relu.onnx"
    check_error(tercel("run", relu, "--input", "x=none.npy"), 1, "none.npy")
    check_error(tercel("run", models / "pair.onnx", "--input", "c=c.npy"), 1, "no such input")
    check_error(tercel("run", relu, "--shapes", "x=1xx4"), 1, "--shapes 'x=1xx4'")
    check_error(tercel("run", relu, "--fill", "sevens"), 1, "--fill 'sevens'")
    check_error(tercel("run", relu, "--dim", "n"), 1, "--dim 'n'")
    check_error(tercel("run", relu, "--inputs-dir", tmp_path), 1, "neither input_0.pb")
    check_error(tercel("run", relu, "--labels", tmp_path / "none.txt"), 1, "none.txt")
    (tmp_path / "x.npy").write_bytes(b"not numpy at all")
    check_error(tercel("run", relu, "--input", tmp_path / "x.npy"), 1, "x.npy", ".npy")
    (tmp_path / "x.jpg").write_bytes(b"no picture")
    check_error(tercel("run", relu, "--input", tmp_path / "x.jpg"), 1)


def test_output_that_cannot_be_written(tercel):
    with open("/dev/full", "w") as full:
        import subprocess
        program = tercel("--version").args[0]
        result = subprocess.run([program, "version"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == 1 and "standard output" in result.stderr

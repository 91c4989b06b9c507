"""tools/run-tests: nothing that went wrong may be counted as passed."""
import pytest


@pytest.fixture
def run_tests(load, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    return load("tools/run-tests")


@pytest.fixture
def outcome(run_tests, tmp_path):
    """outcome(shell text) is what run-tests makes of a program that does that."""

    def run(text, **fields):
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return run_tests.run(run_tests.Job("job", [str(program)], {}, set(), "release", **fields))

    return run


OK = "echo '[ RUN      ] a'; echo '[       OK ] a'"


def test_counts_each_kind(outcome):
    result = outcome(f"""{OK}
        echo '[ RUN      ] b'; echo 'skip: no such device'; echo '[  SKIPPED ] b'
        echo '[ RUN      ] c'; echo '1 != 2'; echo '[  FAILED  ] c'
        echo '[  PASSED  ] 1 test(s).'; echo '[  FAILED  ] c'; exit 1""")
    assert (result.passed, result.failed, result.skipped) == (1, [("c", "1 != 2")], [("b", "no such device")])


def test_a_crash_fails_the_test_that_was_running(outcome):
    result = outcome(f"{OK}; echo '[ RUN      ] b'; kill -SEGV $$")
    assert result.passed == 1 and result.failed == [("b", "killed by SIGSEGV")]


def test_a_program_that_fails_after_its_tests_has_failed(outcome):
    """As the leak checker makes it do."""
    result = outcome(f"{OK}; echo leaked; exit 23")
    assert len(result.failed) == 1 and "exit status 23" in result.failed[0][1] and "leaked" in result.failed[0][1]


def test_a_program_without_tests_has_failed(outcome):
    assert outcome("exit 0").failed


def test_a_failed_group_setup_has_failed(outcome):
    assert outcome("echo '[  FAILED  ] GROUP SETUP'").failed


def test_a_program_that_hangs_is_ended(outcome):
    result = outcome("echo '[ RUN      ] a'; sleep 60", seconds=1)
    assert result.seconds < 30 and result.failed == [("a", "still running after 1 s")]


def test_a_program_that_was_not_built_has_failed(run_tests):
    assert run_tests.run(run_tests.Job("job", ["/no/such/program"], {}, set(), "release")).failed


@pytest.mark.parametrize("in_ci", [False, True])
def test_a_network_that_could_not_be_had_fails_in_ci_only(run_tests, outcome, monkeypatch, in_ci):
    monkeypatch.setattr(run_tests, "IN_CI", in_ci)
    result = outcome("echo '[ RUN      ] a'; echo 'skip: not fetched: net.onnx'; echo '[  SKIPPED ] a'")
    assert (len(result.failed), len(result.skipped)) == ((1, 0) if in_ci else (0, 1))


def test_the_last_line_has_the_counts(run_tests, outcome, capsys):
    assert run_tests.summarize([outcome(OK), outcome("exit 1")], [("level", "not here")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"

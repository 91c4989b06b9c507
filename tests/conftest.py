"""What the Python tests share: where the source, the build and the fetched networks lie."""
import os
import pathlib

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def source():
    """The root of the source tree."""
    return SOURCE


@pytest.fixture(scope="session")
def build():
    """The build folder under test: build/release unless TERCEL_BUILD names another."""
    return pathlib.Path(os.environ.get("TERCEL_BUILD", SOURCE / "build/release"))


@pytest.fixture(scope="session")
def fetched():
    """fetched("magika.onnx") is the path of a file of tests/models/models.tsv; skips the test when it was not fetched."""
    cache = pathlib.Path(os.environ.get("TERCEL_CACHE") or pathlib.Path.home() / ".cache/tercel")

    def path(file):
        if not (cache / file).is_file():
            pytest.skip(f"not fetched: {cache / file} (tools/fetch gets it)")
        return cache / file

    return path

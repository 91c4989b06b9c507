"""What the optimizer makes of real networks: the golden files say how often each rule fitted and almost fitted, so that a change
that stops a fusion is seen.

run-tests: command
"""
import pathlib

import pytest
from make_golden import HERE, explain, networks, peer_line, peer_nodes, render


@pytest.mark.parametrize("name, file", networks(), ids=[name for name, _ in networks()])
def test_golden(build, fetched, name, file):
    report = explain(build / "tercel", fetched(file))
    golden = (HERE / "golden" / f"{name}.txt").read_text()
    assert render(name, report, peer_line(golden)) == golden, "if that is meant: tests/optimize/make_golden.py"
    # what one operator of the file was taken apart into (a tree ensemble's six steps) counts once, as it does there
    assert len({step["sources"] for step in report["steps"]}) <= peer_nodes(golden)


@pytest.mark.parametrize("name, file", networks(), ids=[name for name, _ in networks()])
def test_sources(build, fetched, name, file):
    """Every step names nodes of the user's file."""
    onnx = pytest.importorskip("onnx")

    def names(graph):
        for node in graph.node:
            yield node.name
            yield from node.output  # nodes without a name are called after what they make
            for attribute in node.attribute:
                for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                    yield from names(inner)

    path = pathlib.Path(fetched(file))
    known = set(names(onnx.load(path, load_external_data=False).graph))
    report = explain(build / "tercel", path)
    strangers = [step for step in report["steps"] if not set(step["sources"].split(" + ")) <= known]
    assert not strangers

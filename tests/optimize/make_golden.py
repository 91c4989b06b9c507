"""Writes golden/NAME.txt: what the optimizer makes of each network of tests/models/models.tsv.

usage: tests/optimize/make_golden.py [NAME...]        (default: all that were fetched)

Run it when a change of the optimizer is meant to change what it does, and read the difference.  Counts of onnxruntime's nodes are
kept as they stand in the files; where onnxruntime can be imported (not needed otherwise) they are counted again.
"""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def networks():
    """Name and file of every ONNX network of the list."""
    with open(SOURCE / "tests/models/models.tsv", newline="") as table:
        return [(row["name"], row["file"]) for row in csv.DictReader(table, delimiter="\t") if row["file"].endswith(".onnx")]


def explain(tercel, path):
    """Without layouts, which are chosen for the machine."""
    environment = {**os.environ, "TERCEL_LAYOUT": "nchw"}
    result = subprocess.run([tercel, "explain", path, "--json", "-"], capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout)


def counted(decisions):
    rules = Counter(f"{d['pass']}: {d['rule']}" for d in decisions)
    return "".join(f"{count:6}  {rule}\n" for rule, count in sorted(rules.items()))


def render(name, report, peer):
    """peer: the line about onnxruntime's graph, which is kept."""
    return (f"{name}: {report['before']['nodes']} nodes became {len(report['steps'])} steps\n{peer}\n"
            f"\nmade\n{counted(report['made'])}\nnear misses\n{counted(report['near_misses'])}")


def peer_line(golden):
    return golden.splitlines()[1]


def peer_nodes(golden):
    return int(re.match(r"onnxruntime \S+: (\d+) nodes", peer_line(golden))[1])


def count_peer(path):
    """The same line, from onnxruntime's own optimized graph."""
    import onnx
    import onnxruntime

    def count(graph):
        inner = (g for node in graph.node for a in node.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs))
        return len(graph.node) + sum(count(g) for g in inner)

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        nodes = count(onnx.load(options.optimized_model_filepath, load_external_data=False).graph)
    return f"onnxruntime {onnxruntime.__version__}: {nodes} nodes with all its optimizations"


def main(wanted):
    cache = pathlib.Path(os.environ.get("TERCEL_CACHE") or pathlib.Path.home() / ".cache/tercel")
    tercel = pathlib.Path(os.environ.get("TERCEL_BUILD", SOURCE / "build/release")) / "tercel"
    for name, file in networks():
        path, golden = cache / file, HERE / "golden" / f"{name}.txt"
        if (wanted and name not in wanted) or not path.is_file():
            continue
        try:
            peer = count_peer(path)
        except ImportError:
            if not golden.is_file():
                sys.exit(f"{golden} is new: its count of onnxruntime's nodes needs onnxruntime")
            peer = peer_line(golden.read_text())
        golden.write_text(render(name, explain(tercel, path), peer))
        print(golden)


if __name__ == "__main__":
    main(sys.argv[1:])

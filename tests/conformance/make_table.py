#!/usr/bin/env python3
"""Write docs/onnx.md: what tercel has of ONNX, and how many of ONNX's conformance cases it and other runtimes pass.

    PYTHONPATH=build/release/python python tests/conformance/make_table.py

runs the cases with tercel (a minute); what the others gave is in peers.tsv (measure_peers.py).  test_onnx_backend.py fails when the file is
not what this program would write.
"""
import collections
import pathlib
import re

import onnx
from onnx_cases import KINDS, RANDOM, operators

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft")

INTRODUCTION = """# ONNX in tercel

This file is made by `tests/conformance/make_table.py`, and a test fails when it is stale. `tercel check MODEL` tells for one model what
this table tells in general.

## Conformance

ONNX's own cases (`onnx.backend.test` of onnx {onnx}: {total} cases), given to each runtime by one harness, with the inputs' exact
types and each case's own tolerances, on an x86-64 CPU. {random} cases draw random numbers, which no two generators share: these are checked
by type, shape and mean, and are counted behind the plus sign.

{kinds}

tercel's column is measured by

    make python && PYTHONPATH=build/release/python python tests/conformance/test_onnx_backend.py

or, without Python once the cases are files, by

    python tests/conformance/export_cases.py build/cases && build/release/tercel test build/cases

and the others' by `python tests/conformance/measure_peers.py > tests/conformance/peers.tsv`, a process a case.
"""

OPERATORS = """
## {title}

{about}

{table}
"""

ABOUT = "Versions: those of the operator's definitions that tercel has. Types: those of inputs and outputs in the cases that tercel passes. Cases: \
passed, of those in which the operator stands (a function's expanded form is counted above, not here); `-`: there is none."
ABOUT_CONTRIB = "Operators that quantizers and transformer optimizers write. Their cases are tercel's own (`tests/conformance/contrib`), with the \
answers of ONNX Runtime; tercel passes all of them. An operator without one is tested in `tests/`, or by the operators it is made of."

TYPE_NAMES = {
    "FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT8E4M3FN": "f8e4m3fn", "FLOAT8E4M3FNUZ": "f8e4m3fnuz",
    "FLOAT8E5M2": "f8e5m2", "FLOAT8E5M2FNUZ": "f8e5m2fnuz", "FLOAT8E8M0": "f8e8m0", "FLOAT4E2M1": "f4e2m1", "INT64": "i64",
    "INT32": "i32", "INT16": "i16", "INT8": "i8", "INT4": "i4", "INT2": "i2", "UINT64": "u64", "UINT32": "u32", "UINT16": "u16",
    "UINT8": "u8", "UINT4": "u4", "UINT2": "u2", "BOOL": "bool", "STRING": "string", "COMPLEX64": "c64", "COMPLEX128": "c128",
}
TYPE_ORDER = list(TYPE_NAMES.values())


def read_rows():
    """{(domain, operator): versions} of the importer's table."""
    rows = collections.defaultdict(list)
    text = (SOURCE / "src/import/onnx/builders.inc").read_text()
    for domain, operator, since in re.findall(r'^ONNX\("([^"]*)", *"([^"]+)", *(\d+),', text, re.MULTILINE):
        rows[domain, operator].append(int(since))
    return rows


def read_peers():
    """(names, {(kind, name): words})"""
    lines = [line.split("\t") for line in (HERE / "peers.tsv").read_text().splitlines()]
    return lines[0][2:], {(kind, name): words for kind, name, *words in lines[1:]}


def element_types(info):
    def walk(kind):
        if kind.HasField("tensor_type"):
            yield kind.tensor_type.elem_type
        elif kind.HasField("sequence_type"):
            yield from walk(kind.sequence_type.elem_type)
        elif kind.HasField("optional_type"):
            yield from walk(kind.optional_type.elem_type)

    return {TYPE_NAMES[onnx.TensorProto.DataType.Name(number)] for number in walk(info.type) if number}


def table(headings, rows):
    lines = [headings, ["---"] + ["---:" if heading else "---" for heading in headings[1:]], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


# ---- by kind -----------------------------------------------------------------------------------------------------------


def by_kind(results, columns):
    """results: {(kind, name): words, one a column}."""
    rows = []
    for kind in (*KINDS, "all"):
        words = [row for (k, _), row in results.items() if kind in (k, "all")]
        counts = [collections.Counter(row[i] for row in words) for i in range(len(columns))]
        cells = [f"{c['passed']:,}" + (f" + {c['random']}" if c["random"] else "") for c in counts]
        rows.append([kind, f"{len(words):,}", *cells])
    return table(["cases", "of them", *columns], rows)


# ---- by operator -------------------------------------------------------------------------------------------------------


def count_cases(cases, results, width):
    """{operator: (number of cases, passed by each column, types)}: of node cases that are no expanded functions."""
    counts = collections.defaultdict(lambda: [0, [0] * width, set()])
    for case in cases:
        if case.kind != "node" or case.name.endswith("_expanded") or "_expanded_ver" in case.name:
            continue
        words = results[case.kind, case.name]
        for operator in set(operators(case.model.graph.node)):
            entry = counts[operator]
            entry[0] += 1
            for i, word in enumerate(words):
                entry[1][i] += word in ("passed", "random")
            if words[0] in ("passed", "random"):
                entry[2].update(*(element_types(info) for info in [*case.model.graph.input, *case.model.graph.output]))
    return counts


def definitions():
    """{(domain, operator): versions} of the onnx package, without what its newest version took away."""
    versions, gone = collections.defaultdict(list), set()
    for schema in onnx.defs.get_all_schemas_with_history():
        versions[schema.domain, schema.name].append(schema.since_version)
    for schema in onnx.defs.get_all_schemas():
        if schema.deprecated:
            gone.add((schema.domain, schema.name))
    return {key: sorted(numbers) for key, numbers in versions.items()}, gone


def versions_of(defined, rows):
    """Those of the definitions that a row serves."""
    have = [number for number in defined if rows and min(rows) <= number]
    lacking = [number for number in defined if number not in have]
    if not have:
        return "none"
    return ", ".join(map(str, have)) + (f" (not {', '.join(map(str, lacking))})" if lacking else "")


def by_operator(domain, counts, columns):
    defined, gone = definitions()
    rows, lines = read_rows(), []
    for (where, name), numbers in sorted(defined.items(), key=lambda item: item[0][1].lower()):
        if where != domain or ((where, name) in gone and (where, name) not in rows):
            continue
        total, passed, types = counts.get(f"{where}.{name}" if where else name, (0, [], set()))
        cells = [f"{number}/{total}" for number in passed] if total else ["-"] * len(columns)
        lines.append([name, versions_of(numbers, rows.get((where, name))), *cells,
                      " ".join(sorted(types, key=TYPE_ORDER.index)) or "-"])
    return table(["operator", "versions", *columns, ""], lines).replace("|  |", "| types |", 1)


def by_contrib_operator():
    counts = collections.Counter()
    for folder in sorted((HERE / "contrib").iterdir()):
        model = onnx.load(folder / "model.onnx", load_external_data=False)
        counts.update(set(operators(model.graph.node)))
    names = sorted({name for domain, name in read_rows() if domain == "com.microsoft"}, key=str.lower)
    return table(["operator", "cases"], [[name, counts[f"com.microsoft.{name}"] or "-"] for name in names])


# ---- the file ----------------------------------------------------------------------------------------------------------


def make(cases, outcomes):
    """The text.  outcomes: {(kind, name): "passed", "random", ...} of tercel."""
    peers, peer_words = read_peers()
    columns = ["tercel", *peers]
    word = {"pass": "passed", "random": "random"}
    results = {key: [outcome, *(word.get(w, "failed") for w in peer_words[key])] for key, outcome in outcomes.items()}
    counts = count_cases(cases, results, len(columns))
    text = INTRODUCTION.format(onnx=onnx.__version__, total=f"{len(results):,}", random=len(RANDOM), kinds=by_kind(results, columns))
    for domain in DOMAINS[:-1]:
        if any(where == domain for where, _ in definitions()[0]):
            text += OPERATORS.format(title=domain or "ai.onnx", about=ABOUT, table=by_operator(domain, counts, columns))
    return text + OPERATORS.format(title="com.microsoft", about=ABOUT_CONTRIB, table=by_contrib_operator())


def main():
    import test_onnx_backend as backend

    for case in backend.CASES:
        backend.OUTCOMES[case.kind, case.name], _ = backend.outcome_of(case)
    (SOURCE / "docs/onnx.md").write_text(make(backend.CASES, backend.OUTCOMES))
    print(backend.count_line(backend.OUTCOMES.values()))


if __name__ == "__main__":
    main()

"""Loads a tool (a script without .py) as a module."""
import importlib.machinery
import importlib.util
import sys

import pytest


@pytest.fixture
def load(source, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def module(path):
        name = path.replace("/", "_").replace("-", "_")
        loader = importlib.machinery.SourceFileLoader(name, str(source / path))
        made = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
        monkeypatch.setitem(sys.modules, name, made)  # dataclasses look their module up
        loader.exec_module(made)
        return made

    return module

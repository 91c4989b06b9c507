"""The rooms of src/ include only what stands below them: docs/architecture.md's table, held."""
import re

import pytest

# Each room with the rooms right below it.  What those see, it sees too.
BELOW = {
    "base": [],
    "images": ["base"],
    "ir": ["base"],
    "io": ["ir", "images"],
    "ops": ["ir", "images"],
    "backends": ["ops"],
    "import": ["backends"],
    "optimize": ["import"],
    "plan": ["optimize"],
    "runtime": ["plan"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def below(room):
    return {room}.union(*(below(other) for other in BELOW[room]))


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def sources(folder):
    return [path for ending in ("*.c", "*.h", "*.inc") for path in sorted(folder.rglob(ending))]


def test_every_room_is_in_the_table(source):
    assert {path.name for path in (source / "src").iterdir() if path.is_dir()} <= set(BELOW)


@pytest.mark.parametrize("room", BELOW)
def test_room_includes_only_rooms_below(source, room):
    allowed = below(room)
    wrong = [f"{path.relative_to(source)} includes {name}"
             for path in sources(source / "src" / room) for name in includes(path)
             if name.split("/")[0] in BELOW and name.split("/")[0] not in allowed]
    assert not wrong


@pytest.mark.parametrize("room", BELOW)
def test_room_has_no_path_around_the_rule(source, room):
    """No ../ in an include: every room is named."""
    wrong = [f"{path.relative_to(source)} includes {name}"
             for path in sources(source / "src" / room) for name in includes(path) if ".." in name]
    assert not wrong


@pytest.mark.parametrize("folder, rooms", [("cli", {"io"}), ("python", set()), ("examples", set())])
def test_users_see_the_public_header_only(source, folder, rooms):
    inside = rooms and below("io")
    wrong = [f"{path.relative_to(source)} includes {name}"
             for path in sources(source / folder) for name in includes(path)
             if name.split("/")[0] in BELOW and name.split("/")[0] not in inside]
    assert not wrong


def test_public_header_needs_the_standard_library_only(source):
    assert set(includes(source / "include/tercel/tercel.h")) <= {"stddef.h", "stdint.h"}

#!/usr/bin/env python3
"""A folder's rooms only look down: every include goes to the same room or one further down, and no files go in a circle.

  layers.py ROOT FOLDER [--rooms] [ROOM/...]  (--rooms: circles of files are not looked for)
                               Rooms are named from the ground up, or FOLDER/README.md has them under "## Rooms, from the ground up", one line each:
                               "- `file/`: ..." or "- `Import`: ..." (the files of that stem); fails naming each include that looks up
"""
import os
import re
import sys


def rooms_of(readme):
    text = open(readme, encoding="utf-8").read()
    section = re.search(r"^## Rooms, from the ground up\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    if not section:
        sys.exit(f'{readme}: no section "Rooms, from the ground up"')
    lines = re.findall(r"^- ((?:`[^`]+`(?:, )?)+):", section.group(1), re.M)
    return [re.findall(r"`([^`]+)`", line) for line in lines]


def includes_of(folder, below):
    """path -> paths that it includes, those relative to the folder, of what is in `below` of it; generated files are left out."""
    paths = [os.path.relpath(os.path.join(at, f), folder)
             for room in below for at, _, files in os.walk(os.path.join(folder, room)) for f in files if f.endswith((".h", ".cpp", ".cu"))]
    found = {}
    for path in sorted(paths):
        text = open(os.path.join(folder, path), encoding="utf-8").read()
        found[path] = [i for i in re.findall(r'^#include "([^"]+)"', text, re.M)]
    return found


def circle(graph):
    """The first circle that a walk meets, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if ring := visit(other):
                return ring
        done.add(path.pop())
        return None

    for node in sorted(graph):
        if ring := visit(node):
            return ring
    return None


def main():
    root, name, *rest = sys.argv[1:]
    folder = os.path.join(root, name)
    rank, problems, named = {}, [], [room for room in rest if room != "--rooms"]
    rooms = [[room] for room in named] or rooms_of(os.path.join(folder, "README.md"))
    includes = includes_of(folder, named or [""])
    prefix = "" if name == "." else name + "/"

    def room_of(path):
        stem = path.split("/")[0] + "/" if "/" in path else os.path.splitext(path)[0]
        return next((i for i, room in enumerate(rooms) if stem in room), None)

    for path in includes:
        rank[path] = room_of(path)
        if rank[path] is None:
            problems.append(f"{path} is in no room that README.md names")
    arrows = {path: [i[len(prefix):] for i in taken if i.startswith(prefix) and i[len(prefix):] in includes]
              for path, taken in includes.items()}
    for path, taken in arrows.items():
        for other in taken:
            if None not in (rank[path], rank[other]) and rank[other] > rank[path]:
                problems.append(f"{path} looks up to {other}")
    units = {}  # a header and its source are one
    for path, taken in arrows.items():
        own = os.path.splitext(path)[0]
        units.setdefault(own, set()).update({os.path.splitext(other)[0] for other in taken} - {own})
    if not problems and "--rooms" not in rest and (ring := circle(units)):
        problems.append("a circle: " + " -> ".join(ring))
    print(f"{len(includes)} files in {len(rooms)} rooms, {sum(map(len, arrows.values()))} includes, {len(problems)} wrong")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()

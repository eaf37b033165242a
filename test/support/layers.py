#!/usr/bin/env python3
"""A folder's rooms only look down: every include goes to the same room or one further down, and no files go in a circle.

  layers.py ROOT FOLDER [--rooms]  (--rooms: circles of files are not looked for)
                               FOLDER/README.md has the rooms under "## Rooms, from the ground up", one line each:
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


def includes_of(folder):
    """path -> paths that it includes, all relative to the folder; generated files are left out."""
    paths = [os.path.relpath(os.path.join(at, f), folder)
             for at, _, files in os.walk(folder) for f in files if f.endswith((".h", ".cpp"))]
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
    root, name, *only = sys.argv[1:]
    folder = os.path.join(root, name)
    rank, problems = {}, []
    rooms = rooms_of(os.path.join(folder, "README.md"))
    includes = includes_of(folder)

    def room_of(path):
        stem = path.split("/")[0] + "/" if "/" in path else os.path.splitext(path)[0]
        return next((i for i, room in enumerate(rooms) if stem in room), None)

    for path in includes:
        rank[path] = room_of(path)
        if rank[path] is None:
            problems.append(f"{path} is in no room that README.md names")
    arrows = {path: [i[len(name) + 1:] for i in taken if i.startswith(name + "/") and i[len(name) + 1:] in includes]
              for path, taken in includes.items()}
    for path, taken in arrows.items():
        for other in taken:
            if None not in (rank[path], rank[other]) and rank[other] > rank[path]:
                problems.append(f"{path} looks up to {other}")
    units = {}  # a header and its source are one
    for path, taken in arrows.items():
        own = os.path.splitext(path)[0]
        units.setdefault(own, set()).update({os.path.splitext(other)[0] for other in taken} - {own})
    if not problems and "--rooms" not in only and (ring := circle(units)):
        problems.append("a circle: " + " -> ".join(ring))
    print(f"{len(includes)} files in {len(rooms)} rooms, {sum(map(len, arrows.values()))} includes, {len(problems)} wrong")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()

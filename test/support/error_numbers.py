#!/usr/bin/env python3
"""Each Z-number is one file's and one meaning's, and lies in a range of base/README.md that is its folder's.

  error_numbers.py SOURCE      the repository; prints how many numbers there are, fails naming those that stand in two files, in
                               one with two messages (of which the literals are compared), or in no range of their folder

A number is the argument that a function makes an error of: of whatever returns an Error or a Status and has a parameter `int number`.
"""
import collections, pathlib, re, sys

source = pathlib.Path(sys.argv[1])
FUNCTION = re.compile(r"\b(?:Error|Status|auto) (?:\w+::)?(\w+)(?: = \[[^\]]*\])?\(([^()]*\bint number\b[^()]*)\)")
MESSAGE = re.compile(r"\b(?:message|what|reason|doing)$")
# An error as a list, tables of them, and the enumerators of compiler/import.
LISTED = re.compile(r"\bCode(?:::\w+|\([^;{}]*?\)), (\d{3})\b|^\s*\w+ = (2\d\d),", re.M)
ROW = re.compile(r"^\| ([\d, -]+) \| ((?:`[\w/.-]+`(?:, )?)+)", re.M)
PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[(\[{]|[)\]}]|,|//.*')


def arguments(text, at):
    """Of the call whose parenthesis is before `at`: a text each."""
    depth, found, begin = 0, [], at
    for piece in PIECE.finditer(text, at):
        if piece[0] in "([{":
            depth += 1
        elif piece[0] in ")]},":
            if depth == 0:
                found.append(text[begin:piece.start()].strip())
                begin = piece.end()
                if piece[0] != ",":
                    return found
            elif piece[0] != ",":
                depth -= 1
    return found


def literals(argument):
    return "".join(piece[0][1:-1] for piece in PIECE.finditer(argument) if piece[0][0] == '"')


texts = {path: path.read_text() for folder in ("base", "compiler", "dialects", "kernels", "runtime", "tools")
         for path in sorted((source / folder).rglob("*")) if path.suffix in (".cpp", ".h")}
places = collections.defaultdict(set)  # of the number and of the message among a function's arguments; the latter may be another's
for text in texts.values():
    for name, parameters in FUNCTION.findall(text):
        names = [each.split(" = ")[0] for each in parameters.split(",")]
        number = next(i for i, each in enumerate(names) if each.endswith("int number"))
        places[name].add((number, next((i for i, each in enumerate(names) if i > number and MESSAGE.search(each)), None)))
CALL = re.compile(rf"\b({'|'.join(places) or '(?!)'})\(")

where, messages = collections.defaultdict(set), collections.defaultdict(set)
for path, text in texts.items():
    path = path.relative_to(source).as_posix()
    for listed in LISTED.finditer(text):
        where[int(listed[1] or listed[2])].add(path)
    for call in CALL.finditer(text):
        given = arguments(text, call.end())
        for number, message in places[call[1]]:
            if number < len(given) and re.fullmatch(r"\d{3}", given[number]):
                where[int(given[number])].add(path)
                messages[int(given[number])].add(literals(given[message]) if message and message < len(given) else "")
ranges = [(int(low), int(high or low), re.findall("`([^`]+)`", folders))
          for numbers, folders in ROW.findall((source / "base/README.md").read_text())
          for low, high in re.findall(r"(\d+)(?:-(\d+))?", numbers)]
wrong = [f"Z{number:04} stands in {' and '.join(sorted(files))}" for number, files in sorted(where.items()) if len(files) > 1]
wrong += [f"Z{number:04} of {min(where[number])} says " + " and ".join(f'"{message}"' for message in sorted(said))
          for number, said in sorted(messages.items()) if len(said) > 1]
wrong += [f"Z{number:04} of {file} is in no range of its folder in base/README.md" for number, files in sorted(where.items()) for file in sorted(files)
          if not any(low <= number <= high and file.startswith(tuple(folders)) for low, high, folders in ranges)]
print("\n".join([f"{len(where)} numbers", *wrong]))
sys.exit(bool(wrong))

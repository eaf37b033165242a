#!/usr/bin/env python3
"""Each Z-number is one file's and one meaning's, and lies in a range of runtime/base/README.md that names who uses it.

  error_numbers.py SOURCE      the repository; prints how many numbers there are, fails naming those that stand in two files, or in
                               one with two messages: the literals of the expression that says it are what tells them apart
"""
import collections, pathlib, re, sys

source = pathlib.Path(sys.argv[1])
# makeError(Code::usage, 403, ...), violation(403, ...) and the like, and the enumerators of compiler/import.
CALL = re.compile(r"(?:\bCode::\w+,|\b(?:fail\w*|violation|refuse\w*)\()\s*(\d{3})\s*[,}]|^\s*\w+ = (2\d\d),", re.M)
ranges = [(int(low), int(high)) for low, high in re.findall(r"^\| (\d{4})-(\d{4}) \|", (source / "runtime/base/README.md").read_text(), re.M)]
LABEL = re.compile(r'\s*"\w+_c\d+",')
PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|[(\[{]|[)\]}]|,')


def message_at(text, at):
    """The literals of the argument that begins at `at`, behind a constraint's label if there is one."""
    label = LABEL.match(text, at)
    depth, words = 0, []
    for piece in PIECE.finditer(text, label.end() if label else at):
        if piece[1] is not None:
            words.append(piece[1])
        elif piece[0] in "([{":
            depth += 1
        elif depth == 0:
            break
        elif piece[0] != ",":
            depth -= 1
    return "".join(words)


where = collections.defaultdict(set)
messages = collections.defaultdict(set)
for folder in ("compiler", "dialects", "kernels", "runtime", "tools"):
    for path in sorted((source / folder).rglob("*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        text = path.read_text()
        for call in CALL.finditer(text):
            number = int(call[1] or call[2])
            where[number].add(str(path.relative_to(source)))
            if call[1]:
                messages[number].add(message_at(text, call.end()))
wrong = [f"Z{number:04} stands in {' and '.join(sorted(files))}" for number, files in sorted(where.items()) if len(files) > 1]
wrong += [f"Z{number:04} of {min(where[number])} says " + " and ".join(f'"{message}"' for message in sorted(said))
          for number, said in sorted(messages.items()) if len(said) > 1]
wrong += [f"Z{number:04} of {min(files)} is in no range of runtime/base/README.md" for number, files in sorted(where.items())
          if not any(low <= number <= high for low, high in ranges)]
print("\n".join([f"{len(where)} numbers", *wrong]))
sys.exit(bool(wrong))

#!/usr/bin/env python3
"""Each Z-number is one file's, and lies in a range of runtime/base/README.md that names who uses it.

  error_numbers.py SOURCE      the repository; prints how many numbers there are, fails naming those that stand in two files
"""
import collections, pathlib, re, sys

source = pathlib.Path(sys.argv[1])
# makeError(Code::usage, 403, ...), violation(403, ...) and the like, and the enumerators of compiler/import.
CALL = re.compile(r"(?:\bCode::\w+,|\b(?:fail\w*|violation|refuse\w*)\()\s*(\d{3})\s*[,}]|^\s*\w+ = (2\d\d),", re.M)
ranges = [(int(low), int(high)) for low, high in re.findall(r"^\| (\d{4})-(\d{4}) \|", (source / "runtime/base/README.md").read_text(), re.M)]
where = collections.defaultdict(set)
for folder in ("compiler", "dialects", "kernels", "runtime", "tools"):
    for path in sorted((source / folder).rglob("*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        for number in CALL.findall(path.read_text()):
            where[int(number[0] or number[1])].add(str(path.relative_to(source)))
wrong = [f"Z{number:04} stands in {' and '.join(sorted(files))}" for number, files in sorted(where.items()) if len(files) > 1]
wrong += [f"Z{number:04} of {min(files)} is in no range of runtime/base/README.md" for number, files in sorted(where.items())
          if not any(low <= number <= high for low, high in ranges)]
print("\n".join([f"{len(where)} numbers", *wrong]))
sys.exit(bool(wrong))

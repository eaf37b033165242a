#!/usr/bin/env python3
"""What scripts share (test/support/e2e.py): cases that may meet in a file, or change what all have, fail whoever is first; what is made once for
several; what is drawn of many, each day others; files that are whole or not there."""
import os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, covering
from onnx_write import replaced

suite = Suite(__doc__)
BEGIN = """
import itertools, os, pathlib, subprocess, sys
sys.path.insert(0, {support!r})
from e2e import Suite
suite, numbers = Suite("of a script"), itertools.count()
file = suite.dir / "file"
write = lambda: file.write_text("a") and None
process = lambda: subprocess.run(["cp", "/dev/null", file]) and None
read = lambda: file.read_text() and None
made = lambda: suite.once("file", lambda: file.write_text("a") and file).read_text() and None
def environment(): os.environ["ZC_OF_ALL"] = "1"
def folder(): os.chdir("/")
def run(*functions): suite.run([(f"case {{next(numbers)}}", function) for function in functions])
"""


def script(text, *flags, **environment):
    """What a script of that text says."""
    return subprocess.run([sys.executable, "-c", BEGIN.format(support=str(ROOT / "test/support")) + text + "\nsuite.finish()", *flags], capture_output=True, text=True,
                          env={**{key: value for key, value in os.environ.items() if key not in ("ZC_FULL", "ZC_SEED")}, **environment}).stdout


def ends(text, totals, *words, flags=()):
    def run():
        said = script(text, *flags)
        if not said.endswith(totals + "\n") or [word for word in words if word not in said]:
            raise Case(said)
    return f"{text} {' '.join(flags)}".strip(), run


def drawn():
    """Each day others, which a seed repeats; each value at its place; all where all are asked for."""
    text = "import itertools\nprint(suite.draw(itertools.product(range(5), 'abc', (None, 'x')), 7))"
    one, again, other = (script(text, ZC_SEED=str(seed)) for seed in (1, 1, 2))
    everything, filtered = script(text, ZC_FULL="1"), script(text, "--filter", "a")
    if one != again or one == other or "drawn 7 of 30 similar cases: ZC_SEED=1 draws them again, ZC_FULL=1 all" not in one:
        raise Case(f"{one}{again}{other}")
    if everything.count("(") != 30 or everything != filtered or "drawn" in everything:
        raise Case(everything + filtered)
    today = re.search(r"ZC_SEED=(\d+)", script(text))
    if not today or script(text, ZC_SEED=today[1]) != script(text):
        raise Case(script(text))


def covered():
    """Every value there is at a place, also where that takes more cases than were asked for."""
    import random
    cases = [(a, b, (a + b) % 7) for a in range(9) for b in "xyz" for b in (ord(b),)]
    for count in (1, 9, 20, 27):
        chosen = covering(cases, count, random.Random(count))
        values = [{cases[i][at] for i in chosen} for at in range(3)]
        if values != [{case[at] for case in cases} for at in range(3)] or chosen != sorted(set(chosen)) or not count <= len(chosen) <= max(count, 12):
            raise Case(f"{count}: {chosen}, {values}")


def whole_or_not():
    path = suite.dir / "whole"
    with replaced(path) as file:
        file.write(b"one")
        if path.exists():
            raise Case("it is there before it is whole")
    try:
        with replaced(path) as file:
            file.write(b"half")
            raise KeyError
    except KeyError:
        pass
    if path.read_bytes() != b"one" or list(suite.dir.glob("whole*")) != [path]:
        raise Case(f"{path.read_bytes()}, {list(suite.dir.glob('whole*'))}")


MEET = '"file" is written by one and used by the other of'
suite.run([ends(f"run({one}, {other})", "1 passed, 1 failed", MEET, '"case 0"', '"case 1"')
           for one, other in (("write", "write"), ("process", "write"), ("write", "process"), ("process", "process"), ("write", "read"))] +
          [ends("write(); run(read, read, read)", "3 passed, 0 failed"), ends("run(write); run(write, lambda: None)", "3 passed, 0 failed"),
           ends("write(); run(read, write)", "1 passed, 1 failed", MEET), ends("run(write, write)", "2 passed, 0 failed", flags=("--jobs", "1")),
           ends("run(made, made, made)", "3 passed, 0 failed"), ends("run(made, lambda: made() or write())", "1 passed, 1 failed", '"several cases"'),
           ends("run(environment, environment)", "0 passed, 2 failed", "the environment is that of all cases"), ends("run(environment)", "1 passed, 0 failed"),
           ends("run(folder, lambda: None)", "1 passed, 1 failed", "the working directory is that of all cases"),
           ("drawn", drawn), ("covered", covered), ("whole or not there", whole_or_not)])
suite.finish()

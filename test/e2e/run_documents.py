#!/usr/bin/env python3
"""The contracts of docs/ against what they are about: cli.md against `--help-all` of both tools and `zero`'s help, onnx.md against the importer's table
of operators, pages, sources and files that documents and sources cite against the tree."""
import json, os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite

suite = Suite(__doc__)
DOCS = ROOT / "docs"


def section(text, title):
    """What stands below a heading, up to the next one of its level or above."""
    level = title.split(" ")[0]
    found = re.search(rf"^{re.escape(title)}\n(.*?)(?=^#{{2,{len(level)}}} |\Z)", text, re.M | re.S)
    if not found:
        raise Case(f'no section "{title}"')
    return found[1]


def first_cells(text):
    """Of the tables' rows, less their heads."""
    cells = [re.split(r"(?<!\\)\|", line)[1] for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell.strip() not in ("flag", "operators", "operator (since)", "code", "tool")]


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text))


def documented(title, command=""):
    """Flags of a section; those of commands are in sections of their own."""
    text = section((DOCS / "cli.md").read_text(), title)
    if title.startswith("## "):
        text = text.split("\n### ")[0]
    prose = re.findall(r"Flags: (.*)", text)
    return flags_in(" ".join(first_cells(text) + prose))


def help_all(tool):
    """command ("" for the tool itself) -> flags."""
    text = suite.tool(tool, "--help-all")
    main, _, commands = text.partition("\nSubcommands:\n")
    parts = {"": main}
    for name, body in re.findall(r"^([a-z][a-z-]*)\n((?:  .*\n|\s*\n)+)", commands, re.M):
        parts[name] = body
    return {name: set().union(*(flags_in(line.split("  ")[0]) for line in
                                (row.strip() for row in body.splitlines()) if line.startswith("-"))) for name, body in parts.items()}


def compare(what, said, there):
    missing, extra = sorted(there - said), sorted(said - there)
    if missing or extra:
        raise Case(f"{what}: not in docs/cli.md: {' '.join(missing) or '-'}; only there: {' '.join(extra) or '-'}")
    return f"{len(there)} flags"


def flags_of(tool, command):
    title = f"### {tool} {command}" if command else f"## {tool}"
    return lambda: compare(f"{tool} {command}".strip(), documented(title), help_all(tool)[command])


def every_command_has_its_section():
    titles = set(re.findall(r"^### zero-run (.*)$", (DOCS / "cli.md").read_text(), re.M))
    compare("commands of zero-run", titles, set(help_all("zero-run")) - {""})


def python_help(*command):
    """Of the package's command, which needs no torch for that."""
    return subprocess.run([sys.executable, "-m", "zero_compile", *command, "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "200"}).stdout


def python_command(command):
    def run():
        rows = re.findall(r"^  (-.*)$", python_help(command), re.M)
        return compare(f"zero {command}", documented(f"### zero {command}"), set().union(*(flags_in(row.split("  ")[0]) for row in rows)))
    return f"flags of zero {command}", run


def every_python_command():
    titles = set(re.findall(r"^### zero (.*)$", (DOCS / "cli.md").read_text(), re.M))
    return compare("commands of zero", titles, set(re.search(r"\{([a-z,]+)\}", python_help())[1].split(",")))


def failpoints():
    """Every place that a test can make fail is one that a rule may name, and there is no other."""
    sources = {path: path.read_text() for folder in ("base", "runtime", "kernels", "tools") for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h")}
    table = sources.pop(ROOT / "base/Failpoint.cpp")
    named = set(re.findall(r'"([a-z.]+)"', re.search(r"kSites\[\] = \{(.*?)\};", table, re.S)[1])) - {"nothing"}
    text = "\n".join(sources.values())
    passed = set(re.findall(r'(?:failpoint|isToFail|injected|moved|passFault|faultOr)\(\s*"([a-z.]+)"', text))
    if unknown := sorted(passed - named):
        raise Case(f"not in kSites: {' '.join(unknown)}")
    if idle := sorted(name for name in named if f'"{name}"' not in text):
        raise Case(f"nobody passes {' '.join(idle)}")
    return f"{len(named)} failpoints"


def names_of_others():
    """Flags that others call otherwise are flags here, and their names are not."""
    table = re.search(r"kElsewhere\[\] = \{\n(.*?)\n\};", (ROOT / "base/Suggest.cpp").read_text(), re.S)[1]
    rows = re.findall(r'\{"([\w-]+)",\s*"(--?[a-z-]+)[^"]*",\s*\{([^}]*)\}', table)
    for tool, flag, names in rows:
        there = help_all(tool)[""]
        wrong = [flag] * (flag not in there) + sorted(set(re.findall(r'"(--[^"]+)"', names)) & there)
        if wrong:
            raise Case(f"{tool}: {' '.join(wrong)}")
    if len(rows) != (listed := table.count('{"zero-')):
        raise Case(f"{len(rows)} rows read of {listed}")
    return f"{len(rows)} flags"


def exit_codes():
    """The table's numbers are those of zc::Code."""
    text = (ROOT / "base/Status.h").read_text()
    codes = set(re.findall(r"^\s+\w+ = (\d+),", re.search(r"enum class Code.*?\{(.*?)\};", text, re.S)[1], re.M))
    said = {cell.strip() for cell in first_cells(section((DOCS / "cli.md").read_text(), "## Messages and exit codes"))} - {"128+n"}
    compare("exit codes", said, codes)


def operators():
    table = {cell.strip() for cell in first_cells((ROOT / "compiler/import/OPERATORS.md").read_text())} - {"operator"}
    text = (DOCS / "onnx.md").read_text()
    name = r"(?:[a-z]+(?:\.[a-z]+)*\.)?[A-Z]\w+"
    said = set(re.findall(name, " ".join(first_cells(section(text, "### 5.1 The operators of 1.1, and fused ones of language models") +
                                                     section(text, "### 5.2 Further ones")))))
    missing, extra = sorted(table - said), sorted(said - table)
    if missing or extra:
        raise Case(f"operators: not in docs/onnx.md: {' '.join(missing) or '-'}; only there: {' '.join(extra) or '-'}")
    refused = set(re.findall(name, section(text, "### 5.3 Not there").strip().split("\n\n")[0])) & table
    if refused:
        raise Case(f'"not there", but there: {" ".join(sorted(refused))}')
    return f"{len(table)} operators"


def tracked():
    """Files of the tree; without git, of an archive, all there are."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if done.returncode == 0:
        return [ROOT / line for line in done.stdout.splitlines()]
    return [path for path in ROOT.rglob("*") if path.is_file() and "build" not in path.relative_to(ROOT).parts]


def links():
    """Of documents, to files beside them."""
    broken, count = [], 0
    for page in (path for path in tracked() if path.suffix == ".md" and path.exists()):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)):
            if not target.startswith(("http:", "https:", "mailto:")):
                count += 1
                if not (page.parent / target).exists():
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
    if broken:
        raise Case("broken links: " + "; ".join(broken))
    return f"{count} links"


def cited_sources():
    """Sources that documents name in code: beside the page, from the root, or the end of one path. docs/style.md names other projects'."""
    paths = {path.relative_to(ROOT).as_posix() for path in tracked()}
    ends = {"/".join(path.split("/")[-parts:]) for path in paths for parts in range(1, path.count("/") + 2)}
    broken, count = [], 0
    for page in (path for path in tracked() if path.suffix == ".md" and path.exists() and path != DOCS / "style.md"):
        for name in re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:cpp|h|td|cu|py|sh|proto))`", page.read_text()):
            count += 1
            beside = pathlib.Path(os.path.normpath(page.parent / name))
            if name not in ends and not beside.exists():
                broken.append(f"{page.relative_to(ROOT)}: {name}")
    if broken:
        raise Case("no such source: " + "; ".join(broken))
    return f"{count} names"


def cited_pages():
    """Pages of docs/, and by their names alone others, named in sources, scripts and documents."""
    broken, pages = [], {path.name for path in tracked() if path.suffix == ".md"}
    for path in tracked():
        if path.suffix in (".h", ".cpp", ".td", ".py", ".sh", ".md", ".txt", ".mlir", ".test") and path.exists():
            names = set(re.findall(r"(?<![\w./])docs/[\w-]+\.md", path.read_text(errors="replace")))
            broken += [f"{path.relative_to(ROOT)}: {name}" for name in names if name != "docs/SupportedONNXOps-cpu.md" and not (ROOT / name).exists()]
            alone = set(re.findall(r"(?<![\w./])[A-Z]+\.md", path.read_text(errors="replace")))
            broken += [f"{path.relative_to(ROOT)}: {name}" for name in alone - pages]
    if broken:
        raise Case("no such page: " + "; ".join(broken))


def named_tests():
    """Each test that docs/safety.md names for a case or a bad input: its file, and in it the name."""
    rows = re.findall(r"^\| (F?\d\S*(?:, F?\d\S*)*) \| (.*) \|$", section((DOCS / "safety.md").read_text(), "### Which test shows it"), re.M)
    covered, broken = set(), []
    for case, text in rows:
        for first, last in re.findall(r"F(\d+)(?:-F(\d+))?", case):
            covered |= set(range(int(first), int(last or first) + 1))
        for file, names in re.findall(r"`(test/[^`]+)`(?:: ((?:`\w+`(?:, |; )?)+))?", text):
            body = (ROOT / file).read_text() if (ROOT / file).exists() else ""
            broken += [f"{case}: {file} {name}" for name in ["", *re.findall(r"`(\w+)`", names)] if not body or name not in body]
    broken += [f"F{number} has no row" for number in range(1, 60) if number not in covered]
    if broken:
        raise Case("; ".join(broken))
    return f"{len(rows)} rows"


def scripts():
    """Each script beside a README, and what every other room stands on, is named there."""
    readmes = {path.parent: path.read_text() for path in tracked() if path.name == "README.md" and path.exists()}
    there = [path for path in tracked() if path.parent in readmes and path.parent != ROOT / "test" and
             (path.suffix in (".py", ".sh") or path.match("base/*.h"))]
    missing = [str(path.relative_to(ROOT)) for path in there if not re.search(rf"(?<![\w.]){re.escape(path.name)}\b", readmes[path.parent])]
    if missing:
        raise Case("not in their folder's README: " + " ".join(missing))
    return f"{len(there)} files"


def first_page():
    """README.md is what a stranger reads to the end."""
    lines = len((ROOT / "README.md").read_text().splitlines())
    if lines > 120:
        raise Case(f"README.md has {lines} lines, at most 120: details belong into docs/")
    return f"{lines} lines"


def shown():
    """What README.md shows of the compiler's answers, which depend on no machine, is what it answers; `...` stands for more."""
    text, compared = (ROOT / "README.md").read_text(), 0
    for block in re.findall(r"^```\n(\$ zero-compile .*?)^```", text, re.M | re.S):
        for command, said in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            words = command.split()
            if words[0] != "zero-compile" or not said:
                continue
            code = 5 if said.startswith("error") else 0
            words = [str(suite.dir / word) if word == "gpt.plan" else word for word in words]
            done = subprocess.run([str(suite.bin / words[0]), *words[1:]], capture_output=True, text=True, cwd=ROOT)
            if done.returncode != code:
                raise Case(f"exit code {done.returncode}: {command}")
            answer, at = (done.stdout + done.stderr).splitlines(), 0
            for line in filter(None, said.splitlines()):
                if line != "..." and line not in answer[at:]:
                    raise Case(f"not said any more: {line}")
                at = answer.index(line, at) + 1 if line != "..." else at
                compared += 1
    planned = re.search(r'"planned":(\d+)', text)[1]
    tiers = json.loads(suite.tool("zero-compile", ROOT / "examples/gpt/gpt.onnx", "--world-size", 4, "--zero-stage", 3, "--dim", "batch=8", "--clip-grad-norm", "1.0",
                                  "--dry-run", "--json"))["tiers"]
    if int(planned) != tiers["device"]["peak_bytes"]:
        raise Case(f"{planned} bytes planned, {tiers['device']['peak_bytes']} now")
    if compared < 12:
        raise Case(f"{compared} lines")
    return f"{compared} lines"


cases = [("flags of zero-compile", flags_of("zero-compile", "")), ("flags of zero-run", flags_of("zero-run", ""))]
cases += [(f"flags of zero-run {command}", flags_of("zero-run", command)) for command in sorted(set(help_all("zero-run")) - {""})]
cases += [python_command(command) for command in ("export", "tokens", "import", "train")]
cases += [("commands of zero-run", every_command_has_its_section), ("commands of zero", every_python_command), ("names that others give flags", names_of_others), ("failpoints", failpoints), ("exit codes", exit_codes),
          ("operators", operators), ("tests of docs/safety.md", named_tests), ("links", links), ("cited sources", cited_sources), ("cited pages", cited_pages), ("scripts", scripts),
          ("length of README.md", first_page), ("what README.md shows", shown)]
suite.run(cases)
suite.finish()

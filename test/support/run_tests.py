#!/usr/bin/env python3
"""Runs one suite and counts its tests.

  run_tests.py ctest BUILD [REGEX]    every program that CMake registered as a test (whose name matches), gtest cases counted
                                      one by one
  run_tests.py lit BUILD              every lit suite configured under BUILD/test
  run_tests.py script FILE.py...      end-to-end scripts; each ends with a line `N passed, N failed[, N skipped]`; exit code 77: skipped
  run_tests.py format                 clang-format over all C++ under version control, a file is a test

As many programs and scripts run at once as there are cores (ZC_TEST_JOBS), so none may count on a quiet machine. Prints what failed, with
its output, and as its last line `N passed, N failed, N skipped`. Exit code 1 if anything failed or
nothing ran. A program that crashes, hangs (ZC_TEST_TIMEOUT, default 1800 s) or counts no test at all is a failure.
"""
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml

TIMEOUT = int(os.environ.get("ZC_TEST_TIMEOUT", "1800"))
LIT = os.environ.get("ZC_LIT", "/usr/lib/llvm-19/build/utils/lit/lit.py")
JOBS = int(os.environ.get("ZC_TEST_JOBS") or len(os.sched_getaffinity(0)))
SKIP_CODE = 77
# Who runs tests in the background, or by nohup, has them ignore signals that tests send: shells could not even trap them.
AS_FROM_A_TERMINAL = ("env", "--default-signal")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped=0):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped


def execute(command, cwd=None, env=None):
    """-> (exit code, output, CPU seconds of it and what it waited for); the whole process group is ended at the time limit, exit code 124. Open MPI
    has a folder for its files: in the one of all jobs of a user, a job that ends takes away what another is making."""
    with tempfile.TemporaryDirectory(prefix="zc-", ignore_cleanup_errors=True) as folder:
        p = subprocess.Popen([*AS_FROM_A_TERMINAL, *command], cwd=cwd, env={**(env or os.environ), "OMPI_MCA_orte_tmpdir_base": folder},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        ended = []
        timer = threading.Timer(TIMEOUT, lambda: (ended.append(f"\nended after {TIMEOUT} s"), os.killpg(p.pid, signal.SIGKILL)))
        timer.start()
        with p.stdout:
            out = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        timer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        return 124 if ended else p.returncode, out + "".join(ended), usage.ru_utime + usage.ru_stime


TAIL, FINDING, AGAIN = 60, 100, 20  # lines


def excerpt(out):
    """The last lines, and before them those in which a sanitizer begins to tell: there the two accesses stand."""
    lines = out.splitlines()
    rest = max(0, len(lines) - TAIL)
    finding = next((i for i, line in enumerate(lines[:rest]) if re.search(r"(ERROR|WARNING): \w+Sanitizer|runtime error: ", line)), None)
    if finding is None:
        return lines[rest:]
    end = min(finding + FINDING, rest)
    return [*lines[finding:end], *([f"({rest - end} lines left out)"] if end < rest else []), *lines[rest:]]


def report(name, code, out):
    """The lines of a test that failed; the last of them go to ZC_TEST_FAILURES too, which test/run.sh shows after all suites."""
    lines = [f"---- {name}: exit code {code}", *excerpt(out)]
    if path := os.environ.get("ZC_TEST_FAILURES"):
        with open(path, "a") as file:
            file.write("\n".join([lines[0], *lines[1:][-AGAIN:]]) + "\n")
    return lines


def told(name, result, began, cpu):
    """What a test's line says: seconds by the clock, which other work on the machine makes more of, and of the CPU."""
    passed, failed, skipped = result
    return f"{name}: {passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "") + f" ({time.monotonic() - began:.0f} s, {cpu:.0f} of CPU)"


def reasons_in(out):
    """Why tests were skipped, a line each."""
    return [line for line in out.splitlines() if line.startswith("skip ")]


def junit(path):
    """(passed, failed, skipped) of a JUnit or gtest file."""
    passed = failed = skipped = 0
    for case in xml.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def at_once(run, tests, count):
    """Counts (passed, failed, skipped) and prints the lines of each run(test), as they end."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for ended in concurrent.futures.as_completed([pool.submit(run, test) for test in tests]):
            result, lines = ended.result()
            print("\n".join(lines), flush=True)
            count.add(*result)


def run_ctest(build, pattern, count):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)

    def run(test):
        name, command = test["name"], test.get("command")
        if not command:
            return (0, 1, 0), report(name, "-", "its program was not built")
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        with tempfile.TemporaryDirectory() as folder:
            cases = os.path.join(folder, "cases.xml")
            env = dict(os.environ, GTEST_OUTPUT=f"xml:{cases}", GTEST_COLOR="no")
            env.update(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
            began = time.monotonic()
            code, out, cpu = execute(command, properties.get("WORKING_DIRECTORY", build), env)
            result = junit(cases) if os.path.exists(cases) else totals(out) or (int(code == 0), 0, 0)
        out = re.sub(r"\[ RUN +\] .*\n\[ +OK \] .*\n", "", out) # what is left of a crash says in which case
        # A crash after the last case, or a leak found at exit, fails a program whose cases all passed.
        if code == SKIP_CODE:
            return (0, 0, 1), [f"{name}: skipped: {(out.rstrip().splitlines() or ['no reason given'])[-1]}"]
        if (code != 0 and result[1] == 0) or sum(result) == 0:
            result = (result[0], 1, result[2])
        return result, [*(report(name, code, out) if result[1] else []), told(name, result, began, cpu), *reasons_in(out)]

    at_once(run, [test for test in json.loads(shown.stdout)["tests"] if re.search(pattern, test["name"])], count)


def run_lit(build, count):
    for site in sorted(glob.glob(os.path.join(build, "**", "lit.site.cfg.py"), recursive=True)):
        with tempfile.TemporaryDirectory() as folder:
            cases = os.path.join(folder, "cases.xml")
            code, out, _ = execute([sys.executable, LIT, "-v", "-j", str(JOBS), "--xunit-xml-output", cases, os.path.dirname(site)])
            result = junit(cases) if os.path.exists(cases) else (0, 0, 0)
        if (code != 0 and result[1] == 0) or sum(result) == 0:
            result = (result[0], result[1] + 1, result[2])
        if result[1]:
            print(*report(site, code, "\n".join(line for line in out.splitlines() if not line.startswith("PASS"))), sep="\n")
        count.add(*result)


def totals(out):
    """What the last line of that kind says: a process that ends, or one that it began, may say something behind it."""
    found = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", out, re.M)
    return tuple(int(v or 0) for v in found[-1]) if found else None


def run_scripts(files, count):
    def run(path):
        name = os.path.basename(path)
        began = time.monotonic()
        code, out, cpu = execute([sys.executable, path])
        result = totals(out)
        drawn = re.search(r"^drawn (\d+ of \d+ similar cases: ZC_SEED=\d+)", out, re.M)
        reasons = reasons_in(out)
        if code == SKIP_CODE:
            why = [line[5:].strip() for line in reasons] or out.rstrip().splitlines()[-1:] or ["no reason given"]
            return result or (0, 0, 1), [f"{name}: skipped: {reason}" for reason in why]
        if result is None or sum(result) == 0 or (code != 0 and result[1] == 0):
            result = (result[0] if result else 0, 1, 0)
        return result, [*(report(name, code, out) if result[1] else []), told(name, result, began, cpu) + (f", {drawn[1]}" if drawn else ""), *reasons]

    at_once(run, files, count)


def run_format(_, count):
    # Whoever owns the folder: git refuses those of others.
    files = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.cpp", "*.h"], capture_output=True, text=True, check=True).stdout.split()
    code, out, _ = execute(["clang-format-19", "--dry-run", *files])
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning: code should be clang-formatted", out, re.M)))
    if code or wrong:
        print(*report("clang-format-19", code, "\n".join(wrong) or out), sep="\n")
    count.add(len(files) - len(wrong), len(wrong) or int(code != 0))


SUITES = {"ctest": lambda a, c: run_ctest(a[0], (a[1:] or [""])[0], c), "lit": lambda a, c: run_lit(a[0], c), "script": run_scripts, "format": run_format}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in SUITES:
        sys.exit(__doc__)
    count = Count()
    SUITES[sys.argv[1]](sys.argv[2:], count)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    sys.exit(1 if count.failed or not (count.passed or count.skipped) else 0)


if __name__ == "__main__":
    main()

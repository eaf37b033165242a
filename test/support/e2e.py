"""What the end-to-end scripts share: finding the tools and the fixtures, running a case, counting."""
import argparse, concurrent.futures, json, os, pathlib, random, re, struct, subprocess, sys, tempfile, threading, time

from beside import Ledger
from onnx_write import replaced

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("mlp", "gpt2", "llama", "bert")
FULL = bool(os.environ.get("ZC_FULL"))
SEED = int(os.environ.get("ZC_SEED") or time.time() // 86400)  # of what is drawn: the day's


class Case(Exception):
    """A case that failed, with what a person needs to see."""


class Skip(Exception):
    """A case that this machine cannot run, with the reason."""


class Suite:
    """Runs cases in parallel, prints one line each and `N passed, N failed[, N skipped]` last."""

    models = ROOT / "test/models"

    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--bin", default=os.environ.get("ZC_BIN", ROOT / "build/release/bin"), help="folder of the tools")
        parser.add_argument("--jobs", type=int, default=2)
        parser.add_argument("--filter", default="", help="only cases whose name contains this")
        parser.add_argument("-v", "--verbose", action="store_true", help="passed cases too, one line each")
        self.args = parser.parse_args()
        self.bin = pathlib.Path(self.args.bin).resolve()
        self.temp = tempfile.TemporaryDirectory(prefix="zc-e2e-", ignore_cleanup_errors=True)  # what was killed may write for a moment
        self.dir = pathlib.Path(self.temp.name)
        self.passed = self.failed = self.skipped = self.drawn = self.offered = 0
        self.seen, self.made, self.lock, self.ledger = {}, {}, threading.Lock(), Ledger(self.dir, Case)

    def exports(self, model):
        """Exports that golden.json is valid for."""
        all_exports = json.loads((self.models / model / "exports.json").read_text())["exports"]
        return [name for name, export in all_exports.items() if export["golden"]]

    def run(self, cases):
        """cases: (name, function); a function returns a remark or raises Case. What is listed again under its name runs once: cases
        train into folders named after them. Another function under that name is a mistake; so is a file that one of several cases writes and
        another uses (beside.py), which fails."""
        once = []
        for name, function in cases:
            if name in self.seen and not same_function(self.seen[name], function):
                self.failed += 1
                print(f"FAIL  {name}  two cases have this name", flush=True)
            elif self.args.filter in name and name not in self.seen:
                once.append((name, function))
            self.seen.setdefault(name, function)
        self.ledger.begin(len(once) > 1 and self.args.jobs > 1)
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for (name, _), future in [(case, pool.submit(self.run_one, *case)) for case in once]:
                try:
                    remark = future.result() or ""
                    self.passed += 1
                    if self.args.verbose:
                        print(f"ok    {name}  {remark}", flush=True)
                except Skip as reason:
                    self.skipped += 1
                    print(f"skip  {name}  {reason}", flush=True)
                except Exception as failure:  # a defect of a case is a failure of the case
                    self.failed += 1
                    text = str(failure) if isinstance(failure, Case) else repr(failure)
                    print(f"FAIL  {name}  {text}", flush=True)

        self.ledger.begin(False)

    def run_one(self, name, function):
        with self.ledger.case(name):
            return function()

    def once(self, key, make):
        """What `make` returns, called by the first that asks for `key`, for several cases: they may read the files that it writes."""
        with self.lock:
            is_first, result = key not in self.made, self.made.setdefault(key, concurrent.futures.Future())
        if is_first:
            try:
                with self.ledger.case(None):
                    result.set_result(make())
            except BaseException as failure:
                result.set_exception(failure)
        return result.result()

    def draw(self, cases, count, covering_values=True):
        """`count` of many similar cases, which are tuples: among them each value that any has at its place (`covering_values`), and each day others.
        All of them with ZC_FULL=1, or where a filter asks for some."""
        cases = list(cases)
        chosen = range(len(cases))
        if count < len(cases) and not FULL and not self.args.filter:
            dice = random.Random(f"{SEED} {pathlib.Path(sys.argv[0]).name} {self.offered}")
            chosen = covering(cases, count, dice) if covering_values else sorted(dice.sample(chosen, count))
            self.drawn, self.offered = self.drawn + len(chosen), self.offered + len(cases)
        return [cases[i] for i in chosen]

    def finish(self):
        self.temp.cleanup()
        if self.offered:
            print(f"drawn {self.drawn} of {self.offered} similar cases: ZC_SEED={SEED} draws them again, ZC_FULL=1 all")
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))
        nothing = SKIPPED if self.skipped else 1
        sys.exit(1 if self.failed else 0 if self.passed else nothing)

    def tool(self, name, *args, code=0, fault="", environment=None):
        """stdout, or stderr of what must fail; the exit code must be `code`. `fault`: as ZERO_FAULT, which other cases do not see; nor `environment`."""
        command = [str(self.bin / name), *map(str, args)]
        more = {**(environment or {}), **({"ZERO_FAULT": fault} if fault else {})}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600, env={**os.environ, **more})
        if done.returncode != code:
            raise Case(f"{' '.join(command)}\n      exit code {done.returncode}: {done.stderr.strip()[-1500:]}")
        return done.stderr if code else done.stdout

    def mpirun(self, ranks):
        """The words before a program of that many ranks. Open MPI's files have a folder of their own: in the one of all jobs of a user, a job
        that ends takes away what another one that begins is making."""
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "orte_tmpdir_base", tempfile.mkdtemp(prefix="mpi-", dir=self.dir),
                "-np", str(ranks)]

    def compile(self, model, plan, *flags):
        self.tool("zero-compile", model, *flags, "-o", plan)
        return plan

    def plan_hash(self, plan):
        """Of all that is executed, whatever flags it was compiled by."""
        return re.search(r"plan hash (\w{16})", self.tool("zero-run", "inspect", plan))[1]

    def train(self, plan, out, *flags):
        """Metrics, one dict per step."""
        self.tool("zero-run", plan, "--out", out, "--quiet", *flags)
        return [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]

    def bits(self, plan, out, *flags):
        """All that bit-identity speaks of: losses, norms, and the bytes of the trained weights."""
        metrics, weights = self.train(plan, out, *flags), pathlib.Path(out) / "exported.safetensors"
        self.tool("zero-run", "export", pathlib.Path(out) / "final", "--safetensors", weights)
        return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights.read_bytes()


def covering(cases, count, dice):
    """The places of `count` cases or a few more, in order: every value that any has at its place is among them."""
    values = [{(at, repr(value)) for at, value in enumerate(case)} for case in cases]
    order, chosen, missing = dice.sample(range(len(cases)), len(cases)), [], set().union(*values)
    while missing:
        chosen.append(max(order, key=lambda i: len(values[i] & missing)))
        missing -= values[chosen[-1]]
    rest = [i for i in order if i not in chosen]
    return sorted(chosen + rest[:max(0, count - len(chosen))])


def same_function(a, b):
    """One function, or the same text over the same values, as lambdas that a loop makes are."""
    def essence(function):
        if not hasattr(function, "__code__"):
            return function
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return function.__code__, function.__defaults__, function.__kwdefaults__, [essence(c) if callable(c) else c for c in cells]
    return a is b or essence(a) == essence(b)


def close(name, got, expected, tolerance):
    """Largest relative difference; raises where it is beyond the tolerance."""
    if len(got) != len(expected):
        raise Case(f"{name}: {len(got)} steps instead of {len(expected)}")
    worst = 0.0
    for step, (a, b) in enumerate(zip(got, expected), 1):
        if a is None or not abs(a - b) <= tolerance * abs(b):
            raise Case(f"{name} at step {step}: {a} instead of {b}")
        worst = max(worst, abs(a - b) / abs(b))
    return worst


def numbers(name):
    """Flags of a plan that computes in fp32, bf16, fp16, or in fp32 with products in TF32."""
    return ("--matmul-precision", "tf32") if name == "tf32" else ("--precision", name)


def same_bits(got, expected):
    for what, a, b in zip(("loss", "grad_norm", "weights"), got, expected):
        same(what, a, b)


def same(name, got, expected):
    if got != expected:
        where = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
        raise Case(f"{name} differs from the first of its group, at {where}")


FORMS = {"I32": ("i", 4), "F32": ("f", 4), "I64": ("q", 8), "BOOL": ("?", 1)}  # of struct, bytes


def write_safetensors(path, tensors):
    """{name: (dtype, shape, flat values)}"""
    table, blob = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}{FORMS[dtype][0]}", *values)
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    head = json.dumps(table).encode()
    with replaced(path) as file:
        file.write(struct.pack("<Q", len(head)) + head + blob)
    return path


def read_safetensors(path):
    """{name: (dtype, shape, flat values)}"""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        form, size = FORMS[entry["dtype"]]
        begin, end = (8 + length + at for at in entry["data_offsets"])
        tensors[name] = entry["dtype"], entry["shape"], list(struct.unpack(f"<{(end - begin) // size}{form}", raw[begin:end]))
    return tensors

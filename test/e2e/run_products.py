#!/usr/bin/env python3
"""Tables of products: bench-machine measures a plan's shapes, and shapes by name; a run takes the table, says so and computes by it, with
the same bits over stages, buckets, tiers, recomputation and devices; files that are no table, of another machine or with choices that are
not to be had are refused, and left as they are."""
import json, os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, same

suite = Suite(__doc__)
os.environ["XDG_CACHE_HOME"] = str(suite.dir / "nothing")  # a table of this machine's user decides nothing here
STEPS = 3
model, data = suite.dir / "gpt.onnx", suite.dir / "gpt.safetensors"
subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", model, "--layers", "2", "--hidden", "256", "--heads", "4", "--vocab",
                "300", "--seq", "32", "--batch", "4", "--seed", "0", "--inputs", data, "--rows", "16"], check=True, stdout=subprocess.DEVNULL)


def compiled(name, *flags):
    return suite.compile(model, suite.dir / f"{name}.plan", *flags)


PLANS = {precision: compiled(precision, "--precision", precision) for precision in ("fp32", "bf16")}
measured, other = suite.dir / "measured.json", suite.dir / "other.json"
suite.tool("zero-run", "bench-machine", *PLANS.values(), "--threads", 2, "--rounds", 1, "-o", measured)


def differently(entry):
    """Another choice than the one that is made without a table."""
    m, n, k = map(int, re.search(r":(\d+)x(\d+)x(\d+)", entry["product"]).groups())
    shorter = "columns" if m >= n else "rows"
    if entry["product"].startswith("f32"):
        batched = entry["product"].count(":") == 3
        return {**entry, "method": {"openblas": "onednn", "onednn": "openblas"}[entry["method"]], "cut": "batch" if batched else shorter}
    return {**entry, "method": "widened", "cut": shorter}


table = json.loads(measured.read_text())
table["products"] = [differently(entry) for entry in table["products"]]
other.write_text(json.dumps(table))


def inspected(plan, products):
    """Lines of products, and of them those that the table decided."""
    text = suite.tool("zero-run", "inspect", plan, "--kernels", "--threads", 2, "--products", products)
    lines = [line for line in text.splitlines() if line.startswith(("matmul", "linear_cross_entropy")) and (" library: " in line or " own: " in line)]
    return lines, [line for line in lines if ", tuned" in line]


def result(plan, name, *flags):
    metrics = suite.train(plan, suite.dir / name, "--data", data, "--steps", STEPS, "--threads", 2, "--nvme-dir", suite.dir, *flags)
    return [(m["loss"], m["grad_norm"]) for m in metrics], (suite.dir / name / "final/weights.safetensors").read_bytes()


def chosen(precision):
    def run():
        lines, tuned = inspected(PLANS[precision], other)
        if not lines or len(tuned) != len(lines):
            raise Case(f"{tuned} of {lines} are chosen by the table")
        if inspected(PLANS[precision], "none")[1]:
            raise Case("there is no table, but something is tuned")
        if precision == "fp32" and not any(" by " in line for line in tuned):
            raise Case(f"{tuned} do not say what threads have")

    return f"{precision} chosen", run


VARIANTS = {"stage 3": ("--zero-stage", 3), "sync": ("--zero-stage", 1), "small buckets": ("--zero-stage", 2, "--bucket-size", "64KiB"),
            "offloaded": ("--zero-stage", 3, "--offload-optimizer", "host", "--offload-param", "nvme", "--prefetch", "none"),
            "recomputed": ("--checkpoint-activations", "block")}
first = {}


def bits(precision, name):
    def run():
        plan = compiled(f"{precision}-{name}".replace(" ", "-"), "--precision", precision, *VARIANTS[name])
        lines, tuned = inspected(plan, other)
        if len(tuned) != len(lines):
            raise Case(f"only {tuned} of {lines} are in the table")
        out = f"out-{precision}-{name}".replace(" ", "-")
        got = result(plan, out, "--products", other, "--device", "sync" if name == "sync" else "cpu")
        for what, a, b in zip(("losses", "weights"), got, first[precision]):
            same(what, a, b)

    return f"{precision} {name}", run


def as_without():
    """A table that says what is done anyway changes nothing."""
    plain = json.loads(measured.read_text())
    plain["products"] = []
    path = suite.dir / "empty.json"
    path.write_text(json.dumps(plain))
    same("losses", result(PLANS["fp32"], "out-empty", "--products", path), result(PLANS["fp32"], "out-none", "--products", "none"))


def start(*flags, cache):
    done = subprocess.run([suite.bin / "zero-run", PLANS["fp32"], "--data", data, "--steps", "1", "--threads", "2", "--out",
                           suite.dir / "out-start", "--overwrite", *flags], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    if done.returncode:
        raise Case(done.stderr)
    return done.stderr


def told():
    """Of the cache folder's table: bench-machine writes it, adds to it, runs say that they use it, or why not."""
    cache = suite.dir / "cache"
    file = cache / "zero-compile/products.json"
    for shape, count in (("f32:nn:96x160x128", 1), ("f32:tn:96x160x128:3", 2), ("f32:nn:96x160x128", 2)):
        subprocess.run([suite.bin / "zero-run", "bench-machine", "--shape", shape, "--rounds", "1"], check=True, capture_output=True,
                       env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        if len(json.loads(file.read_text())["products"]) != count:
            raise Case(f"{file.read_text()} has not {count} products")
    if " as in " in start(cache=cache):
        raise Case("the table has none of the plan's products, but is used")
    subprocess.run([suite.bin / "zero-run", "bench-machine", PLANS["fp32"], "--threads", "2", "--rounds", "1"], check=True,
                   capture_output=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    count = sum(entry["product"].startswith("f32") for entry in json.loads(measured.read_text())["products"])
    if f", {count} products as in {file}" not in start(cache=cache):
        raise Case("the start does not say that there is a table")
    if " as in " in start("--products", "none", cache=cache):
        raise Case("a table is used though there is to be none")
    file.write_text(file.read_text().replace("processor\": \"", "processor\": \"not "))
    text = start(cache=cache)
    if "is of another machine" not in text or " as in " in text:
        raise Case(text)


def damaged(name, change, code, says):
    def run():
        path = suite.dir / f"{name}.json".replace(" ", "-")
        broken = json.loads(other.read_text())
        text = change(broken)
        path.write_text(text if isinstance(text, str) else json.dumps(broken))
        before = path.read_bytes()
        plan = PLANS["fp32"]
        told = [suite.tool("zero-run", plan, "--data", data, "--steps", 1, "--threads", 2, "--out", suite.dir / f"out-{name}", "--products", path, code=code)]
        if name != "cannot be":  # that is a run's to know
            told.append(suite.tool("zero-run", "bench-machine", "--shape", "f32:nn:96x160x128", "--output", path, code=code))
        told.append(suite.tool("zero-run", "inspect", plan, "--kernels", "--threads", 2, "--products", path, code=code))
        if any(says not in text for text in told):
            raise Case(f"{told} do not say {says}")
        same("the file", path.read_bytes(), before)

    return f"refused: {name}", run


def resumed():
    """With the same table the bits of a run that nobody interrupted; with another one it is said."""
    plan, out = PLANS["fp32"], suite.dir / "out-resumed"
    run = [plan, "--data", data, "--threads", 2, "--out", out]
    suite.tool("zero-run", *run, "--steps", STEPS - 1, "--save-every", 1, "--products", other)
    done = subprocess.run([suite.bin / "zero-run", *map(str, run), "--steps", str(STEPS), "--resume", "auto", "--products", "none"],
                          capture_output=True, text=True)
    if done.returncode or "another table of products" not in done.stderr:
        raise Case(done.stderr)
    suite.tool("zero-run", *run[:-1], suite.dir / "out-again", "--steps", STEPS, "--resume", out / f"step-{STEPS - 1}", "--products", other)
    same("weights", (suite.dir / "out-again/final/weights.safetensors").read_bytes(), first["fp32"][1])


def refusals():
    plan = compiled("refusals", "--precision", "fp32")  # of its own: it is given as an output
    bench = lambda *args, code: suite.tool("zero-run", "bench-machine", *args, code=code)
    bench("--rounds", 1, code=2)
    bench(plan, "--nvme-dir", suite.dir, code=2)
    for shape in ("f32:nn:8x8x8", "f64:nn:512x512x512", "512x512x512", "f32:nn:0x512x512", "f32:nn:512x512x512:0"):
        bench("--shape", shape, "-o", suite.dir / "none.json", code=2)
    bench(model, "-o", suite.dir / "none.json", code=10)
    before = plan.read_bytes()
    bench(plan, "-o", plan, code=2)
    same("the plan", plan.read_bytes(), before)
    bench("--shape", "f32:nn:96x160x128", "--rounds", 1, "-o", suite.dir / "absent/none.json", code=6)
    bench("--shape", "f32:nn:96x160x128", "--rounds", 0, "-o", suite.dir / "none.json", code=2)
    bench("--shape", "f32:nn:1000000x1000000x1000", "--rounds", 1, "-o", suite.dir / "none.json", code=5)
    suite.tool("zero-run", plan, "--data", data, "--steps", 1, "--products", suite.dir / "absent.json", "--out", suite.dir / "o", code=3)
    if (suite.dir / "none.json").exists():
        raise Case("a refused table is there")


def no_choice(json_table):
    json_table["products"][0].update(method="packed", cut="own")
    assert json_table["products"][0]["product"].startswith("f32")


for precision, plan in PLANS.items():
    first[precision] = result(plan, f"out-{precision}", "--products", other)
suite.run([chosen(precision) for precision in PLANS] + [bits(precision, name) for precision in PLANS for name in VARIANTS])
suite.run([("as without", as_without), ("told", told), ("resumed", resumed), ("refusals", refusals),
           damaged("no table", lambda t: "{}", 3, "is no table of products"), damaged("no JSON", lambda t: "{\"product_table", 3, "is no table of products"),
           damaged("another version", lambda t: t.update(product_table=9), 10, "of another version"),
           damaged("another machine", lambda t: t.update(processor="Z80"), 10, "this is "),
           damaged("unknown method", lambda t: t["products"][0].update(method="magic"), 3, "\"method\""),
           damaged("cannot be", no_choice, 10, "cannot be computed like that here")])
suite.finish()

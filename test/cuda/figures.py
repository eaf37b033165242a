"""Figures of docs/cuda.md, section 8: what a step of large models takes beside torch's, what kernels reach of a device copy, what is in
memory. Models are made here, with weights that lie over each other in a file of their largest (make_gpt.py --shared). Figures gate
nothing: each says its goal beside what was found. On `fake` all of it runs in miniature, on models of two layers."""
import collections, json, math, os, pathlib, re, shutil, statistics, subprocess, sys, threading, time
from typing import NamedTuple

from e2e import ROOT, Case, Skip

PEAKS = {"H100": 989e12, "H200": 989e12, "GH200": 989e12, "A100": 312e12, "B200": 2250e12}  # of bf16 products
PAGES = 8 << 20  # bytes by which sums of allocations may differ: a device's pages have 2 MiB, and nvidia-smi counts in MiB
# From the one that moves least.
PLACEMENTS = (("--offload-optimizer", "host", "--offload-ratio", "0.5"), ("--offload-optimizer", "host"),
              ("--offload-optimizer", "host", "--offload-param", "host"), ("--offload-optimizer", "nvme", "--offload-param", "host"),
              ("--offload-optimizer", "nvme", "--offload-param", "nvme"))


class Model(NamedTuple):
    torch: str  # its name in test/bench/peers/gpu.py
    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    llama: bool = False


class Machine(NamedTuple):
    name: str
    memory: int  # bytes of a GPU
    peak: float  # flops a second
    gpt: Model
    large: Model
    llama: Model
    layers: tuple  # of the Llama: the most that fit
    batches: dict  # of each model, by torch's name
    huge: tuple  # (layers, width, heads) by size, the largest first
    tokens: int  # a step whose optimizer runs on the host
    mebibytes: int  # operands of kernels


class Taken(NamedTuple):
    """By a run, of the GPU's memory."""
    planned: int  # bytes
    seen: int  # more than before the run, as nvidia-smi says, with a context; None where it says nothing
    seconds: float  # of a step

    def __str__(self):
        return gib(self.planned) + (f" GiB (nvidia-smi says {gib(self.seen)} more than before)" if self.seen is not None else " GiB")


def gib(count):
    return f"{count / 2**30:.2f}"


def miniature():
    tiny = Model("tiny", 2, 64, 2, 512, 64)
    llama = tiny._replace(torch="tinyllama", llama=True)
    return Machine("fake", 24 << 20, 1e12, tiny, tiny, llama, (2, 1), {"tiny": (2, 4, 512), "tinyllama": (1, 2)},
                   ((3, 2048, 2), (3, 64, 2)), 256, 1)


def machine(doctor):
    """Of the first GPU that doctor tells of."""
    found = re.search(r"^GPU 0 +(.*?), .*?([\d.]+) GB, compute capability", doctor, re.M)
    if not found:
        raise SystemExit(f"doctor tells of no GPU:\n{doctor}")
    peak = next((peak for name, peak in PEAKS.items() if name in found[1]), math.nan)
    return Machine(found[1], int(float(found[2]) * 1e9), peak, Model("g124m", 12, 768, 12, 50304, 1024), Model("g1.5b", 48, 1600, 25, 50304, 1024),
                   Model("llama7b", 32, 4096, 32, 32000, 2048, True), (32, 24, 16, 8), {"g124m": (16, 32, 64), "g1.5b": (4, 8, 16), "llama7b": (1, 2, 4)},
                   ((44, 6144, 64), (40, 5120, 40), (36, 4096, 32)), 32768, 256)


class OutOfTime(Skip):
    """With what the program had said until then."""

    def __init__(self, text, said):
        super().__init__(text)
        self.said = said


class Figures:
    """`left()`: seconds that are left to the part that runs."""

    def __init__(self, suite, device, target, left):
        self.suite, self.device, self.target, self.left = suite, device, target, left
        self.here = miniature() if device == "fake" else machine(suite.tool("zero-run", "doctor"))
        self.models, self.torchs, self.best = {}, {}, {}

    # -- running programs ------------------------------------------------------------------------------------------------------------

    def call(self, command, ends=True, **more):
        """A program that `ends` with exit code 0."""
        command, seconds = list(map(str, command)), self.left()
        if seconds <= 0:
            raise Skip("the part's time is over")
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, **more)
        except subprocess.TimeoutExpired as over:
            raise OutOfTime(f"{' '.join(pathlib.Path(word).name for word in command[:3])} did not end in {seconds:.0f} s", (over.stdout or b"").decode())
        if ends and done.returncode != 0:
            raise Case(f"{' '.join(command)}\n      exit code {done.returncode}: {done.stderr.strip()[-1200:]}")
        return done

    def onnx(self, model):
        """The graph, with its number of parameters; samples lie beside it."""
        if model not in self.models:
            path = self.suite.dir / f"{model.torch}-{model.layers}-{model.width}.onnx"
            rows = max(self.here.batches[model.torch])
            words = ["--layers", model.layers, "--hidden", model.width, "--heads", model.heads, "--vocab", model.vocabulary, "--seq", model.length,
                     "--batch", "batch", "--seed", 0, "--shared", "--inputs", path.with_suffix(".safetensors"), "--rows", rows]
            text = self.call([sys.executable, ROOT / "test/support/make_gpt.py", path, *words, *(["--llama"] if model.llama else [])]).stdout
            self.models[model] = path, json.loads(text)["parameters"]
        return self.models[model]

    def plan(self, model, batch, *flags, name="", room=None):
        """None where there is no room for it: on the GPU, and in the bytes of `room` by tier. The compiler, given budgets, would look for
        what fits instead, which takes it longer than all plans of a part."""
        onnx, _ = self.onnx(model)
        plan = onnx.with_suffix(f".{batch}{name}.plan")
        command = [self.suite.bin / "zero-compile", onnx, "--dim", f"batch={batch}", "--precision", "bf16", *self.target(), *flags]
        tiers = json.loads(self.call([*command, "--dry-run", "--json"]).stdout)["tiers"]
        room = {"device": self.here.memory * 0.95, **(room or {})}
        if any(tiers[tier]["peak_bytes"] > size for tier, size in room.items()):
            return None
        self.call([*command, "-o", plan])
        return plan

    def run(self, plan, model, steps, *flags):
        """Metrics of each step, and the last line's object."""
        out = plan.with_suffix(".run")
        shutil.rmtree(out, ignore_errors=True)
        onnx, _ = self.onnx(model)
        text = self.call([self.suite.bin / "zero-run", plan, "--out", out, "--quiet", "--no-final", "--device", self.device, "--nvme-dir", self.suite.dir,
                          "--data", onnx.with_suffix(".safetensors"), "--steps", steps, "--lr", "1e-4", *flags]).stdout
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()], json.loads(text.splitlines()[-1])

    def rate(self, plan, model, batch, steps=12, *flags):
        """Seconds of a step, tokens a second, the share of the GPU's peak, the host's share, the device's peak."""
        metrics, report = self.run(plan, model, steps, *flags)
        seconds = statistics.median(m["step_seconds"] for m in metrics[steps // 3:])
        _, parameters = self.onnx(model)
        tokens = batch * model.length
        flops = tokens * (6 * parameters + 12 * model.layers * model.width * model.length)
        return {"batch": batch, "seconds": seconds, "tokens_s": tokens / seconds, "mfu": flops / seconds / self.here.peak,
                "issued": report.get("issue_seconds", 0) / seconds, "peak": report["peak_bytes"]["device"]["measured"]}

    def torch(self, *words):
        """Its measurements of these words of gpu.py; those that failed have an `error`."""
        if words not in self.torchs:
            cpu = ["--cpu"] if self.device == "fake" else []
            try:
                done = self.call([os.environ.get("ZC_TORCH_PYTHON", sys.executable), ROOT / "test/bench/peers/gpu.py", *cpu, *words], ends=False)
                said, why = done.stdout, (done.stderr.strip().splitlines() or ["it says nothing"])[-1][:200]
            except OutOfTime as over:
                said, why = over.said, str(over)
            lines = [json.loads(line) for line in said.splitlines() if line.startswith("{") and line.endswith("}")]
            if not lines:
                raise Skip(f"torch: {why}")
            self.torchs[words] = lines
        return self.torchs[words]

    def words(self, model, batch, mode="compile", *more):
        return ":".join([model.torch, str(batch), "eager" if self.device == "fake" else mode, *more])

    # -- steps beside torch's ----------------------------------------------------------------------------------------------------------

    def fastest(self, model, *flags):
        """Of the batches that fit."""
        if (model, flags) not in self.best:
            rates = []
            for batch in self.here.batches[model.torch]:
                if plan := self.plan(model, batch, *flags):
                    rates.append(self.rate(plan, model, batch))
            if not rates:
                raise Skip(f"no batch of {self.here.batches[model.torch]} fits")
            self.best[model, flags] = max(rates, key=lambda r: r["tokens_s"]), rates
        return self.best[model, flags]

    def ours(self, model, share, *flags):
        def run():
            best, rates = self.fastest(model, *flags)
            each = ", ".join(f"{r['batch']}: {r['tokens_s']:.0f} tokens/s ({r['mfu']:.1%})" for r in rates)
            return f"{self.title(model)}: batches {each}; best {best['seconds'] * 1e3:.1f} ms a step, {best['mfu']:.1%} of the peak (goal {share:.0%})"
        return run

    def beside(self, model, goal, mode="compile", *more):
        def run():
            best, _ = self.fastest(model)
            theirs = [r for r in self.torch(self.words(model, best["batch"], mode, *more)) if "tokens_s" in r]
            if not theirs:
                raise Skip(f"torch measured nothing: {self.torch(self.words(model, best['batch'], mode, *more))}")
            fastest = max(theirs, key=lambda r: r["tokens_s"])
            return (f"{best['tokens_s'] / fastest['tokens_s']:.2f} of torch's (goal {goal}), {mode} {fastest['kind']} {fastest['step_ms']} ms, "
                    f"batch {best['batch']}; all: {[(r['kind'], r['step_ms']) for r in theirs]}")
        return run

    def title(self, model):
        return f"{model.torch} of {model.layers} layers"

    def llama(self):
        """With as many layers as fit beside their optimizer."""
        for layers in self.here.layers:
            model = self.here.llama._replace(layers=layers)
            if self.plan(model, self.here.batches[model.torch][0], name="-fits"):
                return model
        raise Skip("not even the fewest layers fit")

    def llamas(self, goal, share):
        def beside():
            model = self.llama()
            return self.beside(model, goal, "compile", "bf16", f"L{model.layers}")()
        return [("a step", lambda: self.ours(self.llama(), share)()), ("beside torch", beside)]

    # -- memory, tiers, the host -------------------------------------------------------------------------------------------------------

    def used(self):
        """Bytes of the GPU that are taken, as nvidia-smi says; None where it says nothing."""
        try:
            text = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
            return int(text.split()[0]) << 20
        except (OSError, ValueError, IndexError):
            return None

    def memory(self):
        """H11, with everything kept and with what is cheap computed again, as torch.compile does unasked; and that what the GPU has is what
        was planned, within 1 % and some pages: a run's memory less that of a small one, with which a context and libraries go out."""
        model, batch = self.here.gpt, self.here.batches[self.here.gpt.torch][0]
        kept, again = (self.taken(model, batch, how) for how in ("none", "selective"))
        small = self.taken(model._replace(layers=1, width=64, heads=1, vocabulary=512, length=64), batch, "none")
        text = (f"batch {batch}: {again}, computing again what is cheap, in {again.seconds / kept.seconds:.3f} of the step that keeps it, "
                f"which takes {kept}; a small one {small}")
        for run in (kept, again):
            if None not in (run.seen, small.seen) and abs((run.seen - small.seen) - (run.planned - small.planned)) > run.planned / 100 + PAGES:
                raise Case(f"{text}: not what is planned, within 1 %")
        try:
            peaks = [r["peak_gib"] for r in self.torch(self.words(model, batch)) if r.get("peak_gib")]
        except Skip as reason:
            return f"{text}; {reason}"
        if not peaks:
            return f"{text}; torch says none"
        of_it, of_kept = (run.planned / 2**30 / min(peaks) for run in (again, kept))
        return f"{text}; torch's {min(peaks)}: {of_it:.2f} of it (goal 0.7), {of_kept:.2f} where all is kept"

    def taken(self, model, batch, checkpointing):
        """By a run that is watched."""
        plan = self.plan(model, batch, "--checkpoint-activations", checkpointing, name=f"-memory-{checkpointing}")
        before, seen, over = self.used(), [], threading.Event()

        def watch():
            seen.append(self.used())
            while not over.wait(0.2):
                seen.append(self.used())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            rate = self.rate(plan, model, batch)
        finally:
            over.set()
            watcher.join()
        most = max((s for s in seen if s is not None), default=None)
        return Taken(rate["peak"], None if None in (before, most) else most - before, rate["seconds"])

    def host_share(self):
        """H9, and which kernels take the time."""
        model, batch = self.here.gpt, self.here.batches[self.here.gpt.torch][0]
        plan = self.plan(model, batch, name="-issue")
        rates = {graphs: self.rate(plan, model, batch, 12, "--graphs", graphs) for graphs in ("on", "off")}
        self.run(plan, model, 6, "--trace", "6:6")
        sums = collections.Counter()
        for event in json.loads((plan.with_suffix(".run") / "trace.json").read_text())["traceEvents"]:
            if event["ph"] == "X":
                sums[event["name"]] += event["dur"] / 1e3
        shares = ", ".join(f"{name} {ms:.1f} ms" for name, ms in sums.most_common(15))
        each = "; ".join(f"graphs {graphs}: {r['seconds'] * 1e3:.1f} ms, issued in {r['issued']:.2%}" for graphs, r in rates.items())
        return f"{each} (goal 1 %); a traced step's {sum(sums.values()):.1f} ms: {shares}"

    def fusing(self):
        """What programs and epilogues of products give: with them over without, the same batch."""
        model, batch = self.here.gpt, self.here.batches[self.here.gpt.torch][0]
        on, head = (self.rate(self.plan(model, batch, "--fuse", fuse, name=f"-{fuse}"), model, batch)["seconds"] for fuse in ("on", "head"))
        return f"{self.title(model)}, batch {batch}: {on / head:.3f} of the step without, {on * 1e3:.1f} ms"

    def on_host(self):
        """H5: the optimizer of the Llama that fits, on the host and on the device; as many tokens a step."""
        model = self.llama()
        batch = self.here.batches[model.torch][0]
        flags = ("--grad-accumulation", max(1, self.here.tokens // (batch * model.length)))
        plans = [self.plan(model, batch, *flags, *more, name=f"-{name}")
                 for name, more in (("resident", ()), ("host", ("--offload-optimizer", "host")))]
        if None in plans:
            raise Skip("it does not fit with sums of gradients")
        resident, host = (self.rate(plan, model, batch, 6)["seconds"] for plan in plans)
        return f"{self.title(model)}, {flags[1] * batch * model.length} tokens: {host:.3f} s over {resident:.3f}, {host / resident:.2f} (goal 1.10)"

    def largest(self):
        """H4: the first of the sizes that fits into device, host and disk together; two steps on one batch, the second loss the smaller."""
        free = {line.split(":")[0]: int(line.split()[1]) << 10 for line in pathlib.Path("/proc/meminfo").read_text().splitlines()}["MemAvailable"]
        limit = pathlib.Path("/sys/fs/cgroup/memory.max")
        if limit.exists() and limit.read_text().strip().isdigit():
            free = min(free, int(limit.read_text()) - int(limit.with_name("memory.current").read_text()))
        disk = shutil.disk_usage(self.suite.dir).free
        host, nvme = (1 << 27, 1 << 27) if self.device == "fake" else (int(free * 0.85), int(disk * 0.7))
        always = ("--zero-stage", 3, "--checkpoint-activations", "block")
        for layers, width, heads in self.here.huge:
            model = self.here.gpt._replace(layers=layers, width=width, heads=heads)
            for placement in PLACEMENTS:
                if plan := self.plan(model, 1, *always, *placement, name="-huge", room={"host": host, "nvme": nvme}):
                    return self.right(plan, model) + f", {' '.join(placement)} (goal 20 B; {host / 1e9:.0f} GB of host memory, {nvme / 1e9:.0f} of disk)"
        raise Skip(f"none of {self.here.huge} fits")

    def right(self, plan, model):
        """Two steps on one batch: the first loss is about that of chance, the second one smaller."""
        began = time.monotonic()
        metrics, _ = self.run(plan, model, 2)
        losses = [m["loss"] for m in metrics]
        if not (abs(losses[0] - math.log(model.vocabulary)) < 2 and losses[1] < losses[0]):
            raise Case(f"losses {losses} of a model of {model.vocabulary} classes")
        return (f"{self.onnx(model)[1] / 1e9:.2f} B parameters, losses {losses}, {metrics[-1]['step_seconds']:.1f} s a step, "
                f"{time.monotonic() - began:.0f} s in all")

    def rates(self, id):
        """What zc-gpu-bench says of its cases of that goal."""
        program = self.suite.bin / "zc-gpu-bench"
        if not program.exists():
            raise Skip(f"no {program}")
        device = ["--device", "fake"] if self.device == "fake" else []
        rates = [json.loads(line) for line in
                 self.call([program, *device, "--mebibytes", self.here.mebibytes, id], env=self.environment).stdout.splitlines()]
        if not rates:
            raise Case(f"no kernel of {id}")
        return rates

    def attention(self):
        """Whose attention is the faster one, at H1's shape: kernels/cuda/CudnnAttention.cpp says which is chosen."""
        return ", ".join(f"{r['name']} {r['ms']:.2f} ms ({r['tf_s']:.0f} TF/s)" for r in self.rates("attention"))

    def with_ours(self):
        """A step of H1's model by our own attention, for one pass or both, over that by whose is chosen. The plan is the same: both work in it."""
        model, batch = self.here.gpt, self.here.batches[self.here.gpt.torch][1]
        plan = self.plan(model, batch, name="-attention")
        if not plan:
            raise Skip(f"batch {batch} does not fit")
        translate, told = self.suite.bin / "zero-translate", []
        text = self.call([translate, "--plan-to-mlir", plan]).stdout
        chosen = self.rate(plan, model, batch)["seconds"]
        for title, kernels in (("forward", "attention"), ("gradient", "attention_grad"), ("both", "attention(?:_grad)?")):
            own, number = re.subn(rf'(plan\.step "{kernels}" .*? attributes = {{)', r"\1own = 1 : i64, ", text)
            if not number:
                raise Case("the plan has no attention")
            mlir = plan.with_suffix(f".{title}.mlir")
            mlir.write_text(own)
            self.call([translate, "--mlir-to-plan", mlir, "-o", mlir.with_suffix(".plan")])
            told.append(f"{title} {self.rate(mlir.with_suffix('.plan'), model, batch)['seconds'] / chosen:.3f}")
        return f"{self.title(model)}, batch {batch}, {chosen * 1e3:.1f} ms; by ours, of that: {', '.join(told)}"

    def kernels(self, id, goal, what):
        """What kernels reach of a copy of as many bytes."""
        def run():
            rates = self.rates(id)
            below = [r["name"] for r in rates if r["ratio"] < goal]
            each = ", ".join(f"{r['name']} {r['gb_s']:.0f} ({r['ratio']:.2f})" for r in rates)
            return f"GB/s (of {what}, goal {goal}): {each}; {len(below)} of {len(rates)} below the goal"
        return run

    def limits(self):
        return json.dumps(self.torch("limits")[0])

    def parts(self, environment):
        """(name, most seconds, cases), what matters most first."""
        self.environment = environment
        gpt, large = self.here.gpt, self.here.large
        return [
            ("H1", 110, [("a step", self.ours(gpt, 0.48)), ("beside torch", self.beside(gpt, 1.15)), ("fused or not", self.fusing)]),
            ("attention", 50, [("cuDNN's and ours", self.attention), ("a step by ours", self.with_ours)]),
            ("H11", 70, [("memory", self.memory)]),
            ("H9", 40, [("the host's share", self.host_share)]),
            ("H10", 40, [("row kernels", self.kernels("H10", 0.85, "a device copy"))]),
            ("H8", 20, [("ZeRO++'s kernels", self.kernels("H8", 0.85, "a device copy"))]),
            ("H6", 20, [("the host's Adam", self.kernels("H6", 0.92, "an update in place"))]),
            ("H3", 120, self.llamas(1.10, 0.60)),
            ("H5", 90, [("the optimizer on the host", self.on_host)]),
            ("H2", 150, [("a step", self.ours(large, 0.56)), ("beside torch", self.beside(large, 1.10))]),
            ("H4", 150, [("the largest model", self.largest)]),
            ("autotune", 240, [("torch's max-autotune", self.beside(gpt, 1.15, "max"))]),
            ("limits", 40, [("the machine, as torch sees it", self.limits)]),
        ]

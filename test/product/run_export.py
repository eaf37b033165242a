#!/usr/bin/env python3
"""zero export beyond plain models: own modules, frozen and shared parameters, padding, parameters that no loss reaches, dropout, what is
refused."""
import json, os, re, stat, subprocess, sys, time

from product import Case, expect, needs, quiet_torch, raises, silent, suite, torch_steps, zero

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
import zero_compile
from zero_compile.exporting import check, export as exporting

suite = suite(__doc__)
WORDS = 50


class Model(torch.nn.Module):
    """Tied table and head, an idle layer, a padded table, a frozen layer."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16)
        self.kinds = torch.nn.Embedding(WORDS, 16, padding_idx=3)
        self.frozen, self.idle = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.drop, self.norm = torch.nn.Dropout(0.2), torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, WORDS, bias=False)
        self.head.weight = self.table.weight
        self.frozen.requires_grad_(False)

    def forward(self, ids, labels):
        x = self.table(ids) + self.kinds(ids)
        x = self.norm(self.drop(x + self.frozen(x).relu()))
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def make():
    torch.manual_seed(0)
    draw = lambda: torch.randint(0, WORDS, (4, 8))
    return Model(), {"ids": draw(), "labels": draw()}


def parameters(path):
    """name -> role, as zero-compile sees it."""
    rows = suite.tool("zero-compile", path, "--list-parameters", "--dim", "batch=4").splitlines()
    return {row.split()[0]: row.split()[3] for row in rows[1:] if len(row.split()) > 4}


def own_model():
    model, batch = make()
    path = suite.dir / "own.onnx"
    details = zero_compile.export(model, batch, path)
    expect(details["tied"] == {"head.weight": "table.weight"}, details["tied"])
    expect(details["unused"] == ["idle.weight", "idle.bias"], details["unused"])
    expect(details["padding_idx"] == {"kinds.weight": 3}, details["padding_idx"])
    roles = parameters(path)
    trained = {name for name, role in roles.items() if role == "trainable"}
    expect(trained == {"table.weight", "kinds.weight", "norm.weight", "norm.bias"}, roles)
    plan = zero_compile.compile(path, suite.dir / "own.plan", dim="batch=4", optimizer="sgd", lr=0.5, dropout="off")
    check.write_batch(suite.dir / "own.safetensors", batch)
    run = zero_compile.train(plan, suite.dir / "own-run", data=suite.dir / "own.safetensors", steps=3)
    got = [m["loss"] for m in run]
    expect(len(got) == 3 and (suite.dir / "own-run/final").samefile(run.result["final"]), f"{got}, {run.result}")
    iterated(plan)
    model.drop.p = 0.0
    expected = torch_steps(torch.optim.SGD(model.parameters(), lr=0.5), 3 * [batch], lambda batch: model(**batch))
    expect(all(abs(a - b) < 1e-5 * b for a, b in zip(got, expected)), f"{got} instead of {expected}")
    state, _ = zero_compile.import_weights(suite.dir / "own-run")
    twin = Model()
    missing, unexpected = twin.load_state_dict({n: torch.from_numpy(v.copy()) for n, v in state.items()}, strict=False)
    expect(not missing and not unexpected, (missing, unexpected))
    for (name, a), b in zip(model.named_parameters(), twin.parameters()):
        expect(torch.equal(a, b) if "idle" in name else torch.allclose(a, b, atol=1e-6), name)


def iterated(plan):
    """All steps come, however late the reader is, without a checkpoint at the end too; a loss that is not finite is told, and ends it."""
    run = zero_compile.train(plan, suite.dir / "late", data=suite.dir / "own.safetensors", steps=2000, no_final=True, lr=1e-9)
    time.sleep(1)
    steps = [m["step"] for m in run]
    expect(steps == list(range(1, 2001)) and run.result["steps"] == 2000, f"{len(steps)} steps of 2000, {run.result}")
    with silent(), raises(8, "not finite"):
        for _ in zero_compile.train(plan, suite.dir / "infinite", data=suite.dir / "own.safetensors", steps=200, progress=True, lr=1e9):
            pass


def layers_used_again():
    """A norm that two places share is one parameter, which the record of the export says: no word of parameters that seem merged."""
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.first, self.last = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 3)

        def forward(self, x, labels):
            return functional.cross_entropy(self.last(self.norm(self.first(self.norm(x)).relu())), labels)

    torch.manual_seed(0)
    path = suite.dir / "twice.onnx"
    zero_compile.export(Twice(), {"x": torch.randn(4, 16), "labels": torch.randint(0, 3, (4,))}, path)
    done = subprocess.run([suite.bin / "zero-compile", path, "--dim", "batch=4", "--dry-run"], capture_output=True, text=True)
    expect(done.returncode == 0 and "merged" not in done.stderr, done.stderr)


def external_data():
    """Above the limit initializers lie in a file beside the model; frozen ones come home from there too."""
    model, batch = make()
    path, limit = suite.dir / "large/large.onnx", exporting.EXTERNAL
    exporting.EXTERNAL = 1000
    try:
        zero_compile.export(model, batch, path)
    finally:
        exporting.EXTERNAL = limit
    expect(sorted(p.name for p in path.parent.iterdir()) == ["large.onnx", "large.onnx.data"], sorted(path.parent.iterdir()))
    plan = zero_compile.compile(path, suite.dir / "large.plan", dim="batch=4", dropout="off")
    check.write_batch(suite.dir / "large.safetensors", batch)
    zero_compile.train(plan, suite.dir / "large-run", data=suite.dir / "large.safetensors", steps=1).wait()
    state, _ = zero_compile.import_weights(suite.dir / "large-run")
    expect(torch.equal(torch.from_numpy(state["frozen.weight"].copy()), model.frozen.weight), "another frozen weight")


def dropout_is_kept():
    """The same seed twice the same, another seed another loss; --dropout off as torch without."""
    model, batch = make()
    path = suite.dir / "dropout.onnx"
    with silent():
        zero_compile.export(model, batch, path)
    check.write_batch(suite.dir / "dropout.safetensors", batch)
    losses = []
    for seed in (1, 1, 2):
        plan = suite.compile(path, suite.dir / f"dropout{len(losses)}.plan", "--dim", "batch=4", "--seed", seed)
        run = suite.train(plan, suite.dir / f"dropout{len(losses)}", "--data", suite.dir / "dropout.safetensors", "--steps", 1)
        losses.append(run[0]["loss"])
    expect(losses[0] == losses[1] != losses[2], losses)


class Detached(torch.nn.Module):
    """Scaled by a norm of its weights that backward takes for a constant, and a straight-through step."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x, y):
        h = self.inner(x) / self.inner.weight.norm(dim=1).detach()
        h = h + (h.round() - h).detach()
        return functional.mse_loss(self.outer(h).squeeze(-1), y)


def detached():
    """Gradients end where torch's do, on one rank and on two that share the work."""
    torch.manual_seed(1)
    model, batch = Detached(), {"x": 3 * torch.randn(4, 8), "y": torch.randn(4)}
    path = suite.dir / "detached.onnx"
    zero_compile.export(model, batch, path)
    check.write_batch(suite.dir / "detached.safetensors", batch)
    expected = torch_steps(torch.optim.SGD(model.parameters(), lr=0.1), 3 * [batch], lambda batch: model(**batch))
    for ranks in (1, 2):
        plan = suite.compile(path, suite.dir / f"detached{ranks}.plan", "--dim", "batch=4", "--optimizer", "sgd", "--lr", 0.1, "--world-size", ranks,
                             "--tensor-parallel", ranks)
        got = [m["loss"] for m in suite.train(plan, suite.dir / f"detached{ranks}", "-n", ranks, "--data", suite.dir / "detached.safetensors", "--steps", 3)]
        expect(all(abs(a - b) < 1e-5 * b for a, b in zip(got, expected)), f"{got} instead of {expected}, {ranks} ranks")


class Named(torch.nn.Module):
    """Parameters called as values of graphs are, an input called as the loss; a tuple with one scalar; buffers that no loss reads; inputs of few bits."""

    def __init__(self):
        super().__init__()
        self.mul, self.add, self.linear = (torch.nn.Parameter(torch.randn(shape)) for shape in ((6,), (3,), (3, 6)))
        self.norm, self.table = torch.nn.BatchNorm1d(6), torch.nn.Embedding(4, 6, sparse=True)
        self.register_buffer("idle", torch.arange(5))

    def forward(self, x, half, kind, loss):
        h = self.norm(x.float() * self.mul + half.float() + self.table(kind.long()))
        z = functional.linear(h, self.linear) + self.add
        return z, functional.cross_entropy(z, loss)


def names_and_types():
    """What goes home is all that load_state_dict wants."""
    torch.manual_seed(0)
    batch = {"x": torch.randn(6, 6).half(), "half": torch.randn(6, 6).bfloat16(), "kind": torch.randint(0, 4, (6,)).to(torch.int16),
             "loss": torch.randint(0, 3, (6,))}
    for exporter in exporting.EXPORTERS:
        model, path, data = Named(), suite.dir / f"named-{exporter}.onnx", suite.dir / "named.safetensors"
        zero_compile.export(model, batch, path, exporter=exporter, notes=(notes := []).append)
        expect(any("sparse gradients of 'table'" in note for note in notes), notes)
        check.write_batch(data, batch)
        plan = suite.compile(path, suite.dir / "named.plan", "--dim", "batch=6", "--optimizer", "sgd", "--lr", 0.1)
        got = [m["loss"] for m in suite.train(plan, suite.dir / f"named-{exporter}", "--data", data, "--steps", 3)]
        expected = torch_steps(torch.optim.SGD(model.parameters(), lr=0.1), 3 * [batch], lambda batch: model(**batch)[1])
        expect(all(abs(a - b) < 1e-5 * b for a, b in zip(got, expected)), f"{got} instead of {expected}")
        state, _ = zero_compile.import_weights(suite.dir / f"named-{exporter}")
        Named().load_state_dict({name: torch.from_numpy(value.copy()) for name, value in state.items()})


def function_of_a_module():
    (suite.dir / "my_module.py").write_text("""
import torch
def make_model():
    model = torch.nn.Linear(4, 3)
    batch = {"x": torch.randn(2, 4), "y": torch.tensor([0, 2])}
    return model, batch, lambda m, b: torch.nn.functional.cross_entropy(m(b["x"]), b["y"])
def dropped():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5))
    return model, {"x": torch.randn(2, 4), "y": torch.tensor([0, 2])}, lambda m, b: torch.nn.functional.cross_entropy(m(b["x"]), b["y"])
def wrong():
    return torch.nn.Linear(4, 3)
""")
    check.write_batch(suite.dir / "dropped.safetensors", {"x": torch.ones(2, 4), "y": torch.tensor([0, 2])})

    def first_loss(seed, *flags):
        """Of a model of that seed, and of a plan of each of two seeds."""
        zero("export", "my_module:dropped", "-o", "dropped.onnx", "--seed", seed, *flags, folder=suite.dir)
        plans = [suite.compile(suite.dir / "dropped.onnx", suite.dir / f"dropped{each}.plan", "--dim", "batch=2", "--seed", each) for each in (1, 2)]
        return [suite.train(plan, suite.dir / "dropped", "--overwrite", "--data", suite.dir / "dropped.safetensors", "--steps", 1)[0]["loss"] for plan in plans]

    one, still = first_loss(3), first_loss(3, "--no-dropout")
    expect(one[0] != one[1] and still[0] == still[1], f"{one}, without dropout {still}")
    expect(first_loss(3, "--no-dropout") == still != first_loss(4, "--no-dropout"), "--seed changes nothing")
    for flags in (("--task", "causal-lm"), ("--seq", 8), ("--image-size", 8), ("--trust-remote-code",)):
        expect(f"{flags[0]} is for a model of hf" in zero("export", "my_module:make_model", *flags, code=2, folder=suite.dir), "another error")
    details = zero("export", "my_module:make_model", "-o", "linear.onnx", folder=suite.dir)
    expect(details["inputs"] == ["x", "y"] and (suite.dir / "linear.onnx").is_file(), details)
    expect("neither (model, batch)" in zero("export", "my_module:wrong", code=3, folder=suite.dir), "another error")
    expect("no_such" in zero("export", "no_such:thing", code=3, folder=suite.dir), "another error")


class Normed(torch.nn.Module):
    """Batch norms, a buffer of its own, an input of each kind, losses in a dict; it keeps its last features."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(2, 6, 3), torch.nn.BatchNorm2d(6)
        self.last, self.kinds = torch.nn.Linear(6, 5), torch.nn.Embedding(4, 6)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 6))
        self.features = None

    def forward(self, image, kind, present, labels):
        x = self.norm(self.first(image)).relu().mean((2, 3)) * self.scale + self.kinds(kind)
        self.features = torch.where(present, x, torch.zeros_like(x))
        return {"loss": functional.cross_entropy(self.last(self.features), labels), "features": self.features}


def batch_norm_evaluates():
    """The running statistics of the run, not those of the export, are what its evaluation takes."""
    torch.manual_seed(1)
    model = Normed()
    batch = {"image": torch.randn(6, 2, 7, 7) * 3 + 1, "kind": torch.randint(0, 4, (6,)), "present": torch.rand(6, 1) > 0.3,
             "labels": torch.randint(0, 5, (6,))}
    with torch.no_grad():
        model(**batch)
    path, data = suite.dir / "normed.onnx", suite.dir / "normed.safetensors"
    with silent():
        zero_compile.export(model, batch, path)
    check.write_batch(data, batch)
    plan = suite.compile(path, suite.dir / "normed.plan", "--dim", "batch=6", "--optimizer", "sgd", "--lr", 0.1, "--with-eval")
    run = suite.train(plan, suite.dir / "normed-run", "--data", data, "--eval-data", data, "--steps", 4)
    state, _ = zero_compile.import_weights(suite.dir / "normed-run")
    model.load_state_dict({n: torch.from_numpy(v.copy()) for n, v in state.items()}, strict=False)
    with torch.no_grad():
        want = float(model.eval()(**batch)["loss"])
    plan = suite.compile(path, suite.dir / "normed-eval.plan", "--dim", "batch=6", "--forward-only")
    got = json.loads(suite.tool("zero-run", "eval", plan, "--data", data, "--weights", suite.dir / "normed-run", "--quiet").splitlines()[-1])
    expect(abs(got["loss"] - want) < 1e-5 * want, f"eval gives {got['loss']} instead of {want}")
    expect(abs(run[-1]["val_loss"] - want) < 1e-5 * want, f"--with-eval gives {run[-1]['val_loss']} instead of {want}")


def refused_by_exporters():
    """What no exporter takes: the reason, without torch's own advice, colours or dumps of graphs on stdout."""
    (suite.dir / "spectral.py").write_text("""
import torch
class Spectral(torch.nn.Linear):
    def forward(self, x):
        return torch.linalg.eigvalsh(super().forward(x).reshape(-1, 2, 2)).sum()
def make():
    return Spectral(3, 4), {"x": torch.randn(2, 3)}
def broken():
    return Spectral(3, 4), {"x": torch.randn(2, 5)}
""")
    command = [sys.executable, "-m", "zero_compile", "export", "spectral:make", "-o", "spectral.onnx"]
    done = subprocess.run(command, cwd=suite.dir, capture_output=True, text=True)
    expect((done.returncode, done.stdout) == (4, ""), f"exit code {done.returncode}, {done.stdout[:300]}")
    expect("eigvalsh" in done.stderr and "\x1b" not in done.stderr and "Create an issue" not in done.stderr, done.stderr)
    text = zero("export", "spectral:broken", code=3, folder=suite.dir)
    expect("torch itself does not compute" in text and "x [2, 5]" in text, text)


def fixed_rows():
    """A loss that compares rows with each other: an exporter takes their number for a constant, which is said; and so it is meant."""
    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = torch.nn.Linear(6, 4), torch.nn.Linear(5, 4)

        def forward(self, left, right):
            scores = self.left(left) @ self.right(right).T
            return functional.cross_entropy(scores, torch.tensor(list(range(len(left)))))

    torch.manual_seed(2)
    model, batch, path = Pairs(), {"left": torch.randn(4, 6), "right": torch.randn(4, 5)}, suite.dir / "pairs.onnx"
    try:
        zero_compile.export(model, batch, path)
        raise Case("the rows were taken for open")
    except zero_compile.ZeroError as problem:
        expect("fixed_batch=True" in (problem.help or "") and not path.exists(), str(problem))
    zero_compile.export(model, batch, path, fixed_batch=True)
    plan = zero_compile.compile(path, suite.dir / "pairs.plan", optimizer="sgd", lr=0.5)
    check.write_batch(suite.dir / "pairs.safetensors", batch)
    got = [m["loss"] for m in zero_compile.train(plan, suite.dir / "pairs-run", data=suite.dir / "pairs.safetensors", steps=1)]
    expect(abs(got[0] - model(**batch).item()) < 1e-5, got)


def edges_beside_nodes():
    """Of a graph's edges [2, E] a row is no sample: the batch is as it is, and training goes batch by batch."""
    class Convolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

        def mean(self, nodes, edges):
            summed = nodes.index_add(0, edges[1], nodes[edges[0]])
            return summed / torch.ones(len(nodes)).index_add(0, edges[1], torch.ones(edges.shape[1]))[:, None]

        def forward(self, nodes, edges, labels):
            hidden = torch.relu(self.first(self.mean(nodes, edges)))
            return functional.cross_entropy(self.second(self.mean(hidden, edges)), labels)

    torch.manual_seed(3)
    model, path = Convolution(), suite.dir / "graph.onnx"
    graphs = [{"nodes": torch.randn(12, 8), "edges": torch.randint(0, 12, (2, 30)), "labels": torch.randint(0, 4, (12,))} for _ in range(3)]
    with raises(2, "same number of rows"):
        zero_compile.export(model, graphs[0], path)
    zero_compile.export(model, graphs[0], path, fixed_batch=True)
    plan = zero_compile.compile(path, suite.dir / "graph.plan", optimizer="sgd", lr=0.5)
    check.write_batch(suite.dir / "graph.safetensors", {name: torch.cat([graph[name] for graph in graphs]) for name in graphs[0]})
    got = [m["loss"] for m in zero_compile.train(plan, suite.dir / "graph-run", data=suite.dir / "graph.safetensors", steps=4)]
    wanted = torch_steps(torch.optim.SGD(model.parameters(), 0.5), [*graphs, graphs[0]], lambda graph: model(**graph))
    expect(all(abs(a - b) < 1e-5 for a, b in zip(got, wanted, strict=True)), (got, wanted))


def speech():
    """Of two tasks whose models end alike the configuration's kind decides."""
    folder = suite.dir / "whisper"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dict(
        model_type="whisper", architectures=["WhisperForConditionalGeneration"], vocab_size=WORDS, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=8, max_target_positions=16,
        num_mel_bins=4, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3)))
    details = zero("export", "hf", folder, "--seq", 8, "-o", suite.dir / "whisper.onnx")
    expect((details["task"], details["inputs"]) == ("speech-seq2seq", ["input_features", "labels"]), details)


def notebook():
    """Where no terminal is, but a person: progress is shown."""
    import types
    from zero_compile import programs
    expect(not programs.in_notebook() or "IPython" in sys.modules, "this is no notebook")
    before = sys.modules.get("IPython")
    for shell, want in ((types.SimpleNamespace(kernel=1), True), (types.SimpleNamespace(), False), (None, False)):
        sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
        expect(programs.in_notebook() is want, f"{shell}")
    sys.modules.pop("IPython")
    if before:
        sys.modules["IPython"] = before


def lost_parameters():
    """An exporter that loses a parameter is found out."""
    model, batch = make()
    real = exporting.trace

    def losing(*arguments):
        import onnx
        proto = real(*arguments)
        tensor = next(t for t in proto.graph.initializer if t.name.endswith("norm.bias"))
        node = onnx.helper.make_node("Constant", [], [tensor.name], value=onnx.TensorProto.FromString(tensor.SerializeToString()))
        proto.graph.initializer.remove(tensor)
        proto.graph.node.insert(0, node)
        return proto

    exporting.trace = losing
    try:
        with raises(4, "lost 1 parameters", "norm.bias"):
            zero_compile.export(model, batch, suite.dir / "lost.onnx")
    finally:
        exporting.trace = real
    expect(not (suite.dir / "lost.onnx").exists(), "a file was left")


def different_loss():
    """An export that computes something else is refused, and leaves no file."""
    class Sampled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x * self.w * float(torch.rand(()))).sum()  # a constant of the trace

    with raises(10, "differs from torch"):
        zero_compile.export(Sampled(), {"x": torch.randn(2, 3)}, suite.dir / "sampled.onnx", exporter="torchscript")
    expect(not list(suite.dir.glob("*sampled*")), "a file was left")


def bad_batches():
    model, batch = make()
    with raises(2, "number of rows"):
        zero_compile.export(model, {"ids": batch["ids"], "labels": batch["labels"][:2]}, suite.dir / "x.onnx")
    with raises(2, "dict of tensors"):
        zero_compile.export(model, {"ids": [1, 2]}, suite.dir / "x.onnx")
    with raises(2, "dict of tensors"):
        zero_compile.export(model, (batch["ids"], batch["labels"]), suite.dir / "x.onnx")
    with raises(2, "no torch.nn.Module but a function"):
        zero_compile.export(make, batch, suite.dir / "x.onnx")
    with raises(2, "no scalar loss", "tensor of shape [2, 3]"):
        zero_compile.export(torch.nn.Linear(4, 3), {"input": torch.randn(2, 4)}, suite.dir / "x.onnx")
    with raises(4, "'ids' is torch.complex64", "view_as_real"):
        zero_compile.export(model, {**batch, "ids": torch.complex(torch.randn(4, 8), torch.randn(4, 8))}, suite.dir / "x.onnx")
    named, batch = Named(), {"mul": torch.randn(4, 6)}
    with raises(4, "an input of the batch has the name of parameter 'mul'"):
        zero_compile.export(named, batch, suite.dir / "x.onnx", loss=lambda model, batch: (batch["mul"] * model.mul).square().mean())


def bad_modules_and_outputs():
    """A person's module that does not run is said with its line; what is no file is not replaced, what is new may be read by others."""
    (suite.dir / "torn.py").write_text("def make(:\n")
    (suite.dir / "torn_within.py").write_text("def make():\n    return 1 // 0\n")
    expect("torn.py:1" in zero("export", "torn:make", "-o", "x.onnx", code=3, folder=suite.dir), "no line of the syntax error")
    expect("torn_within.py:2" in zero("export", "torn_within:make", "-o", "x.onnx", code=3, folder=suite.dir), "no line of the error")
    for name in ("torn_within:other", "no_such:make"):  # of neither is a line of ours or of Python's the place
        text = zero("export", name, "-o", "x.onnx", code=3, folder=suite.dir)
        expect(f"--> {name}\n" in text + "\n", text)
    (suite.dir / "script.py").write_text("import sys\ndef make():\n    sys.exit()\n")
    text = zero("export", "script:make", "-o", "x.onnx", code=3, folder=suite.dir)
    expect("script.py:3" in text and "ends the program" in text, text)
    model, batch = make()
    pipe = suite.dir / "pipe"
    os.mkfifo(pipe)
    with raises(2, "no regular file"):
        zero_compile.export(model, batch, pipe)
    expect(stat.S_ISFIFO(pipe.stat().st_mode), "the pipe was replaced")
    path = suite.dir / "rights.onnx"
    zero_compile.export(model, batch, path, check=False)
    mask = os.umask(0)
    os.umask(mask)
    expect(path.stat().st_mode & 0o777 == 0o666 & ~mask, oct(path.stat().st_mode))


def bad_folders():
    empty = suite.dir / "empty"
    empty.mkdir()
    expect("no config.json" in zero("export", "hf", empty, code=3), "another error")
    expect("no such file" in zero("export", "hf", suite.dir / "nowhere", code=3), "another error")
    file = empty / "config.json"
    file.write_text('{"model_type": "gpt2",}')
    expect(re.search(r"config.json:1:\d+", zero("export", "hf", empty, code=3)), "no line and column")
    file.write_text('{"model_type": "gpt2", "auto_map": {"AutoModel": "x.Y"}, "architectures": ["GPT2LMHeadModel"]}')
    expect("code of its own" in zero("export", "hf", empty, code=4), "another error")
    file.write_text('{"model_type": "gpt2"}')
    expect("--task" in zero("export", "hf", empty, code=2), "another error")
    for fields in ('"architectures": 5', '"architectures": [5]', '"architectures": {}'):
        file.write_text('{"model_type": "gpt2", ' + fields + '}')
        expect("--task" in zero("export", "hf", empty, code=2), fields)
    file.write_text('{"model_type": "gpt2"}')
    expect("there is no task" in zero("export", "hf", empty, "--task", "chess", code=2), "another error")
    file.write_text('{"model_type": "gpt2", "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}')
    text = zero("export", "hf", empty, "--task", "causal-lm", "--seq", 24, code=2)
    expect("rows of 24 tokens" in text and "--seq 16" in text, text)
    expect("does not build it" in zero("export", "hf", empty, "--task", "image-classification", code=4), "another error")


def over_what_is_read():
    """A model's own files and a person's module stay; an export beside them may be made anew."""
    source = suite.dir / "over"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "gpt2", "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 20}')
    (source / "model.onnx").write_text("an earlier one")
    (source / "own.py").write_text("def make():\n    import torch\n    return torch.nn.Linear(2, 1), {'input': torch.ones(2, 2)}, lambda m, b: m(**b).sum()\n")
    before = {path.name: path.read_text() for path in source.iterdir()}
    for words in (("hf", source, "--task", "causal-lm", "-o", source / "config.json"), ("own:make", "-o", "own.py")):
        text = zero("export", *words, "--seq", 8, code=2, folder=source) if words[0] == "hf" else zero("export", *words, code=2, folder=source)
        expect("a file that is read" in text, text)
    expect({path.name: path.read_text() for path in source.iterdir() if path.is_file()} == before, "it was written over")
    zero("export", "hf", source, "--task", "causal-lm", "--seq", 8, "--no-check", "-o", source / "model.onnx")
    expect((source / "model.onnx").read_bytes() != b"an earlier one", "an export could not be made anew")


suite.run([(f.__name__, f) for f in (own_model, layers_used_again, external_data, dropout_is_kept, detached, names_and_types, function_of_a_module, batch_norm_evaluates, refused_by_exporters,
                                     fixed_rows, edges_beside_nodes, speech, notebook,
                                     lost_parameters, different_loss, bad_batches, bad_modules_and_outputs, bad_folders, over_what_is_read)])
suite.finish()

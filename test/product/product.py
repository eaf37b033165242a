"""What the scripts of this folder share: the package from the sources, `zero` as a command, what they cannot do without."""
import contextlib, importlib, io, json, os, pathlib, subprocess, sys, tempfile, warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test/support")]
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1",
                  PYTHONPATH=str(ROOT / "python"))
from e2e import SKIPPED, Case, Suite  # noqa: E402


def needs(*packages):
    """The script is skipped, with the reason, where one is not installed (tools/setup.sh --torch installs them)."""
    for name in packages:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as problem:  # a library of its own that is not all there
            print(f"no {name} here ({problem}): tools/setup.sh --torch installs it")
            sys.exit(SKIPPED)


class OneByOne(Suite):
    """torch's exporters hold state that threads would share, and are kept quiet by taking stdout away."""

    def run(self, cases):
        for case in cases:
            super().run([case])


def suite(description):
    made = OneByOne(description)
    os.environ["ZC_BIN"] = str(made.bin)
    return made


def by_exporter(suite, cases, offered=lambda case, exporter: True):
    """Pairs of a case and an exporter: all of TorchScript's, which takes a second, and of torch.export's, which takes five to twenty-five, one of five, each day others."""
    slow = [(case, "dynamo") for case in cases if offered(case, "dynamo")]
    return [(case, "torchscript") for case in cases if offered(case, "torchscript")] + suite.draw(slow, -(-len(slow) // 5), covering_values=False)


def quiet_torch():
    import torch, transformers
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return torch


class Forks:
    """`zero` as forks.py runs it, begun with the first command."""

    server = None

    def run(self, arguments, folder, place):
        """Exit code, stdout, stderr."""
        if self.server is None:
            self.server = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("forks.py")], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True)
        out, err = pathlib.Path(place) / "out", pathlib.Path(place) / "err"
        request = {"arguments": arguments, "folder": folder and str(folder), "environment": dict(os.environ), "out": str(out), "err": str(err)}
        print(json.dumps(request), file=self.server.stdin, flush=True)
        answer = self.server.stdout.readline()
        if not answer:
            raise Case("forks.py has ended")
        return int(answer), out.read_text(errors="replace"), err.read_text(errors="replace")


forks = Forks()


def zero(*arguments, code=0, folder=None):
    """What `zero` prints: its JSON object, or stderr of what must fail with `code`."""
    arguments = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as place:
        ended, out, err = forks.run(arguments, folder, place)
    if ended != code:
        raise Case(f"zero {' '.join(arguments)}\n      exit code {ended}: {err.strip()[-1500:]}")
    return err if code else json.loads(out.splitlines()[-1])


def torch_steps(rule, batches, loss_of):
    """The losses of a step of torch's optimizer `rule` on each batch."""
    losses = []
    for batch in batches:
        rule.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses


def beside_torch(suite, name, model, data, ranks=1, stage=0, precision="fp32", exporter=None, rate=0.1, fixed_batch=False):
    """Losses of a step of sgd on each batch of `data`, each rank with its share of the rows, against torch's; how far they are apart."""
    import torch, zero_compile
    from zero_compile.exporting import check
    path, rows = suite.dir / f"{name}.onnx", len(next(iter(data[0].values())))
    zero_compile.export(model, data[-1], path, exporter=exporter, fixed_batch=fixed_batch)
    plan = suite.compile(path, path.with_suffix(".plan"), *([] if fixed_batch else ["--dim", f"batch={rows // ranks}"]), "--world-size", ranks,
                         "--zero-stage", stage, "--optimizer", "sgd", "--momentum", 0, "--lr", rate, "--precision", precision)
    check.write_batch(path.with_suffix(".safetensors"), {key: torch.cat([batch[key] for batch in data]) for key in data[0]})
    metrics = suite.train(plan, suite.dir / f"{name}-run", "-n", ranks, "--data", path.with_suffix(".safetensors"), "--steps", len(data))

    def mean_of_ranks(batch):
        return sum(model(**{key: value.chunk(ranks)[rank] for key, value in batch.items()}) for rank in range(ranks)) / ranks

    expected = torch_steps(torch.optim.SGD(model.parameters(), lr=rate), data, mean_of_ranks)
    least = max(1e-3, max(map(abs, expected)) / 20)  # a loss near 0 has the rounding of terms that cancel
    worst = max(abs(m["loss"] - e) / max(abs(e), least) for m, e in zip(metrics, expected))
    expect(worst <= (2e-5 if precision == "fp32" else 2e-2), f"{[m['loss'] for m in metrics]} instead of {expected}, {worst:.1e} apart")
    return f"{worst:.1e}"


def expect(condition, text):
    if not condition:
        raise Case(text)


def raises(code, *words):
    """A context in which a ZeroError of this code is raised, whose text has these words."""
    from zero_compile import ZeroError

    @contextlib.contextmanager
    def context():
        try:
            yield
        except ZeroError as problem:
            expect(problem.code == code, f"exit code {problem.code} instead of {code}: {problem}")
            missing = [word for word in words if word not in str(problem)]
            expect(not missing, f"{missing} is not in: {problem}")
            return
        raise Case(f"nothing was refused that should have been, with code {code}")

    return context()


@contextlib.contextmanager
def silent():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield

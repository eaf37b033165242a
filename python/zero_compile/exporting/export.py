"""A PyTorch model as an ONNX training graph: the loss inside, training mode, the batch open, every parameter accounted for.

Two exporters are tried, with the options that keep parameters as they are: TorchScript's without constant folding, then
torch.export's without its optimizer. An export counts when all parameters are found and its loss and gradient are torch's."""
import contextlib
import functools
import io
import linecache
import logging
import os
import pathlib
import re
import sys
import warnings

from .. import adapters, outputs, programs, record, supervised
from ..errors import BAD_INPUT, IO, OVER_BUDGET, PACKAGE, UNSUPPORTED, USAGE, ZeroError, need, wants_memory
from ..rewriting import derivatives, draws, rewrite, scattering, tables
from . import check as checking, functions, graph, refusals, state, steps, whole

EXTERNAL = 1_500_000_000  # bytes of initializers beyond which they lie in a file of their own; protobuf ends at 2 GiB
OF_BATCH = ".of_batch"  # behind the name of an input while torch.export names nodes, which may get the same


def export(model, batch, path="model.onnx", loss=None, exporter=None, check=True, task=None, notes=None, fixed_batch=False):
    """Writes `model`'s training graph to `path`; returns the record that is in the file.

    batch: {input: tensor}, the batch dimension first, at least 2 rows; integers are int64. The graph's inputs have these names.
    loss: loss(model, batch) -> scalar tensor; without it the model's output, its `.loss`, its "loss" or the only scalar of a tuple.
    exporter: "torchscript" or "dynamo"; without it the first that works. check=False skips the comparison with torch.
    notes: a function of a line of text: what was changed, found out and compared; without it they are written on stderr.
    fixed_batch: the graph has the batch's number of rows and no other, as where a loss compares each row with all others.
    Dropout is as the modules say; requires_grad and shared parameters are kept, and modules in eval mode (frozen batch norms) stay in it,
    if not all are."""
    notes = notes or functools.partial(print, file=sys.stderr)
    if not isinstance(model, need("torch", "exporting").nn.Module):
        raise ZeroError(USAGE, f"the model is no torch.nn.Module but a {type(model).__name__}")
    check_batch(batch, fixed_batch)
    outputs.check(path)
    if check:  # before anything that takes time
        programs.find("zero-compile"), programs.find("zero-run")
    with training(model, notes), supervised.stage(BAD_INPUT, "torch's computation of the model", "one step by torch alone, loss.backward() included, ends the same way"):
        return Export(model, batch, path, loss, exporter, check, task, notes, fixed_batch).run()


class Export:
    """Of a model whose modules train or evaluate as they are to: attempts, with an exporter after the other, until one gives a graph that trains as torch does."""

    def __init__(self, model, batch, path, loss, exporter, check, task, notes, fixed_batch):
        if exporter and exporter not in EXPORTERS:
            raise ZeroError(USAGE, f'there is no exporter "{exporter}"', help="exporters: " + ", ".join(EXPORTERS))
        self.model, self.batch, self.path, self.loss, self.check = model, batch, path, loss, check
        self.task, self.notes, self.fixed_batch = task, notes, fixed_batch
        self.wrapper, self.adapter = wrap(model, list(batch), loss), adapters.describe(model)
        refusals.refuse(model)
        if check and not any(p.requires_grad for p in model.parameters()):
            raise ZeroError(UNSUPPORTED, "no parameter of the model trains: requires_grad of none is True", help="--no-check (check=False) exports what only evaluates")
        if sparse := [name for name, module in model.named_modules() if getattr(module, "sparse", None) is True]:
            notes(f"sparse gradients of {', '.join(map(repr, sparse[:8]))} are whole ones here: an optimizer moves each row in each step, as it does without sparse=True")
        if narrow := [name for name, p in model.named_parameters() if p.requires_grad and p.dtype in (need("torch", "exporting").float16, need("torch", "exporting").bfloat16)]:
            notes(f"parameters of 16 bits ({', '.join(map(repr, narrow[:4]))}{' and more' * (len(narrow) > 4)}) train and come home in fp32: torch's own lose steps that are small beside them")
        drawn, self.functions, takes, self.looked = try_out(self.wrapper, batch, notes)
        self.drawn, self.takes_gradients = [] if getattr(loss, "is_fixed", False) else drawn, bool(takes)
        if self.drawn:
            notes(f"drawn anew by each step of a training: {', '.join(drawn[:8])}")
        # An own model is traced with other data than it is compared on: what Python computes from the data is found by it.
        low = steps.towards(batch, True) if check and task is None else batch
        self.traced = low if low is not batch and checking.computes(self.wrapper, low) else batch
        # With int() and len() of tensors kept as tensors, or without; the former is put before an exporter's other ones once it is wanted.
        self.attempts = [(name, False) for name in EXPORTERS if exporter == name or exporter is None and not (takes and name == "dynamo")]
        self.kept_whole = False
        self.fixed, self.said = {}, []  # where this attempt fixed a value that Python took (trace); of all attempts, what was told
        self.first, self.problems = None, []

    def run(self):
        """The record. Errors: no attempt gives such a graph."""
        while self.attempts:
            name, keeps = self.attempts.pop(0)
            try:
                proto = self.trace(name, keeps)
                if any(self.fixed.values()) and not self.kept_whole:  # a number of rows that divides a small part of the loss is not found by a comparison
                    self.keep_whole((name, True), (name, False))
                    continue
                return self.write(name, keeps, proto)
            except OSError as problem:
                raise ZeroError(IO, problem.strerror or str(problem), where=str(problem.filename or self.path)) from problem
            except Exception as problem:  # whatever torch's exporters throw
                self.fail(name, keeps, problem)
        code, help = (self.first.code, self.first.help) if isinstance(self.first, ZeroError) else (OVER_BUDGET if wants_memory(self.first) else UNSUPPORTED, None)
        help = help or next((hint for said, hint, of in HINTS if any(re.search(said, problem) for problem in self.problems) and
                             any(type(part).__module__.startswith(of) for part in self.model.modules())), None)
        raise ZeroError(code, "no exporter gives a graph that trains as torch does:\n  " + "\n  ".join(self.problems), help=help) from self.first

    def keep_whole(self, *attempts):
        self.kept_whole, self.attempts = True, [*attempts, *self.attempts]

    def trace(self, name, keeps):
        self.fixed.clear()
        other = next(other for other in EXPORTERS if other != name)
        with supervised.stage(UNSUPPORTED, f"the exporter {name}", f"--exporter {other} (exporter={other!r}) is another one"), functions.traced(self.functions), \
                whole.kept(self.model, self.loss) if keeps else contextlib.nullcontext():
            return trace(name, self.wrapper, self.traced, self.fixed_batch, self.fixed, self.looked, self.takes_gradients)

    def write(self, name, keeps, proto):
        """The record, of what was traced, as it is in `path` then. Errors: it does not train as torch does."""
        for place in self.fixed:
            if place not in self.said:
                self.notes(f"{place}: a value that Python took from a tensor here is fixed in the export")
        self.said += self.fixed
        if not self.fixed_batch and not any(d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim):
            raise ZeroError(UNSUPPORTED, "it takes the number of rows for a constant", help=checking.FIXED_BATCH)
        details = self.finish(name, proto)
        folder = pathlib.Path(self.path).resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        with supervised.scratch(".zero-export-", folder) as temporary:
            files = save(need("onnx", "exporting"), proto, pathlib.Path(temporary) / pathlib.Path(self.path).name)
            if self.check:
                compare(self.model, self.wrapper, self.batch, files[0], self.loss, name, self.task, self.notes, self.fixed_batch, bool(self.drawn))
            for file in reversed(files):  # the model last: whoever finds it finds its data
                outputs.put(file, folder / file.name)
        if keeps:
            self.notes("int() and len() of tensors are tensors in the export")
        self.notes(f"{self.path}: {sum(p.numel() for p in self.model.parameters()):,} parameters, {details['exporter']}")
        return details

    def finish(self, name, proto):
        """The record, which `proto` has then, beside the model's own names, state and derivatives."""
        details = graph.adopt(proto, self.model, steps.INNER + ".", lambda: steps.reached(self.wrapper, self.batch), self.looked)
        self.wrapper.state.write(proto, self.model)
        unsaved = [name for name in self.wrapper.state.names if name not in self.model.state_dict()]
        details["constants"] = [name for name in details["constants"] if name not in unsaved]
        derivatives.write(proto)
        details |= {"exporter": f"{name}, torch {need('torch', 'exporting').__version__}", "class": type(self.model).__name__, "task": self.task,
                    "inputs": list(self.batch), "unsaved": unsaved, "counts": self.wrapper.state.counts, **self.adapter}
        if name == "dynamo" and steps.batch_norms(self.model):
            graph.train_norms(proto.graph, self.model)
        record.write(proto, details)
        return details

    def fail(self, name, keeps, problem):
        """Notes why an attempt is none."""
        if self.fixed and isinstance(problem, ZeroError):
            meant = f"; {problem.help}" if problem.help == checking.FIXED_BATCH else ""
            problem.help = f"what Python takes from a tensor ({', '.join(self.fixed)}) is fixed in the export: compute it by tensors alone, numpy's functions by torch's" + meant
        if keeps:  # without, an attempt says more
            return
        if self.fixed and not self.kept_whole:
            self.keep_whole((name, True))
        self.problems.append(f"{name}: {first_line(problem)}")
        self.first = self.first or problem
        self.notes(f"the exporter {self.problems[-1]}")


def compare(model, wrapper, batch, file, loss, exporter, task, notes, fixed_batch, draws_numbers):
    """`file` with torch; where something is drawn, an export of a twin that draws nothing."""
    def other(twin, what, loss):
        try:
            export(twin, batch, file.with_name("twin.onnx"), loss, exporter, True, task, lambda text: notes(f"{what}: {text}") if text.startswith("loss") else None,
                   fixed_batch)
        except ZeroError as problem:
            raise problem.__cause__ if isinstance(problem.__cause__, ZeroError) else problem

    if drops_paths(model):  # random, and no Dropout node that a flag would switch off
        other(steps.plain(model), "without stochastic depth", loss)
    elif draws_numbers:
        other(model, "with fixed numbers in the place of drawn ones", draws.fixed(loss))
    else:
        notes(checking.compare(wrapper, file, batch, None if fixed_batch else check_batch(batch), steps.towards(batch, False) if task is None else None))


def check_batch(batch, fixed_batch=False):
    """The number of rows, which all inputs have, unless the batch is fixed."""
    torch = need("torch", "exporting")
    if not isinstance(batch, dict) or not batch or not all(isinstance(value, torch.Tensor) and value.dim() >= 1 for value in batch.values()):
        raise ZeroError(USAGE, "the batch must be a dict of tensors, each with the batch dimension first")
    for name, value in batch.items():
        if value.is_complex() or value.is_quantized or value.layout != torch.strided:
            raise ZeroError(UNSUPPORTED, f"the input {name!r} is {'sparse' if value.layout != torch.strided else value.dtype}",
                            help="torch.view_as_real makes floats of complex numbers, to_dense() whole tensors of sparse ones; in the model the other way round")
    rows = {name: value.shape[0] for name, value in batch.items()}
    if not fixed_batch and (len(set(rows.values())) != 1 or min(rows.values()) < 2):
        raise ZeroError(USAGE, f"the inputs must have the same number of rows, at least 2; they have {rows}",
                        help="with one row an exporter takes the dimension for a constant; --fixed-batch (fixed_batch=True) takes the batch as it "
                             "is, as a graph's edges beside its nodes")
    return min(rows.values())


def wrap(model, names, loss):
    """A module of tensors to the loss alone, and what its `state` gives behind it."""
    torch = need("torch", "exporting")

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(steps.INNER, model)
            self.state = state.State()

        def forward(self, *inputs):
            batch = dict(zip(names, inputs))
            inner = steps.inner(self)
            result = loss(inner, batch) if loss else inner(**batch)
            given = type(result).__name__ if not isinstance(result, torch.Tensor) else f"tensor of shape {list(result.shape)}"
            if not isinstance(result, torch.Tensor):
                result = result.get("loss") if isinstance(result, dict) else getattr(result, "loss", None) if hasattr(result, "loss") else only_scalar(torch, result)
            if not isinstance(result, torch.Tensor) or result.dim() != 0:
                raise ZeroError(USAGE, f"the model gives no scalar loss for this batch but a {given}",
                                help="give labels in the batch, or loss=function(model, batch)")
            states = self.state.outputs(inner)
            return (result, *states) if states else result

    return Loss()


def only_scalar(torch, result):
    """Of a tuple the one scalar in it; None where it has none, or several."""
    scalars = [x for x in result if isinstance(x, torch.Tensor) and x.dim() == 0 and x.is_floating_point()] if isinstance(result, (tuple, list)) else []
    return scalars[0] if len(scalars) == 1 else None


@contextlib.contextmanager
def training(model, notes):
    """Each module in its own mode, or all in training mode where none is; the model is as before afterwards."""
    with state.kept(model):
        if not any(module.training for module in model.modules()):
            notes("the model is in eval mode: it is exported in training mode")
            model.train()
        yield


def try_out(wrapper, batch, notes):
    """Forward passes by torch: what is wrong with the model or its inputs is no exporter's fault. What the model drew in one, which functions of its own
    multiply gradients, where it takes a gradient itself, and in what it looks rows up; its state is then the wrapper's."""
    said, drawn, own, takes, looked, kept = [], [], set(), [], {}, []

    @contextlib.contextmanager
    def watching(model):
        nonlocal drawn, own, takes, looked
        with draws.watched() as drawn, functions.watched() as own, refusals.refusing() as takes, draws.of_python() as numbers, \
                tables.watched(need("torch", "exporting"), model) as looked:
            yield takes
        kept.extend(numbers)

    with quiet():
        try:
            wrapper.state = state.found(wrapper, batch, watching)
            if kept and draws.go_on(lambda: steps.duplicate(wrapper)(*batch.values())):
                raise ZeroError(UNSUPPORTED, f"a number that {kept[0]} would be the same in all steps",
                                help="torch.rand(()) < p in a torch.where, which zero-run draws anew; or an input; or draw none: a probability of 0, module.eval()")
            if draw := draws.seeded(drawn, lambda: steps.duplicate(wrapper)(*batch.values())):
                raise ZeroError(UNSUPPORTED, f"{draw} gives the same numbers in every step, of a generator that the forward pass seeds; zero-run would draw others",
                                help="draw them once: self.register_buffer(...) in __init__")
            if not wrapper.state.refused:
                state.repeats(wrapper, batch, said.append)
        except ZeroError:
            raise
        except Exception as problem:
            raise ZeroError(OVER_BUDGET if wants_memory(problem) else BAD_INPUT, f"torch itself does not compute the model's loss for this batch: {first_line(problem)}",
                            where=", ".join(f"{name} {list(value.shape)}" for name, value in batch.items())) from problem
    for text in said:
        notes(text)
    wrapper.state.tell(steps.inner(wrapper), notes)
    return list(dict.fromkeys(draw for draw, _ in drawn)), own, list(dict.fromkeys(takes)), looked


def drops_paths(model):
    return any("DropPath" in type(m).__name__ and (getattr(m, "drop_prob", 0.0) or 0.0) > 0 for m in model.modules())


def rows_to_trace(model):
    """Of random batches: of two rows batch norms make noise of rounding, in torch too."""
    return 8 if steps.batch_norms(model) else 2


@contextlib.contextmanager
def quiet():
    """Without what exporters tell of their own affairs; torch's C++ prints whole graphs past Python, to stdout. Gives the list of the
    tracer's warnings."""
    torch = need("torch", "exporting")
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    with warnings.catch_warnings(record=True) as said, closed(1), closed(2), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit.TracerWarning)
        try:
            yield said
        finally:
            logging.disable(level)


@contextlib.contextmanager
def closed(descriptor):
    """What is written there goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept, nowhere = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def output_names(wrapper, batch):
    return [next(name for name in ("loss", "loss_", "loss__") if name not in batch), *wrapper.state.output_names()]


def torchscript(torch, wrapper, batch, path, fixed_batch):
    with detach_kept(torch, 17), derivatives.kept(torch, 17), scattering.kept(torch, 17):  # PRESERVE: modules in eval mode stay in it
        torch.onnx.export(wrapper, tuple(batch.values()), path, dynamo=False, opset_version=17, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, input_names=list(batch), output_names=output_names(wrapper, batch),
                          dynamic_axes=None if fixed_batch else {name: {0: "batch"} for name in batch})


@contextlib.contextmanager
def detach_kept(torch, opset):
    """detach as an operator of zero-compile's own, behind which no gradient goes; the exporter would leave it out."""
    torch.onnx.register_custom_op_symbolic("aten::detach", lambda g, x: g.op("zero::Detach", x).setType(x.type()), opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::detach", opset)


def dynamo(torch, wrapper, batch, path, fixed_batch):
    torch.onnx.export(wrapper, tuple(batch.values()), path, dynamo=True, opset_version=20, optimize=False, verbose=False,
                      external_data=size(wrapper) > EXTERNAL, input_names=[name + OF_BATCH for name in batch], output_names=output_names(wrapper, batch),
                      dynamic_shapes=None if fixed_batch else (tuple({0: torch.export.Dim("batch", min=2)} for _ in batch),))


EXPORTERS = {"torchscript": torchscript, "dynamo": dynamo}


def size(module):
    return sum(p.numel() * p.element_size() for p in module.parameters())


def trace(exporter, wrapper, batch, fixed_batch, fixed, looked, takes_gradients=False):
    """onnx.ModelProto; into `fixed`, where Python took a value from a tensor, "file:line", and whether by int() or len(). Tracing is a forward pass, which moves running statistics: it is done on the model, and undone."""
    torch, onnx, model = need("torch", "exporting"), need("onnx", "exporting"), steps.inner(wrapper)
    with supervised.scratch("zero-export-") as folder:
        file = os.path.join(folder, "traced.onnx")
        try:
            with quiet() as said, state.kept(model, wrapper.state.moving(model)), wrapper.state.as_outputs(), \
                    rewrite.traced(model, tables.without_gradient(looked), takes_gradients, len(batch)):
                wrapper.state.save(model)
                EXPORTERS[exporter](torch, wrapper, batch, file, fixed_batch)
        finally:
            fixed |= {f"{w.filename}:{w.lineno}": bool(re.search(r"\b(int|len)\(", linecache.getline(w.filename, w.lineno))) for w in said
                      if "site-packages" not in w.filename and not w.filename.startswith(PACKAGE) and
                      str(w.message).startswith(("Converting a tensor to a Python", "Converting a tensor to a NumPy", "Using len to get tensor shape"))}
        proto = onnx.load(file)
        graph.brain_floats(proto.graph)
        wrapper.state.assign(proto, model)
        if exporter == "dynamo":
            graph.name_inputs(proto.graph, {name + OF_BATCH: name for name in batch})
        return proto


def save(onnx, proto, path):
    """The files written, the model first."""
    large = sum(len(t.raw_data) for t in proto.graph.initializer) > EXTERNAL
    data = path.name + ".data"
    if large:
        onnx.save_model(proto, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=data, size_threshold=1024)
    else:
        onnx.save_model(proto, str(path))
    return [path, path.with_name(data)] if large else [path]


# Of what exporters say that names nothing of the model's; the last of each: where a module of it must be from.
HINTS = ((r"grouped_mm|histc", "a mixture of experts of transformers' sorts its tokens: zero_compile.tasks.dense_routing(model, print), as zero export hf does it, "
          "has each expert compute all of them", "transformers"),
         (r"not part of the active trace", "a scripted module is in no trace: the module itself, without torch.jit.script", ""),
         (r"fake tensor in the exported program", "exporter=\"torchscript\" (--exporter torchscript) has what torch.export has not here", ""))


def first_line(problem):
    """Its first lines. torch.export's tell of steps and of whom to write to; the reason is what they were raised from."""
    while type(problem).__module__.startswith("torch.onnx._internal.exporter") and problem.__cause__:
        problem = problem.__cause__
    text = problem.message if isinstance(problem, ZeroError) else f"{type(problem).__name__}: {problem}"
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    return "; ".join(lines[:3])[:600] if lines else type(problem).__name__

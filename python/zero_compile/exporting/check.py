"""One step of an export beside one of torch: the loss, and each parameter's gradient, by what sgd made of the parameter."""
import contextlib
import json
import math
import pathlib

from .. import programs, record, supervised
from ..errors import BAD_INPUT, MISMATCH, ZeroError, need
from ..rewriting import draws, rewrite
from . import graph, state, steps
from .steps import norm

AMPLIFIED, MOST, NEARBY = 3, 0.1, 0.01  # where a model amplifies rounding: as many times torch's own error, which must be no more than this; beside nudged weights
SAMPLES = 8  # of how a loss is rounded, and a gradient
NUDGED = 2.0 ** -19  # of each weight, to see how a gradient is rounded: so much that each sample meets what a step may meet, units that rounding switches on or off
MOVED = 2e-2  # by so much noise what begins at 0, to see what lies behind it
FIXED_BATCH = "--fixed-batch (fixed_batch=True) where the loss compares rows with each other"
OWN_BACKWARD = "a backward of the model's own (torch.autograd.Function, a hook) is not in an export, which has the forward's gradient"
TIES = "of equal values, as those of a router that begins at 0, topk takes others in torch: weights that were trained a little are compared, or none (--no-check)"
OF_16_BITS = "16 bits round so much that torch's own gradients are far from exact: export the model in fp32 (model.float()), and zero-compile --precision bf16 or fp16"
NORMS = "batch norms amplify rounding: export with a batch of more rows"
DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "bool": "BOOL", "uint8": "U8",
          "uint16": "U16", "uint32": "U32", "uint64": "U64"}  # numpy's, safetensors'


def write_batch(path, batch):
    """As safetensors, with the standard library alone."""
    numpy = need("numpy", "exporting")
    header, blobs, at = {}, [], 0
    for name, tensor in batch.items():
        array = numpy.ascontiguousarray(bits(tensor.detach().cpu()).numpy())
        header[name] = {"dtype": "BF16" if is_bfloat16(tensor) else DTYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        blobs.append(array.tobytes())
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    pathlib.Path(path).write_bytes(len(head).to_bytes(8, "little") + head + b"".join(blobs))


def is_bfloat16(tensor):
    return str(tensor.dtype) == "torch.bfloat16"


def bits(tensor):
    """What numpy has a type for."""
    return tensor.contiguous().view(need("torch", "exporting").int16) if is_bfloat16(tensor) else tensor.resolve_conj().resolve_neg()


def read_weights(path):
    """{name: numpy array} of safetensors, which exporting need not have."""
    numpy = need("numpy", "exporting")
    raw, kinds = pathlib.Path(path).read_bytes(), {code: name for name, code in DTYPES.items()}
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])

    def array(of):
        kind, (first, end) = numpy.dtype(kinds.get(of["dtype"], "uint16")), of["data_offsets"]
        values = numpy.frombuffer(raw, kind, (end - first) // kind.itemsize, start + first).reshape(of["shape"])
        return (values.astype(numpy.uint32) << 16).view(numpy.float32) if of["dtype"] == "BF16" else values

    return {name: array(of) for name, of in header.items() if name != "__metadata__"}


def zero_step(model, batch, rows, rate, *flags):
    """(loss, {parameter: its value after a step of plain sgd}) of zero-compile and zero-run; `rows` None: the graph has no other number."""
    with supervised.scratch("zero-check-") as folder:
        folder = pathlib.Path(folder)
        write_batch(folder / "batch.safetensors", batch)
        programs.call("zero-compile", model, *(["--dim", f"batch={rows}"] if rows else []), "--optimizer", "sgd", "--lr", repr(rate),
                      "--dropout", "off", *flags, "-o", folder / "check.plan", warn=False)  # the person's own compilation warns
        programs.call("zero-run", folder / "check.plan", "--data", folder / "batch.safetensors", "--steps", "1", "--quiet", "--out",
                      folder / "run", warn=False)
        programs.call("zero-run", "export", folder / "run/final", "--safetensors", folder / "weights.safetensors", "--model", model)
        step = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[0])
        return step["loss"], read_weights(folder / "weights.safetensors")


def rate_for(gradients):
    """A rate at which what a parameter was is lost in the rounding of its step: the step alone says what its gradient is. A power of two,
    so that it rounds nothing itself."""
    whole = norm(gradients.values())
    return 2.0 ** min(60, 20 - math.frexp(whole)[1]) if 0 < whole < math.inf else 1.0


def flipped(batch):
    """Batches whose flags, tensors of two values at most, are others: in each row the last one (a mask's padding, where there was none), and all of them set.
    An `if` on all or any of them goes the other way there."""
    torch = need("torch", "exporting")

    def other(value, whole):
        low, high = value.amin(), value.amax()
        if low == high:
            low, high = torch.zeros_like(low), torch.ones_like(high)
        if whole:
            return high.expand(value.shape).clone()
        value = value.clone()
        last = value[..., -1]
        value[..., -1] = torch.where(last == high, low, high)
        return value

    flags = [name for name, value in batch.items() if value.numel() and len(value.unique()) < 3 and (not value.is_floating_point() or torch.equal(value, value.round()))
             and value.amin() >= 0 and value.amax() <= 1]
    for whole in (False, True):
        taken = {name: other(value, whole) if name in flags else value for name, value in batch.items()}
        if any(not torch.equal(value, batch[name]) for name, value in taken.items()):
            yield taken


def computes(wrapper, batch):
    """Is torch's loss of this batch a number, with a gradient?"""
    try:
        loss, gradients = steps.loss_and_gradients(wrapper, batch)
    except Exception:  # whatever a model says of data that it was not given
        return False
    return math.isfinite(loss) and 0 < norm(gradients.values()) < math.inf


@contextlib.contextmanager
def said(when):
    """Errors say when they are."""
    try:
        yield
    except ZeroError as problem:
        problem.message += f" ({when})"
        raise


def compare(wrapper, model, batch, rows, other=None):
    """What was compared, in a line; a difference is an error. Another number of rows than the one traced, `rows`, shows that none is fixed
    (one more; twice as many where torch takes no other); None: it is, and was meant to be. `other`: a batch of other data, compared as well."""
    torch = need("torch", "exporting")
    computed = other if other and computes(wrapper, other) else None
    if computed:
        compare_step(wrapper, model, computed, rows)
    for flags in flipped(batch) if other else ():
        if computes(wrapper, flags):
            with said("with other flags in it"):
                compare_step(wrapper, model, flags, rows)
    more = [({name: torch.cat([value, value[:1]]) for name, value in batch.items()}, rows + 1),
            ({name: torch.cat([value, value]) for name, value in batch.items()}, 2 * rows)] if rows else [(batch, None)]
    for taken, count in more:
        try:
            told, idle = compare_step(wrapper, model, taken, count)
            break
        except ZeroError as problem:
            if rows:
                with contextlib.suppress(ZeroError):
                    compare_step(wrapper, model, batch, rows)
                    problem.help = FIXED_BATCH
            raise
        except Exception:  # torch's, of groups of rows
            if count == more[-1][1]:
                raise
    if wrapper.state.names or wrapper.state.projected:
        after_a_step(wrapper, model, computed or taken, taken, count)
    return told + (behind_zeros(wrapper, model, taken, count, idle) if idle else "")


def behind_zeros(wrapper, model, batch, rows, idle):
    """compare_step once more, of copies in which parameters that are 0 throughout (LoRA's second factors, gates), and those without a gradient,
    have moved a little: what lies behind a 0 was compared as 0 with 0. What of `idle` was compared now, and what was not."""
    torch, twin, generator = need("torch", "exporting"), steps.duplicate(wrapper), need("torch", "exporting").Generator().manual_seed(0)
    moved = []
    for name, p in steps.inner(twin).named_parameters():
        if p.requires_grad and (name in idle or not p.any()):
            with torch.no_grad():
                p += MOVED * torch.randn(p.shape, generator=generator)
            moved.append(name)
    if computes(twin, batch):
        _, left = compare_twin(twin, model, batch, rows, moved, "parameters that begin at 0 moved by noise")
    else:
        left = idle
    said = f"; {len(idle) - len(left)} of 0 again, with noise in what begins at 0" if len(left) < len(idle) else ""
    names = ", ".join(map(repr, left[:6])) + (f" and {len(left) - 6} more" if len(left) > 6 else "")
    return said + (f"; not compared, as their gradients are 0: {names}" if left else "")


def after_a_step(wrapper, model, first, batch, rows):
    """compare_step twice more, of copies that one forward pass of the batch `first`, and then seven, have gone through: a place in a queue that Python took from a
    buffer is the first one's. Of another batch's statistics a moving average differs from what was copied, as the first step of an observer does; a teacher, from
    the model that it is a copy of, once the weights have moved."""
    torch, twin = need("torch", "exporting"), steps.plain(wrapper)
    trained = [(name, p) for name, p in steps.inner(twin).named_parameters() if p.requires_grad and name not in (*wrapper.state.names, *wrapper.state.projected)]

    def move(share):
        with torch.no_grad():
            for _, p in trained:
                p.mul_(1 + share)

    move(4 * state.OTHER)
    for more, when in ((1, "in the second step"), (state.PASSES - 1, f"in step {state.PASSES + 1}")):
        for _ in range(more):
            move(state.OTHER)
            with draws.the_same():
                steps.take(twin, first)
        move(state.OTHER)  # what was copied in the last pass is no copy in the next
        if computes(twin, batch):
            compare_twin(twin, model, batch, rows, [*wrapper.state.moving(steps.inner(twin)), *(name for name, _ in trained)], when)


def compare_twin(twin, model, batch, rows, names, when):
    """compare_step of `twin`, whose tensors `names` are not as in the file `model`."""
    onnx = need("onnx", "exporting")
    proto, own = onnx.load(model), state.tensors(steps.inner(twin))
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name in names:
        if name in tensors:
            tensors[name].CopyFrom(graph.initializer(own[name], name))
    with supervised.scratch("zero-check-") as folder:
        path = pathlib.Path(folder) / "moved.onnx"
        onnx.save_model(proto, str(path), save_as_external_data=True, location="moved.data", size_threshold=1024)
        with said(when):
            return compare_step(twin, path, batch, rows)


def compare_step(wrapper, model, batch, rows):
    """(compare, of this batch; names of the parameters whose gradients are all 0, but for those that no loss reaches)"""
    twin = steps.plain(wrapper)
    loss, gradients = steps.take(twin, batch)
    if gradients and norm(gradients.values()) == 0:
        raise ZeroError(BAD_INPUT, f"torch's gradients of this batch are all 0: nothing can be compared (loss {loss:.9g})",
                        help="give a batch that the model learns from; --no-check (check=False) exports without a comparison")
    rate = rate_for(gradients)
    got, after = zero_step(model, batch, rows, rate)
    given = {name: (p.detach().double().numpy() - after[name]) / rate for name, p in steps.inner(wrapper).named_parameters() if name in gradients and name in after}
    wrong = abs(got - loss) / max(abs(loss), 1e-30)
    errors = steps.errors(given, gradients)
    where = f"a batch of {len(next(iter(batch.values())))}"
    if not wrong <= steps.LOSS and not abs(got - loss) <= AMPLIFIED * loss_rounding(wrapper, batch):
        raise ZeroError(MISMATCH, f"the export differs from torch: loss {got:.9g} for {loss:.9g}", where=where, help=help_of(wrapper, model, batch))
    different = more_than_rounding(wrapper, batch, given, gradients, [name for name, error in errors.items() if not error <= steps.GRADIENT])
    if different:
        raise ZeroError(MISMATCH, difference(different, given[different[0]], gradients[different[0]]), where=where, help=help_of(wrapper, model, batch, OWN_BACKWARD))
    wrapper.state.compare(steps.inner(wrapper), steps.inner(twin), after, where)
    unused = record.read(model)["unused"]
    return (f"loss {got:.7g} as torch's {loss:.7g} (to {wrong:.0e}), {len(errors)} gradients (to {max(errors.values(), default=0):.0e})",
            [name for name in given if not gradients[name].any() and name not in unused])


def help_of(wrapper, model, batch, *more):
    """What helps where an export differs from torch, of `more` and what is seen of the module, the batch and the file."""
    if last_bit(wrapper, batch) > NUDGED:
        return OF_16_BITS
    if steps.batch_norms(wrapper):
        return NORMS
    choices = any(node.op_type == "TopK" for node in need("onnx", "exporting").load(model, load_external_data=False).graph.node)
    return "; ".join([*more, *([TIES] if choices else [])]) or None


def loss_rounding(wrapper, batch):
    """How far torch's own loss is from the exact one: the most of a few models whose weights are these but for the last bit, each beside itself in double
    precision, since one alone may be exact by chance; how far they are from each other, where torch cannot compute them in double. A loss that is a small
    difference of large numbers is as exact as those are, and one of a model that computes in 16 bits as their last."""
    torch, losses, errors = need("torch", "exporting"), [], []

    def loss_of(module, values):
        with draws.the_same(), rewrite.without_dropout(torch):
            return float(module(*values).detach())

    for twin in nudged(wrapper, last_bit(wrapper, batch)):
        losses.append(loss_of(steps.duplicate(twin), batch.values()))
        with contextlib.suppress(Exception):  # of a model that names fp32 itself
            errors.append(abs(losses[-1] - loss_of(twin.double(), wide(batch).values())))
    return max(errors) if len(errors) == SAMPLES else max(losses) - min(losses)


def nudged(wrapper, share):
    """SAMPLES copies of a module, in which nothing is left out and each weight has that share of itself more or less, or is as it was."""
    torch = need("torch", "exporting")
    generator = torch.Generator().manual_seed(0)
    for _ in range(SAMPLES):
        twin = steps.plain(wrapper)
        with torch.no_grad():
            for p in twin.parameters():
                if p.dtype in (torch.float32, torch.float16, torch.bfloat16):
                    p.mul_(1 + share * torch.randint(-1, 2, p.shape, generator=generator))
        yield twin


def last_bit(wrapper, batch):
    """Of a 1 in the coarsest floats, of 32 bits or fewer, in which a forward pass has what gradients go through: a mask's last bit is nobody's rounding."""
    from torch.overrides import TorchFunctionMode
    torch = need("torch", "exporting")
    found = {torch.float32}

    class Watching(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **kwargs or {})
            found.update(each.dtype for each in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(each, torch.Tensor) and each.requires_grad)
            return result

    with Watching():
        steps.plain(wrapper)(*batch.values())
    return max(torch.finfo(kind).eps for kind in found if kind.is_floating_point and kind.itemsize > 1)


def wide(batch):
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}


def more_than_rounding(wrapper, batch, given, gradients, names):
    """Those of `names` whose gradients in `given` are further from torch's than other gradients are that are as good: the exact ones, in double precision,
    where torch has them, and those of models whose weights are almost these. Where a loss has kinks, as ReLU's and maxima's, rounding decides on which side of
    one a few of a million values are, and a gradient with one more of them is as good."""
    least = steps.floor(gradients)
    if names:  # of 16 bits sums that come to nothing, as of a bias before a norm, are the last bits of what they are of, a few of them
        bit = last_bit(wrapper, batch)
        most_of_all, nearby = (AMPLIFIED * MOST, AMPLIFIED * MOST) if bit > NUDGED else (MOST, NEARBY)
        names = [name for name in names if not norm([given[name] - gradients[name]]) <= AMPLIFIED * bit * norm(gradients.values())]

    def others():
        with contextlib.suppress(Exception):  # of a model that names fp32 itself
            yield steps.loss_and_gradients(steps.duplicate(wrapper).double(), wide(batch))[1], most_of_all
        for twin in nudged(wrapper, max(NUDGED, bit)):
            yield steps.take(twin, batch)[1], nearby

    for other, most in others() if names else ():
        names = [name for name in names if not is_rounding(given[name], gradients[name], other[name], most * max(norm([gradients[name]]), least))]
        if not names:
            break
    return names


def is_rounding(step, gradient, other, most):
    """Is a gradient about as far from torch's as another that is as good, which is no further than `most`?"""
    own = norm([gradient - other])
    return own <= most and min(norm([step - gradient]), norm([step - other])) <= AMPLIFIED * own


def difference(names, got, expected):
    """Which parameters get another gradient than torch's; of the first, how."""
    along = float((got * expected).sum()) / max(norm([got]) * norm([expected]), 1e-300)
    how = "points the other way" if along < -0.99 else f"has the norm {norm([got]):.6g} for {norm([expected]):.6g}, and a cosine of {along:.4f} with it"
    shown = ", ".join(map(repr, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f"the export trains differently from torch: the loss is the same, not the gradient of {shown}; that of {names[0]!r} {how}"

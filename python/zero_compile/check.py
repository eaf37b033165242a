"""One step of an export beside one of torch, at learning rate 0: the loss, and the norm of the gradient."""
import json
import pathlib
import tempfile

from . import programs
from .errors import MISMATCH, ZeroError, need
from .tasks import without_dropout

LOSS, NORM = 1e-5, 1e-3  # relative
NORM_OF_BATCH_NORMS = 1e-2  # which amplify rounding (test/e2e/README.md)


def write_batch(path, batch):
    """As safetensors, with the standard library alone."""
    numpy = need("numpy", "exporting")
    names = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "bool": "BOOL", "uint8": "U8"}
    header, blobs, at = {}, [], 0
    for name, tensor in batch.items():
        array = numpy.ascontiguousarray(tensor.detach().cpu().numpy())
        header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        blobs.append(array.tobytes())
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    pathlib.Path(path).write_bytes(len(head).to_bytes(8, "little") + head + b"".join(blobs))


def duplicate(module):
    """A deep copy. What a module keeps of its last forward pass, which torch does not copy, is copied without its history."""
    import copy
    torch = need("torch", "exporting")
    kept = [value for inner in module.modules() for value in vars(inner).values() if isinstance(value, torch.Tensor) and not value.is_leaf]
    return copy.deepcopy(module, {id(value): value.detach().clone() for value in kept})


def torch_step(wrapper, batch):
    """(loss, norm of the gradient) in training mode without dropout; the module is as before afterwards."""
    twin = duplicate(wrapper).train()
    for module in twin.modules():
        if "Dropout" in type(module).__name__ and hasattr(module, "p"):
            module.p = 0.0
        without_dropout(module)
    loss = twin(*batch.values())
    loss.backward()
    norms = [float(p.grad.double().norm()) for p in twin.parameters() if p.grad is not None]
    return float(loss.detach()), sum(n * n for n in norms) ** 0.5


def zero_step(model, batch, rows, *flags):
    """The same of zero-compile and zero-run; `rows` None: the graph has no other number."""
    with tempfile.TemporaryDirectory(prefix="zero-check-") as folder:
        folder = pathlib.Path(folder)
        write_batch(folder / "batch.safetensors", batch)
        programs.call("zero-compile", model, *(["--dim", f"batch={rows}"] if rows else []), "--optimizer", "sgd", "--lr", "0",
                      "--dropout", "off", *flags, "-o", folder / "check.plan")
        programs.call("zero-run", folder / "check.plan", "--data", folder / "batch.safetensors", "--steps", "1", "--quiet", "--out",
                      folder / "run")
        step = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[0])
        return step["loss"], step["grad_norm"]


def compare(wrapper, model, batch, rows):
    """What was compared, in a line; a difference is an error. Another number of rows than the one traced, `rows`, shows that none is fixed;
    None: it is, and was meant to be."""
    torch = need("torch", "exporting")
    if rows:
        rows, batch = rows + 1, {name: torch.cat([value, value[:1]]) for name, value in batch.items()}
    loss, norm = torch_step(wrapper, batch)
    got, got_norm = zero_step(model, batch, rows)
    wrong = abs(got - loss) / max(abs(loss), 1e-6)
    wrong_norm = abs(got_norm - norm) / max(norm, 1e-6)
    batch_norms = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in wrapper.modules())
    if not wrong <= LOSS or not wrong_norm <= (NORM_OF_BATCH_NORMS if batch_norms else NORM):
        raise ZeroError(MISMATCH, f"the export differs from torch: loss {got:.9g} for {loss:.9g}, norm of the gradient "
                                  f"{got_norm:.6g} for {norm:.6g}", where=f"a batch of {len(next(iter(batch.values())))}",
                        help="batch norms amplify rounding: export with a batch of more rows" if batch_norms else None)
    return f"loss {got:.7g} as torch's {loss:.7g} (to {wrong:.0e}), norm of the gradient to {wrong_norm:.0e}"

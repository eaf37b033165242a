"""What a model has besides its parameters and buffers, which an export cannot train: kept as it was while it is exported, and refused where a
step depends on it."""
import contextlib
import os
import random
import sys

from .errors import UNSUPPORTED, ZeroError, need


@contextlib.contextmanager
def kept(model):
    """The modules' modes and attributes are as before afterwards, with what they held, whatever a forward pass makes of them."""
    torch = need("torch", "exporting")
    modes = [(module, module.training, dict(module._buffers)) for module in model.modules()]
    before = [(module, own(torch, module)) for module in model.modules()]
    held = [(value, contents(torch, value)) for _, attributes in before for value in attributes.values()]
    try:
        yield
    finally:
        for module, attributes in before:
            for name in own(torch, module).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
        for module, mode, buffers in modes:
            module.training = mode
            module._buffers.update(buffers)
        for value, content in held:
            restore(torch, value, content)


def tensors(model):
    """Its buffers and parameters by name."""
    return {**dict(model.named_buffers()), **dict(model.named_parameters())}


def carried(model, after, changed, reached):
    """Of the names `changed` by a forward pass, after which the model is `after`: those that may go from step to step, buffers and parameters without a
    gradient of one shape and type. `reached()`: the names of those that have one."""
    before, after = tensors(model), tensors(after)
    with_gradient = reached() if any(before[name].requires_grad for name in changed) else ()
    return [name for name in changed if not (before[name].requires_grad and name in with_gradient) and (before[name].shape, before[name].dtype) == (after[name].shape, after[name].dtype)]


def put(model, name, value):
    """A buffer, or a parameter without a gradient, is `value`."""
    torch = need("torch", "exporting")
    path, _, own_name = name.rpartition(".")
    module = model.get_submodule(path)
    if own_name in module._buffers:
        module._buffers[own_name] = value.detach().clone()
    else:
        with torch.no_grad():
            module._parameters[own_name].copy_(value)


def own(torch, module):
    """Its attributes by name, but for those that every module has."""
    common = vars(torch.nn.Module())
    return {name: value for name, value in vars(module).items() if name not in common}


def contents(torch, value):
    """A copy of what may change within it; None of what cannot."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.layout == torch.strided and value.device.type == "cpu" else None
    return value.copy() if type(value) in (list, dict, set) else None


def restore(torch, value, content):
    if content is None:
        return
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            if value.shape == content.shape and not torch.equal(value, content):
                value.copy_(content)
    elif isinstance(value, list):
        value[:] = content
    else:
        value.clear()
        value.update(content)


def refuse(model):
    """Errors: what torch does beside the backward pass, of which an export knows nothing (unsupported)."""
    torch = need("torch", "exporting")
    hooked = [name for name, p in model.named_parameters() if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None)]
    if hooked:
        raise ZeroError(UNSUPPORTED, "hooks on gradients are not in an export: of " + ", ".join(map(repr, hooked[:8])),
                        help="remove them; zero-compile's --clip-grad-norm and --param-groups do what most are for")
    complex_ones = [name for name, p in model.named_parameters() if p.is_complex()]
    if complex_ones:
        raise ZeroError(UNSUPPORTED, "complex parameters: " + ", ".join(map(repr, complex_ones[:8])),
                        help="two floats each: torch.view_as_complex of a parameter of shape [..., 2], which optimizers train alike")
    counting = [name for name, module in model.named_modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
                and module.training and module.track_running_stats and module.momentum is None]
    if counting:
        raise ZeroError(UNSUPPORTED, "batch norms of momentum None, which keep the mean of all steps: " + ", ".join(map(repr, counting[:8])),
                        help="give them a momentum, or eval(), which leaves their statistics alone")


@contextlib.contextmanager
def refusing():
    """Errors: what a forward pass does that no exporter has: packed sequences, draws without a derivative here (unsupported). Gives a list of the places
    where it takes a gradient."""
    from torch.overrides import TorchFunctionMode
    torch, takes = need("torch", "exporting"), []

    class Refuses(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") == "_pack_padded_sequence":
                raise ZeroError(UNSUPPORTED, f"a packed sequence ({place(torch, sys._getframe(1))}), whose shape depends on the lengths",
                                help="whole sequences, and what counts by a mask or a gather: out[torch.arange(out.shape[0]), lengths - 1]")
            if getattr(function, "__name__", "") in ("_standard_gamma", "_sample_dirichlet", "poisson", "binomial"):
                raise ZeroError(UNSUPPORTED, f"draws of a Gamma, Beta, Dirichlet, Poisson or binomial distribution ({place(torch, sys._getframe(1))}), which no graph has",
                                help="what normal or uniform numbers make: LogNormal, Kumaraswamy in the place of Beta, a softmax of normal numbers in that of Dirichlet")
            if function is torch.Tensor.backward:
                raise ZeroError(UNSUPPORTED, f"the loss takes a gradient itself (backward at {place(torch, sys._getframe(1))}), into what no export has",
                                help="torch.autograd.grad(loss, inputs, create_graph=True), which gives it as tensors")
            if function is torch.autograd.grad:
                takes.append(place(torch, sys._getframe(1)))
                if (kwargs or {}).get("is_grads_batched"):
                    raise ZeroError(UNSUPPORTED, f"gradients of a batch of outputs at once (is_grads_batched at {takes[-1]}), which exporters have not",
                                    help="one after the other: torch.autograd.grad(outputs[:, i].sum(), inputs, create_graph=True)")
            return function(*args, **kwargs or {})

    with Refuses():
        yield takes


def place(torch, frame):
    """"file:line" of the model's own that called torch's function."""
    inside = os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep
    while frame.f_back and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def numbers(model):
    """Those in modules' attributes, by name."""
    torch = need("torch", "exporting")
    return {f"{path}.{name}" if path else name: value for path, module in model.named_modules()
            for name, value in own(torch, module).items() if isinstance(value, (int, float))}


def changed(before, after):
    """Names of the numbers that are others in the second; NaN is NaN."""
    return [name for name, value in after.items() if name in before and repr(value) != repr(before[name])]


@contextlib.contextmanager
def same_draws():
    """What is drawn in it is the same each time, and nobody's draws afterwards are others for it."""
    torch, numpy = need("torch", "exporting"), need("numpy", "exporting")
    python, numbers = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(numbers)

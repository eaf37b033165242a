"""Functions with a backward of their own (torch.autograd.Function), of which exporters keep the forward alone. Where the backward multiplies the gradient,
element by element, by what the forward saved, as straight-through steps, surrogates of spikes and reversed gradients do, the trace gets that product."""
import contextlib

from ..errors import need
from ..rewriting import tracing

NEAR = 1e-4  # relative: a backward of a multiple of ones is that multiple of the backward of ones


class Context:
    """What torch gives to forward and backward."""

    def __init__(self, arguments, tensor):
        self.saved_tensors, self.written = (), False
        self.needs_input_grad = tuple(isinstance(x, tensor) and x.requires_grad for x in arguments)

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *_):
        self.written = True

    def mark_non_differentiable(self, *_):
        pass

    def set_materialize_grads(self, _):
        pass


def passes(torch, function, arguments):
    """(what forward gives of the arguments, without their history; gradient of it -> list of those of the arguments)"""
    context = Context(arguments, torch.Tensor)
    held = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    if function.setup_context is torch.autograd.Function.setup_context:
        result = function.forward(context, *held)
    else:
        result = function.forward(*held)
        function.setup_context(context, tuple(held), result)
    if context.written or not isinstance(result, torch.Tensor) or not result.is_floating_point():
        raise NotImplementedError

    def backward(gradient):
        gradients = function.backward(context, gradient)
        return list(gradients) if isinstance(gradients, tuple) else [gradients]

    return result.detach(), backward


def multiplies(torch, function, arguments):
    """Is each gradient that backward gives the one it gets, times factors of the same shape?"""
    try:
        result, backward = passes(torch, function, arguments)
        some = ((torch.arange(result.numel()) * 37 % 128 + 0.5) / 64 - 0.7).reshape(result.shape).to(result.dtype)
        return all(factor is None if scaled is None else factor.shape == result.shape == x.shape and
                   torch.allclose(scaled, factor * some, rtol=NEAR, atol=NEAR * float(factor.abs().max()), equal_nan=True)
                   for x, factor, scaled in zip(arguments, backward(torch.ones_like(result)), backward(some)) if isinstance(x, torch.Tensor) and x.requires_grad)
    except Exception:  # whatever a backward says of another context than torch's
        return False


def multiplied(torch, function, arguments):
    """forward's result, whose gradients are those that backward gives."""
    result, backward = passes(torch, function, arguments)
    for x, factor in zip(arguments, backward(torch.ones_like(result))):
        if isinstance(x, torch.Tensor) and x.requires_grad and factor is not None:
            result = result + (x - x.detach()) * factor.detach()
    return result


@contextlib.contextmanager
def applied(torch, answer):
    """A function of the model's own is applied as `answer` says: (its class, arguments, what torch does) -> result."""
    kind, real = torch.autograd.Function, vars(torch.autograd.Function)["apply"]

    def apply(cls, *arguments, **options):
        torchs = lambda: real.__get__(None, cls)(*arguments, **options)
        return torchs() if options else answer(cls, arguments, torchs)

    kind.apply = classmethod(apply)
    try:
        yield
    finally:
        kind.apply = real


@contextlib.contextmanager
def watched():
    """Gives a set, which afterwards holds the functions that multiply gradients wherever the model applies them."""
    torch = need("torch", "exporting")
    multiply, other = set(), set()

    def look(function, arguments, torchs):
        with torch.no_grad():
            if function.__module__.partition(".")[0] != "torch":
                (multiply if multiplies(torch, function, arguments) else other).add(function)
        return torchs()

    with applied(torch, look):
        yield multiply
    multiply -= other


@contextlib.contextmanager
def traced(those):
    """A context in which `those` are applied by what the trace takes, and a checkpoint by what it would compute again."""
    torch = need("torch", "exporting")
    from torch.utils.checkpoint import CheckpointFunction, _checkpoint_hook

    def answer(function, arguments, torchs):
        if function is CheckpointFunction:
            with tracing.again():
                return arguments[0](*arguments[2:])
        return multiplied(torch, function, arguments) if function in those else torchs()

    enter, leave = _checkpoint_hook.__enter__, _checkpoint_hook.__exit__

    def enters(hook):
        hook.of_trace = tracing.again()
        hook.of_trace.__enter__()
        return enter(hook)

    def leaves(hook, *problem):
        hook.of_trace.__exit__(None, None, None)
        return leave(hook, *problem)

    _checkpoint_hook.__enter__, _checkpoint_hook.__exit__ = enters, leaves
    try:
        with applied(torch, answer):
            yield
    finally:
        del _checkpoint_hook.__enter__, _checkpoint_hook.__exit__

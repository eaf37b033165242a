"""What is known while a model is traced: the value of TorchScript's trace that a tensor stands for, which may be given another, and where the model says no_grad."""
import contextlib
import os
import sys

from ..errors import PACKAGE, need


def place(frame):
    """"file:line" of the model's own that called torch's function."""
    inside = os.path.dirname(need("torch", "exporting").__file__) + os.sep, PACKAGE
    while frame.f_back and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextlib.contextmanager
def paused():
    """What is computed here is in no trace."""
    torch = need("torch", "exporting")
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


class Again:
    """In how many checkpoints a trace is: what they compute, the backward pass computes again."""
    depth = 0


@contextlib.contextmanager
def again():
    Again.depth += 1
    try:
        yield
    finally:
        Again.depth -= 1


def rebind(tensor, traced):
    """From here on `tensor` is in the trace what `traced` is now."""
    torch = need("torch", "exporting")
    torch._C._set_value_trace(tensor, torch._C._get_value_trace(traced))


DRAWN = "rand", "normal", "bernoulli", "uniform", "exponential", "multinomial", "poisson", "dropout"
OF_DATA = "aten::index", "aten::nonzero", "aten::masked_select", "aten::unique", "aten::where", "aten::argwhere", "aten::repeat_interleave"  # whose sizes are


def varies(tensor, inputs, size=False):
    """May `tensor`'s value, or its number of rows (`size`), be another in another step? Not where it is computed of sizes that stay: those of parameters and
    buffers, and of the `inputs` that the batch has all but the number of rows."""
    torch = need("torch", "exporting")
    if not torch.jit.is_tracing():
        return True
    pending, seen = [(torch._C._get_value_trace(tensor), size)], set()
    while pending:
        value, of_size = pending.pop()
        node, kind = value.node(), value.node().kind()
        if (value.debugName(), of_size) in seen:
            continue
        seen.add((value.debugName(), of_size))
        of_batch = kind == "prim::Param" and value.offset() < inputs
        if kind == "prim::Param" and (of_batch or not of_size) or any(word in kind for word in DRAWN):
            return True
        sources = list(node.inputs())
        if kind == "aten::size" and len(sources) == 2 and stays(*sources, inputs):
            continue
        pending += [(source, kind == "aten::size" or of_size and not kind.startswith(OF_DATA)) for source in sources]
    return False


def stays(input, dim, inputs):
    """Is this a size of an input's that all batches share?"""
    node, dim = input.node(), dim.toIValue()
    return node.kind() == "prim::Param" and input.offset() < inputs and isinstance(dim, int) and dim > 0


class NoGrad:
    """Has the model said that what it computes needs no gradient, torch's modules and distributions with it? torch.export itself says so while it traces."""
    on = False

    @classmethod
    @contextlib.contextmanager
    def watched(cls, torch):
        inside = os.path.dirname(torch.__file__) + os.sep
        models = tuple(inside + room + os.sep for room in ("nn", "distributions"))

        def is_models(frame):
            while frame and frame.f_code.co_filename.endswith("contextlib.py"):  # as a decorator, in a stack
                frame = frame.f_back
            return frame and (not frame.f_code.co_filename.startswith(inside) or frame.f_code.co_filename.startswith(models))

        def entering(method, is_off):
            def enter(mode, *arguments, **options):
                result = method(mode, *arguments, **options)
                if is_models(sys._getframe(1)):
                    mode.on_before, cls.on = cls.on, is_off(mode)
                return result
            return enter

        def leaving(method):
            def leave(mode, *arguments):
                cls.on = mode.__dict__.pop("on_before", cls.on)
                return method(mode, *arguments)
            return leave

        # set_grad_enabled sets it where it is made, so that it may be called as a function.
        modes = {torch.no_grad: ("__enter__", lambda mode: True), torch.enable_grad: ("__enter__", lambda mode: False),
                 torch.inference_mode: ("__enter__", lambda mode: mode.mode), torch.set_grad_enabled: ("__init__", lambda mode: not mode.mode)}
        before = [(mode, name, getattr(mode, name)) for mode, (enter, _) in modes.items() for name in (enter, "__exit__")]
        cls.on = False
        for mode, (enter, is_off) in modes.items():
            setattr(mode, enter, entering(getattr(mode, enter), is_off))
            mode.__exit__ = leaving(mode.__exit__)
        try:
            yield
        finally:
            for mode, name, method in before:
                setattr(mode, name, method)


class Frozen:
    """Parameters that require no gradient for a while, as a discriminator's in its generator's loss: what takes them then takes them detached, which
    exporters keep, as they do not keep the flag."""

    def __init__(self, torch):
        from torch.utils.weak import WeakTensorKeyDictionary
        self.torch, self.those = torch, WeakTensorKeyDictionary()
        self.setters = {torch.Tensor.requires_grad_, torch.Tensor.requires_grad.__set__}

    def note(self, function, args, kwargs):
        """Before the call: does it set the flag?"""
        if function not in self.setters or not args[0].is_leaf:
            return
        if (*args[1:], *kwargs.values(), True)[0]:
            self.those.pop(args[0], None)
        elif args[0].requires_grad:
            self.those[args[0]] = True

    def taken(self, value):
        """An argument as it is taken, in lists too."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.taken, value)) if type(value) in (list, tuple) else value
        return value.detach() if isinstance(value, self.torch.Tensor) and value in self.those else value

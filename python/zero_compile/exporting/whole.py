"""int(x.shape[0] / 4), len(x): numbers that Python would take from what is traced, kept as tensors, so that the rows they count stay open."""
import builtins
import contextlib
import sys

from ..errors import need


def kept(model, loss):
    """A context in which `int` is Whole and `len` is length in the modules of the model's own code: those of its classes and its loss, with their packages."""
    torch = need("torch", "exporting")

    class OfInt(type):
        """Stands for int wherever that is a class, and where it is called but for a traced tensor."""

        def __call__(cls, *args, **kwargs):
            if len(args) == 1 and isinstance(args[0], torch.Tensor) and torch.jit.is_tracing():
                return args[0].to(torch.int64).reshape(())
            return int(*args, **kwargs)

        def __instancecheck__(cls, value):
            return isinstance(value, int)

        def __subclasscheck__(cls, kind):
            return issubclass(kind, int)

        def __eq__(cls, other):
            return other is int or other is cls

        def __hash__(cls):
            return hash(int)

    class Whole(int, metaclass=OfInt):
        pass

    def length(value):
        return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() and torch.jit.is_tracing() else builtins.len(value)

    return standing({"int": Whole, "len": length}, own_modules(model, loss))


@contextlib.contextmanager
def standing(functions, modules):
    """`functions` under their names in `modules`, where these have none of their own."""
    put = [(names, name) for names in map(vars, modules) for name in functions if name not in names]
    for names, name in put:
        names[name] = functions[name]
    try:
        yield
    finally:
        for names, name in put:
            del names[name]


def own_modules(model, loss):
    """Python's modules of the model's code. A module that stands alone, as a script does, is no package with others."""
    named = {type(module).__module__ for module in model.modules()} | {getattr(loss, "__module__", None) or "__main__"}
    packages = {name.partition(".")[0] for name in named} - {"torch", "builtins", __name__.partition(".")[0]}
    return [module for name, module in list(sys.modules.items()) if module is not None and name.partition(".")[0] in packages]

"""int(x.shape[0] / 4): numbers that Python would take from what is traced, kept as tensors, so that the rows they count stay open."""
import contextlib
import sys

from .errors import need


def kept(model, loss):
    """A context in which `int` is Whole in the modules of the model's own code: those of its classes and its loss, with their packages."""
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

    return standing(Whole, own_modules(model, loss))


@contextlib.contextmanager
def standing(whole, modules):
    lacking = [names for names in map(vars, modules) if "int" not in names]
    for names in lacking:
        names["int"] = whole
    try:
        yield
    finally:
        for names in lacking:
            del names["int"]


def own_modules(model, loss):
    """Python's modules of the model's code. A module that stands alone, as a script does, is no package with others."""
    named = {type(module).__module__ for module in model.modules()} | {getattr(loss, "__module__", None) or "__main__"}
    packages = {name.partition(".")[0] for name in named} - {"torch", "builtins", __name__.partition(".")[0]}
    return [module for name, module in list(sys.modules.items()) if module is not None and name.partition(".")[0] in packages]

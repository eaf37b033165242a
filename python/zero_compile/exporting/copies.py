"""Deep copies of modules, with what copy.deepcopy takes as it is: functions that close over a part of the model, as hooks and replaced forwards do."""
import contextlib
import copy
import functools
import types

from ..errors import UNSUPPORTED, ZeroError, need


def filled(cells):
    """The contents of cells that have any: a name that its function has yet to give a value has none."""
    for cell in cells or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


def inside(value):
    """What it holds, where that may be a part of the model."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, types.FunctionType):
        return [*filled(value.__closure__), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    return value if isinstance(value, (list, tuple)) else ()


def emptied(function):
    """It, closing over nothing yet."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, closure=tuple(types.CellType() for _ in function.__closure__ or ()))
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(function, name))
    made.__dict__.update(function.__dict__)
    return made


def duplicate(module):
    """A deep copy. What a module keeps of its last forward pass, which torch does not copy, is copied without its history."""
    torch = need("torch", "exporting")
    leads, kept, functions = {}, [], []

    def look(value):
        """Does it lead to a module or a tensor?"""
        if id(value) not in leads:
            leads[id(value)] = isinstance(value, (torch.Tensor, torch.nn.Module))
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                kept.append(value)
            if any([look(each) for each in inside(value)]):
                leads[id(value)] = True
                if isinstance(value, types.FunctionType):
                    functions.append(value)
        return leads[id(value)]

    for part in module.modules():
        look(vars(part))
    memo = {id(value): value.detach().clone() for value in kept}
    memo.update((id(function), emptied(function)) for function in functions)

    def copied(value):
        return copy.deepcopy(value, memo) if look(value) else value

    try:
        twin = copy.deepcopy(module, memo)
        for function in functions:
            made = memo[id(function)]
            made.__defaults__ = function.__defaults__ and tuple(map(copied, function.__defaults__))
            made.__kwdefaults__ = function.__kwdefaults__ and {name: copied(value) for name, value in function.__kwdefaults__.items()}
            for cell, own in zip(made.__closure__ or (), function.__closure__ or ()):
                for value in filled([own]):
                    cell.cell_contents = copied(value)
    except Exception as problem:  # of whatever a model holds
        raise ZeroError(UNSUPPORTED, f"the model cannot be copied: {problem}", where=", ".join(type(part).__name__ for part in module.children()),
                        help="the modules must not keep what copy.deepcopy does not copy") from problem
    return twin

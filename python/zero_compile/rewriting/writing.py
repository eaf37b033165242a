"""Writes in place to tensors that others are views of, while TorchScript traces: its exporter has what was written for the tensor that was named alone.
Here such a write is a new value, of the tensor, of what it is a view of and of all other views."""
from . import tracing
from .tracing import NoGrad

AS_THEY_ARE = {"requires_grad_", "detach_", "resize_", "set_", "share_memory_", "squeeze_", "unsqueeze_", "transpose_", "t_", "swapdims_", "swapaxes_", "as_strided_",
               "rename_", "apply_", "map_", "retain_grad", "resize_as_", "swap_"}  # which write no values, or what only torch can
OF_PYTHON = {f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "div")}


class View:
    """`function(base, ...)` gave it; `put(base, part)`: base's value where this view is `part`."""

    def __init__(self, base, again, put, index):
        self.base, self.again, self.put, self.index = base, again, put, index


class Writes:
    """What is a view of what, as far as the model still holds it."""

    def __init__(self, torch):
        from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary
        self.torch, self.views, self.of, self.weak = torch, WeakTensorKeyDictionary(), WeakTensorKeyDictionary(), TensorWeakRef
        self.puts = puts(torch)

    def note(self, function, args, kwargs, result):
        """Remembers what `function` gave, where that is a view."""
        base, name = args[0] if args else kwargs.get("input"), name_of(function)
        if name not in self.puts or not isinstance(base, self.torch.Tensor) or not self.torch.jit.is_tracing():
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        for place, each in enumerate(results):
            if not isinstance(each, self.torch.Tensor) or each is base or each in self.views or not shares(base, each):
                continue
            pick = (lambda made, place=place: made[place]) if result is not each else lambda made: made
            again = (lambda new: new.transpose(-2, -1)) if name.endswith("__get__") and name != "data.__get__" else \
                lambda new, pick=pick: pick(function(new, *args[1:], **kwargs))
            put = self.puts[name](function, place, args[1:], kwargs)
            self.views[each] = View(base, again, put, args[1] if name == "__getitem__" else None)
            self.of.setdefault(base, []).append(self.weak(each))

    def answer(self, answers, function, args, kwargs):
        """`function`, where it writes to what shares elements with others, or by what stands for it; else NotImplemented."""
        torch, target, name = self.torch, args[0] if args else None, getattr(function, "__name__", "")
        if isinstance(kwargs.get("out"), torch.Tensor):
            target, rest = kwargs["out"], {name: value for name, value in kwargs.items() if name != "out"}
            result = answers[function](*args, **rest) if function in answers else NotImplemented
            return self.write(target, function(*args, **rest) if result is NotImplemented else result)
        if not isinstance(target, torch.Tensor) or not writes(name, kwargs):
            return NotImplemented
        if name == "__setitem__" and self.is_there(*args):
            return None
        if name == "__set__":  # of data, or of nothing that is known here
            if name_of(function) != "data.__set__" or args[1].shape != target.shape:
                return NotImplemented
            if not self.is_there(target, None, args[1]):
                self.write(target, behind(target, args[1]))
            return None
        stands = getattr(torch.Tensor, name[:-1], None) in answers or name == "copy_" or NoGrad.on
        if not (stands or torch.jit.is_tracing() and (target in self.views or any(ref() is not None for ref in self.of.get(target, ())))):
            return NotImplemented
        return self.write(target, value_written(torch, answers, function, args, kwargs))

    def is_there(self, target, index, value):
        """x[i] += 1 writes to x[i], and then puts it where it is."""
        view = self.views.get(value) if isinstance(value, self.torch.Tensor) else None
        return view is not None and view.base is target and view.index is index

    def write(self, target, value):
        """`target`, which is `value` from here on, as is what shares its elements."""
        value = unseen(target, value)
        if not self.torch.jit.is_tracing():
            return target.copy_(value)
        value = value.to(target.dtype) if value.dtype != target.dtype else value
        with tracing.paused():
            (target.detach() if target.is_leaf and target.requires_grad else target).copy_(value)
        tracing.rebind(target, value)
        root = target
        while (view := self.views.get(root)) is not None:
            value = unseen(view.base, view.put(view.base, value))
            tracing.rebind(view.base, value)
            root = view.base
        self.renew(root, target)
        return target

    def renew(self, base, written):
        """The views of `base` are those of what it is now; `written` is what it is."""
        for ref in self.of.get(base, ()):
            each = ref()
            if each is not None:
                if each is not written:
                    tracing.rebind(each, self.views[each].again(base))
                self.renew(each, written)


def behind(target, value):
    """`value` where the gradient does not see it, but is `target`'s still."""
    return target + (value - target).detach() if target.is_floating_point() and target.requires_grad else value.detach()


def unseen(target, value):
    """In the model's no_grad a gradient goes on as if nothing were written."""
    return behind(target, value) if NoGrad.on and target.is_floating_point() else value


def name_of(function):
    name = getattr(function, "__name__", "")
    return f"{getattr(function.__self__, '__name__', '')}.{name}" if name in ("__get__", "__set__") else name


def shares(base, other):
    return base.layout == other.layout and base.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() and base.numel() > 0


def puts(torch):
    """{name of a function that gives a view: (function, which of its results, its arguments) -> put}"""
    def in_shape(function, place, args, kwargs):
        return lambda base, part: part.reshape(base.shape)

    def as_it_is(function, place, args, kwargs):
        """A detached one is written to behind the gradient's back."""
        return lambda base, part: behind(base, part) if base.is_floating_point() and base.requires_grad else part

    def turned_back(function, place, args, kwargs):
        return lambda base, part: function(part, *args, **kwargs)

    def permuted(function, place, args, kwargs):
        dims = kwargs.get("dims", args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)
        order = [dim % len(dims) for dim in dims]
        return lambda base, part: part.permute([order.index(dim) for dim in range(len(order))])

    def moved(function, place, args, kwargs):
        source, destination = (*args, *(kwargs[name] for name in ("source", "destination") if name in kwargs))
        return lambda base, part: part.movedim(destination, source)

    def indexed(index):
        def put(base, part):
            base = base.clone()
            base[index] = part
            return base
        return put

    def along(dim, index):
        return lambda base, part: indexed((*[slice(None)] * (dim % base.dim()), index))(base, part)

    def chosen(function, place, args, kwargs):
        given = dict(zip(("dim", "index"), args)) | kwargs
        return along(given["dim"], given["index"])

    def narrowed(function, place, args, kwargs):
        given = dict(zip(("dim", "start", "length"), args)) | kwargs
        return along(given["dim"], slice(given["start"], given["start"] + given["length"]))

    def on_diagonal(function, place, args, kwargs):
        def put(base, part):
            if args or kwargs or base.dim() != 2 or int(base.shape[0]) != int(base.shape[1]):
                raise NotImplementedError(f"a write to a diagonal of shape {list(part.shape)} of a tensor of shape {list(base.shape)}")
            place = torch.arange(int(base.shape[0]))
            return torch.where(place[:, None] == place, part, base)
        return put

    return {**dict.fromkeys(("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze", "ravel"), in_shape),
            **dict.fromkeys(("detach", "data.__get__", "alias"), as_it_is), **dict.fromkeys(("transpose", "swapaxes", "swapdims", "t"), turned_back),
            **dict.fromkeys(("T.__get__", "mT.__get__", "H.__get__", "mH.__get__"), lambda *_: lambda base, part: part.transpose(-2, -1)),
            "permute": permuted, "movedim": moved, "moveaxis": moved, "__getitem__": lambda function, place, args, kwargs: indexed(args[0]), "select": chosen,
            "narrow": narrowed, "diagonal": on_diagonal,
            **dict.fromkeys(("chunk", "split", "tensor_split", "unbind", "expand", "expand_as"), lambda *_: None)}  # to which torch itself does not write


def writes(name, kwargs):
    """Does a function of this name write to its first argument?"""
    return name in ("__setitem__", "__set__") or name in OF_PYTHON or kwargs.get("inplace") is True or name.endswith("_") and not name.endswith("__") and name not in AS_THEY_ARE


def value_written(torch, answers, function, args, kwargs):
    """The value that `function` gives its first argument."""
    name, target, other = function.__name__, args[0], getattr(torch.Tensor, function.__name__[:-1], None)
    if name == "__setitem__":
        value = target.clone()
        if answers[function](value, *args[1:]) is NotImplemented:
            value[args[1]] = args[2]
        return value
    if name in OF_PYTHON:
        return getattr(torch.Tensor, f"__{name[3:]}")(*args)
    if kwargs.get("inplace") is True:
        return function(*args, **{**kwargs, "inplace": False})
    if name == "copy_":
        return args[1].expand_as(target)
    if name in ("zero_", "fill_"):
        return torch.zeros_like(target) if name == "zero_" else torch.zeros_like(target) + args[1]
    if other is not None and name != "bernoulli_":  # whose chance is then the tensor itself
        result = answers[other](*args, **kwargs) if other in answers else NotImplemented
        return other(*args, **kwargs) if result is NotImplemented else result
    value = target.clone()
    result = answers[function](value, *args[1:], **kwargs) if function in answers else NotImplemented
    if result is NotImplemented:
        function(value, *args[1:], **kwargs)
    return value

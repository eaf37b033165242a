"""Complex tensors while a model is traced: a pair of real ones. Exporters have few operators of complex tensors, and no parameter, initializer or
kernel here is one. What pairs have not is done by torch on the complex tensor that they stand for, of which torch.export's exporter knows spectra."""
import functools
import itertools

from ..errors import need


def flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


class Pair:
    """A complex tensor by its real and its imaginary part, which torch's functions take for one."""

    def __init__(self, real, imag):
        self.real, self.imag = need("torch", "exporting").broadcast_tensors(real, imag) if real.shape != imag.shape else (real, imag)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return answer(need("torch", "exporting"), function, args, kwargs or {})

    dtype = property(lambda self: need("torch", "exporting").complex64)
    mT = property(lambda self: self.transpose(-2, -1))
    T = property(lambda self: Pair(self.real.T, self.imag.T))
    H = mH = property(lambda self: self.transpose(-2, -1).conj())

    def __getattr__(self, name):
        if name.startswith("__") or name in ("real", "imag"):
            raise AttributeError(name)
        torch = need("torch", "exporting")
        of = getattr(torch.Tensor, name)
        return functools.partial(answer_of, torch, of, self) if callable(of) else getattr(self.real, name)  # shape, device, ndim

    def __iter__(self):
        return iter(self.unbind(0))


def answer_of(torch, function, *args, **kwargs):
    return answer(torch, function, args, kwargs)


def operator(name):
    return lambda self, *args: answer_of(torch := need("torch", "exporting"), getattr(torch.Tensor, name), self, *args)


for each in ("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul", "truediv", "rtruediv", "itruediv", "pow", "rpow", "matmul", "rmatmul", "neg", "abs",
             "getitem", "setitem", "len"):
    setattr(Pair, f"__{each}__", operator(f"__{each}__"))

SHAPES = set("""view reshape flatten unflatten transpose permute t squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile chunk split unbind
select narrow __getitem__ index_select gather take_along_dim cat concat concatenate stack hstack vstack roll flip movedim swapaxes swapdims contiguous clone detach sum
mean cumsum diff tril triu diagonal diag_embed neg negative __neg__ pad where scatter_add index_add cpu numel view_as reshape_as nansum""".split())
PRODUCTS = {"mul", "multiply", "__mul__", "__rmul__", "matmul", "__matmul__", "mm", "bmm", "mv", "outer", "einsum", "inner", "kron"}
TURNED = {"__rsub__": "__sub__", "__rtruediv__": "__truediv__", "__rdiv__": "__truediv__", "__rpow__": "__pow__", "__rmatmul__": "__matmul__"}
MADE = {"zeros", "empty", "ones", "zeros_like", "empty_like", "ones_like", "new_zeros", "new_empty", "new_ones", "full"}


def name_of(function):
    name = getattr(function, "__name__", "")
    return getattr(function.__self__, "__name__", name) if name == "__get__" else name


def concerns(torch, function, args, kwargs):
    """Is a complex number or tensor taken or asked for?"""
    if any(isinstance(x, (Pair, complex)) or isinstance(x, torch.Tensor) and x.is_complex() for x in flat([args, *kwargs.values()])):
        return True
    return name_of(function) in ("complex", "polar", "view_as_complex", "cfloat") or any(
        x in (torch.complex64, torch.complex128) for x in flat([args, *kwargs.values()]) if isinstance(x, torch.dtype))


def paired(torch, x):
    """Complex tensors as pairs, in lists too."""
    if isinstance(x, (list, tuple)):
        return type(x)(paired(torch, each) for each in x) if type(x) in (list, tuple) else x
    if isinstance(x, torch.Tensor) and x.is_complex():
        both = torch.view_as_real(x.resolve_conj())
        return Pair(both[..., 0], both[..., 1])
    return x


def whole(torch, x):
    """Pairs as complex tensors."""
    if isinstance(x, (list, tuple)):
        return type(x)(whole(torch, each) for each in x) if type(x) in (list, tuple) else x
    return torch.view_as_complex(torch.stack([x.real, x.imag], -1)) if isinstance(x, Pair) else x


def part(x, which, beside):
    """The real (0) or the imaginary part (1) in an argument; of real tensors that stand beside pairs in a list, or as an operand, 0."""
    if isinstance(x, (list, tuple)):
        lists = any(isinstance(each, Pair) for each in x)
        return type(x)(part(each, which, lists) for each in x) if type(x) in (list, tuple) else x
    if isinstance(x, (Pair, complex)):
        return x.imag if which else x.real
    return x * 0 if which and beside and hasattr(x, "is_floating_point") else x


def multiplied(function, operands):
    """A product of complex factors, by those of their parts."""
    sums = [None, None]
    for whiches in itertools.product(*((0, 1) if isinstance(x, (Pair, complex)) else (0,) for x in operands)):
        term, turns = function([part(x, which, False) for x, which in zip(operands, whiches)]), sum(whiches)
        before, sign = sums[turns % 2], 1 if turns % 4 < 2 else -1
        sums[turns % 2] = (term if sign == 1 else -term) if before is None else before + term if sign == 1 else before - term
    return Pair(*sums)


@functools.cache
def arithmetic(torch):
    """{name: function of pairs, of numbers and real tensors beside them}"""
    zero = lambda x: part(x, 1, True) if isinstance(x, (Pair, complex)) else 0
    real = lambda x: part(x, 0, True)
    magnitude = lambda x: torch.stack([x.real, x.imag], -1).norm(dim=-1)  # whose gradient at 0 is 0
    polar = lambda size, angle: Pair(size * angle.cos(), size * angle.sin())
    tensors = lambda x, like: x if isinstance(x, torch.Tensor) else torch.full_like(like, x)

    def plus(a, b, *, alpha=1):
        sums = real(a) + alpha * real(b)
        return Pair(sums, tensors(zero(a) + alpha * zero(b), sums))

    def times(a, b):
        return multiplied(lambda factors: factors[0] * factors[1], [a, b])

    def over(a, b, *, rounding_mode=None):
        if not isinstance(b, (Pair, complex)):
            return Pair(a.real / b, a.imag / b)
        square = real(b) ** 2 + zero(b) ** 2
        if not isinstance(a, (Pair, complex)):
            return Pair(a * real(b) / square, -a * zero(b) / square)
        return Pair((real(a) * real(b) + zero(a) * zero(b)) / square, (zero(a) * real(b) - real(a) * zero(b)) / square)

    def log(x):
        return Pair(magnitude(x).log(), torch.atan2(x.imag, x.real))

    def exp(x):
        return polar(x.real.exp(), x.imag)

    def power(x, exponent):
        if isinstance(exponent, int) and 0 < exponent < 5:
            return functools.reduce(times, [x] * exponent)
        base = log(x) if isinstance(x, Pair) else torch.log(torch.as_tensor(x))
        return exp(times(exponent, base))

    def assigned(x, at, value):
        x.real, x.imag = x.real.clone(), x.imag.clone()
        x.real[at], x.imag[at] = real(value), zero(value)

    def cast(x, *args, **kwargs):
        return x if isinstance(x, Pair) else Pair(x.float(), torch.zeros_like(x, dtype=torch.float32))

    unary = {"conj": lambda x: Pair(x.real, -x.imag), "exp": exp, "log": log, "abs": magnitude, "angle": lambda x: torch.atan2(x.imag, x.real),
             "square": lambda x: times(x, x), "reciprocal": lambda x: over(1, x), "sqrt": lambda x: power(x, 0.5), "real": real, "imag": zero,
             "view_as_real": lambda x: torch.stack([x.real, x.imag], -1), "resolve_conj": lambda x: x, "is_complex": lambda x: True, "dtype": lambda x: x.dtype}
    binary = {"add": plus, "sub": lambda a, b, *, alpha=1: plus(a, b, alpha=-alpha), "mul": times, "div": over, "truediv": over, "pow": power}
    return {**unary, "__abs__": magnitude, "absolute": magnitude, "conj_physical": unary["conj"], **binary,
            **{f"__{name}__": function for name, function in binary.items()}, **{f"__r{name}__": binary[name] for name in ("add", "mul")},
            **{f"__i{name}__": function for name, function in binary.items()}, "subtract": binary["sub"], "divide": over, "__setitem__": assigned,
            "view_as_complex": lambda x: Pair(x[..., 0], x[..., 1]), "complex": Pair, "polar": polar, "cfloat": cast, "to": cast, "type": cast, "type_as": cast}


def made(torch, function, args, kwargs):
    """Zeros and ones."""
    args = tuple(x.real if isinstance(x, Pair) else x for x in args)
    result = function(*args, **{**kwargs, "dtype": torch.float32})
    return Pair(result, torch.zeros_like(result))


def answer(torch, function, args, kwargs):
    """What `function` gives of pairs, as a pair where it is complex."""
    args, kwargs, name = paired(torch, args), {key: paired(torch, x) for key, x in kwargs.items()}, name_of(function)
    if name in TURNED:
        args, name = (args[1], args[0], *args[2:]), TURNED[name]
        function = getattr(torch.Tensor, name)
    if name in MADE and not any(isinstance(x, complex) for x in flat(args)):
        return made(torch, function, args, kwargs)
    known = arithmetic(torch)
    in_place = name.endswith("_") and not name.endswith("__") and name[:-1] in known and isinstance(args[0], Pair)
    if in_place:
        result = known[name[:-1]](*args, **kwargs)
        args[0].real, args[0].imag = result.real, result.imag
        return args[0]
    if name in known:
        return known[name](*args, **kwargs)
    if name in PRODUCTS:
        first = 1 if name == "einsum" else 0
        operands = args[first] if first and isinstance(args[first], (list, tuple)) else args[first:]
        return multiplied(lambda factors: function(*args[:first], *factors, **kwargs), list(operands))
    if name in SHAPES:
        results = [function(*(part(x, which, name == "where") for x in args), **{key: part(x, which, False) for key, x in kwargs.items()}) for which in (0, 1)]
        return type(results[0])(map(Pair, *results)) if isinstance(results[0], (list, tuple)) else Pair(*results) if isinstance(results[0], torch.Tensor) else results[0]
    return paired(torch, function(*whole(torch, args), **{key: whole(torch, x) for key, x in kwargs.items()}))

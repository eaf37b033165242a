"""Functions that are others composed, and that TorchScript's exporter has not: torch.export's takes most of them apart by itself."""
import itertools
import math


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not in this exporter's trace, or not for these arguments."""
    functional, tensor, special = torch.nn.functional, torch.Tensor, torch.special

    def affine_grid(theta, size, align_corners=None):
        """Places of a grid from -1 to 1, at the corners or in the middle of its cells, moved by a matrix of each row's (Jaderberg 2015)."""
        sizes = [int(each) for each in size[2:]]
        ends = [1.0 if align_corners else 1 - 1 / each for each in sizes]
        axes = torch.meshgrid(*(torch.linspace(-end, end, each) if each > 1 else torch.zeros(1) for end, each in zip(ends, sizes)), indexing="ij")
        places = torch.stack([*reversed(axes), torch.ones_like(axes[0])], -1).reshape(-1, len(sizes) + 1).to(theta.dtype)
        return torch.matmul(places, theta.transpose(1, 2)).reshape(-1, *sizes, len(sizes))

    def addcdiv(input, tensor1, tensor2, *, value=1):
        return input + value * (tensor1 / tensor2)

    def expm1(input):
        """Near 0 by tanh, where exp(x) - 1 would be the difference of what is nearly equal."""
        half = (input.clamp(-0.5, 0.5) / 2).tanh()
        return torch.where(input.abs() < 0.5, 2 * half / (1 - half), input.exp() - 1)

    def exp2(input):
        return (input * math.log(2)).exp()

    def asinh(input):
        """Where a sign would have no slope, near 0, without it; elsewhere of the size, since a large negative one would be a difference of what is nearly equal."""
        def of(x):
            return (x + x * x / (1 + (x * x + 1).sqrt())).log1p()
        return torch.where(input.abs() < 0.5, of(input.clamp(-0.5, 0.5)), input.sign() * of(input.abs()))

    def acosh(input):
        return (input + ((input - 1) * (input + 1)).sqrt()).log()

    def atanh(input):
        return 0.5 * (2 * input / (1 - input)).log1p()

    def trunc(input):
        return torch.where(input < 0, input.ceil(), input.floor()) if input.is_floating_point() else NotImplemented

    def frac(input):
        return input - trunc(input)

    def xlogy(input, other):
        """0 where the first is, also of a logarithm of 0."""
        if not isinstance(input, tensor) or not isinstance(other, tensor):
            return NotImplemented
        nothing = (input == 0) & (other <= 0)
        return torch.where(nothing, torch.zeros_like(input * other), input * torch.where(nothing, torch.ones_like(other), other).log())

    def diff(input, n=1, dim=-1, prepend=None, append=None):
        if input.dtype == torch.bool:
            return NotImplemented
        input = torch.cat([part for part in (prepend, input, append) if part is not None], dim)
        for _ in range(n):
            length = int(input.shape[dim])
            input = input.narrow(dim, 1, length - 1) - input.narrow(dim, 0, length - 1)
        return input

    def dist(input, other, p=2):
        return (input - other).norm(p)

    def threshold(input, threshold, value, inplace=False):
        return NotImplemented if inplace else torch.where(input > threshold, input, torch.full_like(input, value))

    def channel_shuffle(input, groups):
        return input.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)

    def bilinear(input1, input2, weight, bias=None):
        result = torch.einsum("...i,oij,...j->...o", input1, weight, input2)
        return result if bias is None else result + bias

    def nansum(input, dim=None, keepdim=False, *, dtype=None):
        there = torch.where(input.isnan(), torch.zeros_like(input), input)
        return NotImplemented if dtype is not None else there.sum() if dim is None else there.sum(dim, keepdim)

    def nanmean(input, dim=None, keepdim=False, *, dtype=None):
        counts = input.isnan().logical_not().to(input.dtype)
        return NotImplemented if dtype is not None else nansum(input, dim, keepdim) / (counts.sum() if dim is None else counts.sum(dim, keepdim))

    def erfc(input):
        return 1 - input.erf()

    def ndtr(input):
        return 0.5 * (1 + (input * 0.5**0.5).erf())

    def sinc(input):
        """Whose gradient at 0 is 0, in torch.export's too."""
        nothing = input == 0
        turned = math.pi * torch.where(nothing, torch.ones_like(input), input)
        return torch.where(nothing, torch.ones_like(input), turned.sin() / turned)

    def cosh(input):
        return (input.exp() + (-input).exp()) / 2

    def sinh(input):
        return (expm1(input) - expm1(-input)) / 2

    def cumsum(input, dim, *, dtype=None):
        """Of truths, which the exporter would not count."""
        return input.to(torch.int64 if dtype is None else dtype).cumsum(dim) if input.dtype == torch.bool else NotImplemented

    def count_nonzero(input, dim=None):
        there = (input != 0).to(torch.int64)
        return there.sum() if dim is None else there.sum(dim)

    def isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        return NotImplemented if equal_nan else (input == other) | ((input - other).abs() <= atol + rtol * other.abs())

    def inner(input, other):
        return torch.matmul(input, other.transpose(0, 1) if other.dim() == 2 else other) if other.dim() in (1, 2) and input.dim() else NotImplemented

    def strips(y, x, dx, dim):
        length = int(y.shape[dim])
        x = x if x is None or x.dim() > 1 else x.reshape(-1, *[1] * (y.dim() - 1 - dim % y.dim()))
        width = dx if x is None else diff(x, dim=dim if x.dim() == y.dim() else 0)
        return (y.narrow(dim, 1, length - 1) + y.narrow(dim, 0, length - 1)) * (0.5 * width)

    def trapezoid(y, x=None, *, dx=1, dim=-1):
        return strips(y, x, dx, dim).sum(dim)

    def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
        return strips(y, x, dx, dim).cumsum(dim)

    def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
        first, last, _ = slice(start, end).indices(int(input.shape[dim]))
        return NotImplemented if step != 1 else torch.cat([input.narrow(dim, 0, first), src, input.narrow(dim, last, int(input.shape[dim]) - last)], dim)

    def select_scatter(input, src, dim, index):
        index %= int(input.shape[dim])
        return slice_scatter(input, src.unsqueeze(dim), dim, index, index + 1)

    def roll(input, shifts, dims=()):
        return input.reshape(-1).roll(shifts, 0).reshape(input.shape) if isinstance(dims, (tuple, list)) and not dims else NotImplemented

    def shifted(sign):
        def of(input, dim=None):
            dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
            return input.roll([sign * (int(input.shape[each]) // 2) for each in dims], dims)
        return of

    def gradient(input, *, spacing=1, dim=None, edge_order=1):
        """torch.export's takes the number of rows for a constant."""
        if edge_order != 1 or not isinstance(spacing, (int, float)):
            return NotImplemented
        def along(each):
            length = int(input.shape[each])
            at = lambda place: input.narrow(each, place, 1)  # noqa: E731
            middle = (input.narrow(each, 2, length - 2) - input.narrow(each, 0, length - 2)) / 2
            return torch.cat([at(1) - at(0), middle, at(length - 1) - at(length - 2)], each) / spacing
        return tuple(along(each) for each in (range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim))

    def multi_dot(tensors):
        """As the one before."""
        product, *others = tensors
        for each in others:
            product = product @ each
        return product

    def combinations(input, r=2, with_replacement=False):
        chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        return input[torch.tensor(list(chosen(range(int(input.shape[0])), r)))]

    def isin(elements, test_elements, *, assume_unique=False, invert=False):
        if not isinstance(elements, tensor) or not isinstance(test_elements, tensor):
            return NotImplemented
        found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
        return ~found if invert else found

    def traced_alone(function):
        return lambda *args, **kwargs: function(*args, **kwargs) if torch.jit.is_tracing() else NotImplemented

    by_name = dict(addcdiv=addcdiv, expm1=expm1, exp2=exp2, asinh=asinh, arcsinh=asinh, acosh=acosh, arccosh=acosh, atanh=atanh, arctanh=atanh, trunc=trunc,
                   fix=trunc, frac=frac, xlogy=xlogy, diff=diff, dist=dist, nansum=nansum, nanmean=nanmean, sgn=torch.sign,
                   fliplr=lambda input: input.flip(1), flipud=lambda input: input.flip(0), positive=lambda input: input,
                   erfc=erfc, cosh=cosh, sinh=sinh, cumsum=cumsum, count_nonzero=count_nonzero, isclose=isclose, inner=inner, slice_scatter=slice_scatter,
                   select_scatter=select_scatter, roll=roll, ravel=lambda input: input.reshape(-1), deg2rad=lambda input: input * (math.pi / 180), rad2deg=lambda input: input * (180 / math.pi))
    answers = {getattr(room, name): function for name, function in by_name.items() for room in (torch, tensor)}
    answers |= {functional.affine_grid: affine_grid, special.xlogy: xlogy, special.expm1: expm1, special.exp2: exp2, functional.threshold: threshold, functional.bilinear: bilinear,
                functional.channel_shuffle: channel_shuffle, torch.channel_shuffle: channel_shuffle, special.erfc: erfc, special.ndtr: ndtr,
                torch.trapezoid: trapezoid, torch.trapz: trapezoid, torch.cumulative_trapezoid: cumulative_trapezoid, torch.fft.fftshift: shifted(1), torch.fft.ifftshift: shifted(-1)}
    return {**{function: traced_alone(stand_in) for function, stand_in in answers.items()},
            **dict.fromkeys((torch.sinc, tensor.sinc, special.sinc), sinc), torch.gradient: gradient, torch.linalg.multi_dot: multi_dot, torch.combinations: combinations, torch.isin: isin}

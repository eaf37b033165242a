"""Functions that are others composed, and that TorchScript's exporter has not: torch.export's takes them apart by itself."""
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

    def traced_alone(function):
        return lambda *args, **kwargs: function(*args, **kwargs) if torch.jit.is_tracing() else NotImplemented

    by_name = dict(addcdiv=addcdiv, expm1=expm1, exp2=exp2, asinh=asinh, arcsinh=asinh, acosh=acosh, arccosh=acosh, atanh=atanh, arctanh=atanh, trunc=trunc,
                   fix=trunc, frac=frac, xlogy=xlogy, diff=diff, dist=dist, nansum=nansum, nanmean=nanmean, sgn=torch.sign,
                   fliplr=lambda input: input.flip(1), flipud=lambda input: input.flip(0), positive=lambda input: input,
                   deg2rad=lambda input: input * (math.pi / 180), rad2deg=lambda input: input * (180 / math.pi))
    answers = {getattr(room, name): function for name, function in by_name.items() for room in (torch, tensor)}
    answers |= {functional.affine_grid: affine_grid, special.xlogy: xlogy, special.expm1: expm1, special.exp2: exp2, functional.threshold: threshold, functional.bilinear: bilinear,
                functional.channel_shuffle: channel_shuffle, torch.channel_shuffle: channel_shuffle}
    return {function: traced_alone(stand_in) for function, stand_in in answers.items()}

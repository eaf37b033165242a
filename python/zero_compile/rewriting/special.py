"""The gamma function's relatives, the inverse of erf, and the k-th of a row: what exporters have not, of what they have."""
import collections
import math

SHIFT = 8  # from where on Stirling's series is exact in fp32
ValuesAndIndices = collections.namedtuple("ValuesAndIndices", "values indices")


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    tensor = torch.Tensor

    def shifted(x, of_one):
        """(x moved up to SHIFT or more, the sum of `of_one` of the places that it passed), of positive x."""
        z, passed = x, torch.zeros_like(x)
        for _ in range(SHIFT):
            below = z < SHIFT
            passed = passed + torch.where(below, of_one(torch.where(below, z, torch.ones_like(z))), torch.zeros_like(z))
            z = torch.where(below, z + 1, z)
        return z, passed

    def lgamma(input):
        positive = torch.where(input < 0.5, 1 - input, input)  # what lies below is reflected
        z, passed = shifted(positive, torch.log)
        square = (1 / z).square()
        series = (1 / 12 + square * (-1 / 360 + square * (1 / 1260 - square / 1680))) / z
        result = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series - passed
        sine = torch.sin(math.pi * torch.where(input < 0.5, input, torch.full_like(input, 0.5))).abs()
        return torch.where(input < 0.5, math.log(math.pi) - sine.log() - result, result)

    def digamma(input):
        positive = torch.where(input < 0.5, 1 - input, input)
        z, passed = shifted(positive, torch.reciprocal)
        square = (1 / z).square()
        result = z.log() - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240))) - passed
        angle = math.pi * torch.where(input < 0.5, input, torch.full_like(input, 0.5))
        return torch.where(input < 0.5, result - math.pi * angle.cos() / angle.sin(), result)

    def kthvalue(input, k, dim=-1, keepdim=False):
        values, indices = input.sort(dim)
        chosen = ValuesAndIndices(values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1))
        return chosen if keepdim else ValuesAndIndices(*(x.squeeze(dim) for x in chosen))

    def median(input, dim=None, keepdim=False):
        if dim is None:
            return kthvalue(input.flatten(), (input.numel() + 1) // 2, 0).values
        return kthvalue(input, (int(input.shape[dim]) + 1) // 2, dim, keepdim)

    def mode(input, dim=-1, keepdim=False):
        """The smallest of those that are there most often; of the places, the last."""
        if not input.dim():
            return NotImplemented
        rows = input.movedim(dim, -1)
        often = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
        smallest = torch.where(often == often.amax(-1, keepdim=True), rows, rows.amax(-1, keepdim=True)).detach().amin(-1, keepdim=True)
        place = torch.where(rows == smallest, torch.arange(int(rows.shape[-1])), torch.zeros_like(often)).amax(-1, keepdim=True)
        chosen = ValuesAndIndices(*(x.movedim(-1, dim) for x in (rows.gather(-1, place), place)))
        return chosen if keepdim else ValuesAndIndices(*(x.squeeze(dim) for x in chosen))

    def diag_embed(input, offset=0, dim1=-2, dim2=-1):
        if offset != 0 or not input.dim() or {dim1, dim2} not in ({-2, -1}, {input.dim() - 1, input.dim()}):
            return NotImplemented
        place = torch.arange(int(input.shape[-1]))
        return torch.where(place[:, None] == place, input.unsqueeze(-1), torch.zeros_like(input).unsqueeze(-1))

    def diag(input, diagonal=0):
        return NotImplemented if diagonal else diag_embed(input) if input.dim() == 1 else input.diagonal()

    def kron(input, other):
        if input.dim() != other.dim() or not input.dim():
            return NotImplemented
        sizes = [own * more for own, more in zip(input.shape, other.shape)]
        for dim in range(input.dim()):
            input, other = input.unsqueeze(2 * dim + 1), other.unsqueeze(2 * dim)
        return (input * other).reshape(sizes)

    def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", **_):
        if interpolation != "linear" or dim is None or isinstance(q, tensor):
            return NotImplemented
        place = q * (int(input.shape[dim]) - 1)
        low, values = math.floor(place), input.sort(dim).values
        below, above = values.narrow(dim, low, 1), values.narrow(dim, math.ceil(place), 1)
        result = below + (above - below) * (place - low)
        return result if keepdim else result.squeeze(dim)

    def sort(input, dim=-1, descending=False, stable=False, **options):
        """Equal ones stay in no order that anything differentiable tells."""
        return input.sort(dim=dim, descending=descending) if stable is not False and not options else NotImplemented

    def argsort(input, dim=-1, descending=False, stable=False):
        """Of equal ones the first comes first, as in ONNX's TopK, which sort is exported as."""
        return input.sort(dim=dim, descending=descending).indices if stable is not False else NotImplemented

    def erfinv(input):
        """Winitzki's approximation (2008) and Newton's steps from it, the last of which has the gradient."""
        x = input.detach()
        logarithm = (1 - x.square()).log()
        middle = 2 / (math.pi * 0.147) + logarithm / 2
        result = x.sign() * ((middle.square() - logarithm / 0.147).sqrt() - middle).clamp(min=0).sqrt()
        for target in (x, x, input):
            result = result - (result.erf() - target) * (math.sqrt(math.pi) / 2) * result.square().exp()
        return result

    def cov(input, *, correction=1, fweights=None, aweights=None):
        if fweights is not None or aweights is not None or input.dim() != 2:
            return NotImplemented
        centred = input - input.mean(1, keepdim=True)
        return centred @ centred.transpose(0, 1) / (input.shape[1] - correction)

    def corrcoef(input):
        if input.dim() != 2:
            return NotImplemented
        covariance = cov(input)
        width = covariance.diagonal().sqrt()
        return (covariance / width.unsqueeze(0) / width.unsqueeze(1)).clamp(-1.0, 1.0)

    def ndtri(input):
        return math.sqrt(2) * erfinv(2 * input - 1)

    def clamp(input, min=None, max=None):
        """torch.export's exporter fails where of two bounds of floats one is an integer."""
        if not input.is_floating_point() or not isinstance(min, (int, float)) or not isinstance(max, (int, float)):
            return NotImplemented
        return input.clamp(float(min), float(max))

    def mvlgamma(input, p):
        return p * (p - 1) / 4 * math.log(math.pi) + sum(lgamma(input - 0.5 * place) for place in range(p))

    return {
        **dict.fromkeys((torch.mvlgamma, tensor.mvlgamma, torch.special.multigammaln), mvlgamma), torch.erfinv: erfinv, tensor.erfinv: erfinv, torch.special.erfinv: erfinv, torch.special.ndtri: ndtri,
        torch.mode: mode, tensor.mode: mode, torch.kron: kron, tensor.kron: kron, torch.vdot: torch.dot, tensor.vdot: torch.dot,
        torch.diag_embed: diag_embed, tensor.diag_embed: diag_embed, torch.diag: diag, tensor.diag: diag,
        torch.trace: lambda input: input.diagonal().sum(), tensor.trace: lambda input: input.diagonal().sum(), torch.cov: cov, tensor.cov: cov, torch.corrcoef: corrcoef, tensor.corrcoef: corrcoef,
        torch.clamp: clamp, tensor.clamp: clamp, torch.clip: clamp, tensor.clip: clamp,
        torch.sort: sort, tensor.sort: sort, torch.argsort: argsort, tensor.argsort: argsort, torch.msort: lambda input: input.sort(0).values, tensor.msort: lambda input: input.sort(0).values,
        torch.hypot: lambda input, other: (input.square() + other.square()).sqrt(), torch.lgamma: lgamma, tensor.lgamma: lgamma, torch.special.gammaln: lgamma, torch.digamma: digamma, tensor.digamma: digamma,
        torch.special.digamma: digamma, torch.special.psi: digamma, torch.kthvalue: kthvalue, tensor.kthvalue: kthvalue,
        torch.median: median, tensor.median: median, torch.quantile: quantile, tensor.quantile: quantile,
    }

#!/usr/bin/env python3
"""Functions of torch that are no single operator of ONNX's, or that exporters write otherwise or not at all: models of them, exported in both
ways, trained beside torch."""
from product import beside_torch, by_exporter, expect, needs, quiet_torch, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from torch import nn
from torch.nn import functional
from backwards import frozen_for_a_while, own_backward, recomputed, straight_through, taught
from functions import ROWS, Model, batches, pooled

suite = suite(__doc__)


def sample(mode, padding, corners):
    def of(h, given):
        grid = functional.affine_grid(pooled(h)[:, :6].view(-1, 2, 3), [h.shape[0], 2, 5, 4], align_corners=corners)
        kept = given["image"] * pooled(h)[:, 6:, None, None]
        return functional.grid_sample(kept, grid, mode, padding, corners).square().mean()
    return of


def folded(h, given):
    blocks = functional.unfold(given["image"], 3, padding=1, stride=2) * pooled(h).mean(1)[:, None, None]
    return functional.fold(blocks, (6, 7), 3, padding=1, stride=2).square().mean()


def filtered(h, given):
    """A filter in the frequencies of a signal, as of Fourier neural operators."""
    spectrum = torch.view_as_real(torch.fft.rfft(h))
    weights = given["model"].centres[:, :2]
    real = spectrum[..., 0] * weights[:, 0] - spectrum[..., 1] * weights[:, 1]
    imaginary = spectrum[..., 0] * weights[:, 1] + spectrum[..., 1] * weights[:, 0]
    return torch.fft.irfft(torch.view_as_complex(torch.stack([real, imaginary], -1)), n=8).square().mean()


def spectra(h, given):
    whole = torch.fft.fft2(h).real.square().mean() + torch.fft.ifft(torch.fft.fft(h, norm="ortho"), n=6).real.square().mean()
    return whole + torch.stft(h.flatten(1), 8, 4, window=torch.hann_window(8), return_complex=True).abs().mean()


def filterbank(h, given):
    """Frames' spectra in bands, as of vocoders."""
    rows, window = torch.cat([h, h.sin()], -1).flatten(1), torch.hann_window(6)
    spectrum = torch.stft(rows, 8, 4, 6, window, center=False, onesided=True, return_complex=True)
    bands = torch.log(torch.clamp(given["model"].centres.abs()[:, :5] @ torch.sqrt(torch.view_as_real(spectrum).pow(2).sum(-1) + 1e-9), min=1e-5))
    whole = torch.stft(rows, 8, hop_length=3, normalized=True, onesided=False, pad_mode="constant", return_complex=True)
    return bands.mean() + (whole * whole.conj()).real.mean() + torch.stft(rows, 8, return_complex=True).angle().cos().mean()


def alike(h, given):
    z = functional.normalize(torch.cat([h[:, 0], h[:, 1]]), dim=1)
    similarity = z @ z.T / 0.5
    similarity.fill_diagonal_(float("-inf"))
    return functional.cross_entropy(similarity, (torch.arange(2 * ROWS) + ROWS) % (2 * ROWS))


def distances(h, given):
    """Those of a vector to itself are 0, where a root has no derivative."""
    centres = given["model"].centres
    far = centres.expand(h.shape[0], -1, -1)
    others = sum(torch.cdist(h, far, p=p).mean() for p in (0, 3, float("inf")))
    return (-torch.cdist(h, h)).exp().mean() + torch.cdist(h, far, p=1).min(-1)[0].mean() + others


def aligned(h, given):
    """Paths of 3 steps through words of up to 2 letters: some are too long, and some repeat; of letters that a mask picks, the words one behind the other."""
    scores, picks = h.log_softmax(-1).transpose(0, 1), given["word"] > 3
    loss = lambda letters, size, how: functional.ctc_loss(scores, letters, given["lengths"], size, reduction=how, zero_infinity=True)
    of_picked = loss(given["word"][picks], picks.sum(1), "mean") + loss(given["word"].masked_select(picks), picks.sum(1), "sum")
    return of_picked + sum(loss(given["word"], given["size"], how) for how in ("mean", "sum"))


def of_nothing(h, given):
    """Deviations of what is constant, likenesses and distances of what is 0, norms that are raised."""
    some = (given["labels"] > 3)[:, None, None]
    constant, zero = torch.where(some, h, torch.full_like(h, 0.1)), torch.where(some, h, torch.zeros_like(h))
    deviations = constant.std(-1).sum() + torch.std(constant, (1, 2), unbiased=False).mean() + sum(x.square().mean() for x in torch.std_mean(constant, 1, keepdim=True)) + h.std()
    likenesses = functional.cosine_similarity(zero, h.sin().flip(1), -1).mean() + functional.cosine_similarity(h, h.detach().cos(), dim=1, eps=2.0).square().mean()
    likenesses = likenesses + functional.cosine_embedding_loss(h[:, 0], zero[:, 1], given["labels"] % 2 * 2 - 1, margin=0.1)
    far = functional.pairwise_distance(zero[:, 0], zero[:, 1].detach()) + functional.pairwise_distance(h[:, 1], zero[:, 2], p=1, keepdim=True).squeeze(1)
    return deviations + likenesses + far.mean()


def resampled(h, given):
    """Where corners stay by scales whose sizes are rounded off, too; windows of unequal size, the nearest, and without aliases."""
    image = given["image"] * pooled(h)[:, :2, None, None]
    made = [functional.interpolate(image, scale_factor=scale, mode=mode, align_corners=True) for mode in ("bilinear", "bicubic") for scale in (0.6, (2.3, 1.7))]
    made += [functional.interpolate(h, scale_factor=1.3, mode="linear", align_corners=True), functional.interpolate(image[:, None], size=(3, 4, 9), mode="trilinear", align_corners=True)]
    made += [functional.interpolate(image, size=(4, 10), mode="area"), functional.interpolate(h, scale_factor=0.5, mode="area")]
    made += [functional.interpolate(image, scale_factor=scale, mode="nearest-exact") for scale in (0.7, 1.6)] + [functional.interpolate(h, size=5, mode="nearest-exact")]
    made += [functional.interpolate(image, mode=mode, antialias=True, **how) for mode in ("bilinear", "bicubic") for how in ({"size": (4, 9)}, {"scale_factor": 0.55})]
    return sum((1 + k) * x.tanh().square().mean() for k, x in enumerate(made))


def strided(h, given):
    """Windows of sliding attention, that overlap, of what is turned; a diagonal, whose stride is computed."""
    rows = torch.cat([h, h.sin()], 1)
    turned = rows.transpose(0, 1).contiguous().transpose(0, 1)
    windows = [x.as_strided((x.shape[0], 2, 4, 8), (x.stride(0), 2 * x.stride(1), x.stride(1), 1)) for x in (rows, turned)]
    scores = h @ h.mT
    diagonal = torch.as_strided(scores, (scores.shape[0], scores.shape[1]), (scores.shape[1] ** 2, scores.shape[1] + 1))
    return sum((x * torch.arange(4.0)[:, None]).tanh().square().mean() for x in windows) + diagonal.sin().mean()


def running(h, given):
    return h.sigmoid().cumprod(-1).sum() + torch.cumprod(h, 2).mean() + torch.logcumsumexp(h, 1).mean()


def placed(h, given):
    bounds, at = h.softmax(-1).cumsum(-1), given["image"][:, 0, :3].sigmoid()
    among = torch.isin(given["labels"], torch.tensor([1, 3])).to(h.dtype) + torch.isin(given["labels"], torch.tensor([[0], [2]]), invert=True)
    place = torch.searchsorted(bounds.detach(), at).clamp(max=7) + torch.bucketize(at, torch.tensor([0.2, 0.5]), right=True).clamp(max=0)
    counts = torch.bincount(given["labels"], minlength=8) + given["labels"].bincount(pooled(h)[:, 0].detach(), minlength=8)
    return bounds.gather(2, place).square().mean() + (counts * pooled(h)).square().mean() + (among * pooled(h)[:, 1]).mean()


def below_zero(h, given):
    """Quotients, shifts and places of numbers below 0, which TorchScript's exporter truncates or takes for others; sums of what comes to one place twice; a threshold."""
    number, rows = given["labels"] - 4, torch.arange(h.shape[0])
    floors = number // 3 + torch.floor_divide(number, 3) + (number >> 1) + pooled(h)[:, 0].detach() // 0.5
    table = torch.zeros(2, 8).index_put((given["labels"] % 2, given["labels"] % 3 - 1), pooled(h)[:, 0], accumulate=True)
    ends = h[torch.tensor([0, 1]), torch.tensor([-1, -2])].square().sum() / 50
    return ends + (h[rows, given["labels"] % 3 - 1].sum(-1) * floors / 20).square().mean() + table.square().mean() + functional.softplus(4 * h, beta=2, threshold=1).mean()


def likely(h, given):
    mean, width = pooled(h).chunk(2, -1)
    drawn = torch.distributions.Normal(mean, functional.softplus(width) + 0.1)
    return -drawn.log_prob(mean.detach() + 0.1).mean() + torch.distributions.Categorical(logits=pooled(h)).entropy().mean()


def errors(h, given):
    target = given["image"].flatten(1)[:, :24].view(-1, 3, 8)
    far = sum(loss(h, target, reduction="sum", **how) for loss, how in ((functional.l1_loss, {}), (functional.huber_loss, {"delta": 0.7}),
                                                                           (functional.smooth_l1_loss, {"beta": 0.3}), (functional.smooth_l1_loss, {"beta": 0.0})))
    return far / 100 + functional.huber_loss(h @ target.mT, torch.zeros(3, 3).expand(h.shape[0], -1, -1)) + functional.l1_loss(h, target)


def positive(h):
    return h @ h.mT / 8 + torch.eye(3)


def matrices(h, given):
    """Unsymmetric ones whose largest pivot is not the first, and a distribution's."""
    square = h[..., :3] + torch.tensor([[0.0, 3, 0], [0, 0, 3], [3, 0, 0]])
    solved = torch.linalg.solve(square, h.mT, left=False).square().mean() + torch.linalg.solve(square, h).square().mean() + torch.linalg.inv(square).square().mean() + torch.linalg.det(square).mean() / 30
    drawn = torch.distributions.MultivariateNormal(pooled(h)[:, :3], covariance_matrix=positive(h)).log_prob(given["image"].flatten(1)[:, :3])
    exponential = torch.matrix_exp(h[..., :3] / 2).square().mean()
    return solved - drawn.mean() + exponential + torch.linalg.slogdet(square).logabsdet.mean() + torch.logdet(positive(h)).mean()


def triangles(h, given):
    lower = torch.linalg.cholesky(positive(h))
    turned = torch.linalg.solve_triangular(lower.mT, h, upper=True).square().mean() + torch.linalg.solve_triangular(lower, h.mT, upper=False, left=False).mean()
    return turned + torch.cholesky_solve(h, lower).square().mean()


def gammas(h, given):
    """On both sides of where the series begin, and of 0."""
    wide = torch.cat([functional.softplus(h) + 0.05, 12 + h, -1.5 + 0.3 * h.tanh()], -1)
    rates = functional.softplus(pooled(h)) + 0.5
    drawn = torch.distributions.NegativeBinomial(rates[:, 0], logits=rates[:, 1]).log_prob(given["labels"].float())
    return torch.lgamma(wide).mean() + torch.digamma(wide).mean() / 10 - drawn.mean() - torch.distributions.StudentT(rates[:, 2] + 1).log_prob(rates[:, 3]).mean()


def middles(h, given):
    return h.median(-1).values.square().mean() + h.kthvalue(3, 1)[0].mean() + h.quantile(0.3, 2).square().mean() + h.median(1, keepdim=True)[0].mean() + \
        h.sort(dim=-1, stable=True, descending=True)[0][..., 0].mean() + h.transpose(0, 1).msort()[0].mean() + torch.hypot(h, h.detach() + 1).mean()


def places(h, given):
    to, base = (given["image"].flatten(1)[:, :24].view(-1, 3, 8) * 2).long().abs() % 8, torch.zeros_like(h)
    kinds = sum(h.scatter_reduce(2, to, h.tanh(), kind, include_self=own).square().mean()
                for kind, own in (("mean", True), ("mean", False), ("sum", False), ("amax", False), ("amin", False), ("prod", False)))
    taken = torch.take_along_dim(h, to[:, :1], 2).square().mean() + torch.take_along_dim(h[:, :1], to, 2).mean()
    rows = base.new_zeros(5, 8).index_add(0, to[:, 0, 0].clamp(max=4), h[:, 0]).square().sum() / h.shape[0]
    kinds = kinds + h.gather(2, to.argsort(dim=2, stable=True))[..., :4].square().mean() + h.gather(2, torch.argsort(to, stable=True, descending=True))[..., :3].sin().mean()
    return kinds + taken + rows + base.index_add(2, torch.tensor([0, 1, 1]), h[..., :3], alpha=0.5).square().mean()


def turned(h, given):
    """Rotary positions as products of complex numbers, and a recurrence of them, whose states are powers of what is within the unit circle."""
    angles = torch.polar(torch.ones(3, 4), torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.3, 0.1, 0.03])))
    rotated = torch.view_as_real(torch.view_as_complex(h.reshape(*h.shape[:-1], -1, 2)) * angles).flatten(2)
    rate, weight = given["model"].centres[0, :4], torch.view_as_complex(given["model"].centres[1:3].reshape(8, 2))
    factor, state = torch.exp(torch.complex(-rate.exp(), rate)), torch.zeros(h.shape[0], 4, dtype=torch.cfloat)
    for step in range(3):
        state = factor * state + (rotated[:, step].to(weight.dtype) * weight)[:, :4]
    powers = torch.exp(factor.unsqueeze(-1) * torch.arange(3)) / (1 + 1j * factor[:, None]) - factor[:, None].conj() ** 2
    return (state.abs() + state.angle() + torch.log(state).real).mean() + 2 * torch.einsum("d,dn->n", factor - 1.0, powers).imag.square().mean() + rotated.exp().mean()


def operated(h, given):
    """A Fourier neural operator's layer: the lowest frequencies of two dimensions, put into zeros."""
    spectrum, weights = torch.fft.rfft2(given["image"] * pooled(h)[:, :2, None, None]), torch.view_as_complex(given["model"].centres[:4].reshape(2, 2, 2, 2, 2))
    out = torch.zeros(h.shape[0], 2, 6, 4, dtype=torch.cfloat)
    out[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :2, :2], weights)
    out[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -2:, :2], weights.conj())
    return torch.fft.irfft2(out, s=(6, 7)).square().mean()


def repeated(h, given):
    """Along a dimension from behind, beside a shape that is open, as it is where another dimension becomes two."""
    parts = h.unflatten(-1, (2, -1))
    return (h.repeat_interleave(2, -1).view(h.shape[0], 3, 4, -1) * torch.arange(4.0)).square().mean() + parts.view(parts.size(0), 6, 4).norm(dim=1).mean()


def quantized(h, given):
    """Some are cut off; of the weights each row has a scale."""
    rows = given["model"].centres
    weights = torch.fake_quantize_per_channel_affine(rows, rows.detach().abs().amax(1) / 9, torch.ones(5, dtype=torch.int32), 0, -7, 7)
    return (torch.fake_quantize_per_tensor_affine(h, 0.05, 3, -16, 15) @ weights.T).square().mean()


def inverses(h, given):
    """Of erf, near the ends too; bounds of two kinds."""
    ends = torch.erfinv(h.tanh() * 0.999).square().mean() + torch.special.ndtri(h.sigmoid()).mean()
    return ends + h.clamp(min=0, max=0.7).mean() + torch.distributions.Normal(pooled(h), 1.0).icdf(given["image"].flatten(1)[:, :8].sigmoid()).mean()


def likelihoods(h, given):
    """Losses with a look at the data, or of no operator; bags of one size."""
    first, other, labels = pooled(h), given["image"].flatten(1)[:, :8], given["labels"]
    bags = sum(functional.embedding_bag(given["word"] % 5, given["model"].centres, mode=mode, padding_idx=1).square().mean() for mode in ("sum", "mean", "max"))
    weighted = functional.embedding_bag(given["word"] % 5, given["model"].centres, mode="sum", per_sample_weights=first[:, :2]).mean()
    return functional.binary_cross_entropy(first.sigmoid(), other.sigmoid()) + functional.gaussian_nll_loss(first, other, first.abs(), full=True) + bags + weighted + \
        functional.triplet_margin_loss(first, other, -other, swap=True) + functional.multi_margin_loss(first, labels) + torch.cov(h[0].T).square().mean()


class Named(nn.Module):
    """An input with the name that a node gets."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, cat, y):
        return functional.mse_loss(self.layer(torch.cat([cat, cat.square()], 1)), y)


def named():
    data = [{"cat": torch.randn(ROWS, 4), "y": torch.randn(ROWS, 1)} for _ in range(2)]
    return [beside_torch(suite, f"named-{exporter}", Named(), data, exporter=exporter) for exporter in ("torchscript", "dynamo")]


def by_columns(h, given):
    """Columns of one input, each of another table or of other classes."""
    first, second, third = given["columns"].unbind(1)
    rows = functional.embedding(first, pooled(h)[:1].reshape(8, 1)) * functional.embedding(second, given["model"].centres[:3]) + given["model"].centres[third]
    ends = functional.cross_entropy(rows, first) + functional.cross_entropy(rows[:, :3], given["columns"][:, 1:2].squeeze(1))
    return ends + functional.embedding(given["columns"][:, 1:], given["model"].centres).square().mean()


def looked_up(h, given):
    """A table whose gradient is divided by how often a row is looked up."""
    rows = functional.embedding(given["word"] % 3, given["model"].centres, scale_grad_by_freq=True)
    return (h * rows.mean(1, keepdim=True)).square().mean()


def without_rows(*rows):
    """Of these a table's look-ups leave out the gradient, each its own; and one in what is computed of it."""
    def of(h, given):
        centres, places = given["model"].centres, given["word"] % 5
        found = sum((1 + k) * functional.embedding(places, centres, row).sin().mean(1, keepdim=True) for k, row in enumerate(rows))
        return (h * found).square().mean() + functional.embedding(places, centres.exp(), padding_idx=2).mean()
    return of


def without_statistics(h, given):
    return functional.batch_norm(h, None, None, h[0, :, 0] + 1, given["model"].centres[0, :3], training=True).pow(3).mean()


def filters_of_rows(h, given):
    """Each row has filters of its own, in one convolution of as many groups as there are rows."""
    rows, image, z = h.shape[0], given["image"].exp(), pooled(h)
    wide = functional.conv2d(image.reshape(1, -1, 6, 7), (z[:, :, None] * z[:, None, :6]).reshape(rows * 4, 2, 2, 3), z[:, :4].reshape(-1), stride=(2, 1),
                             padding=(1, 2), dilation=(1, 2), groups=rows)
    up = functional.conv_transpose2d(image.reshape(1, -1, 6, 7), (z[:, :, None] * z[:, None, :3]).reshape(rows * 2, 2, 2, 3), stride=(2, 3), padding=(0, 3),
                                     output_padding=(1, 0), dilation=(3, 1), groups=rows)
    line = functional.conv1d(h.reshape(1, -1, 8), (z[:, :6, None] * z[:, None, :2]).reshape(rows * 2, 3, 2), groups=rows)
    return wide.view(rows, 4, -1).tanh().mean() + up.view(rows, 2, -1).sin().square().mean() + line.view(rows, 2, -1).tanh().square().mean()


def windows(h, given):
    """Swin's: the number of rows by Python's division, made whole."""
    parts = h.view(-1, 3, 2, 4).transpose(1, 2).reshape(-1, 3, 4)
    rows = int(parts.shape[0] / (8 / 4))
    return (parts.view(rows, 2, 3, -1).tanh().mean((2, 3)) * torch.tensor([1.0, -2.0])).sum(1).square().mean()


def pools(h, given):
    """A divisor of one's own, also where windows end outside; windows of unequal size."""
    image = given["image"] * pooled(h)[:, :2, None, None]
    divided = sum(functional.avg_pool2d(image, *how, divisor_override=5).square().mean() for how in ((3, 2, 1), ((3, 2), (2, 3), (1, 0), True)))
    largest = functional.adaptive_max_pool2d(image, (4, 3)).square().mean() + functional.adaptive_max_pool1d(h, 5).square().mean()
    mean = functional.adaptive_avg_pool2d(image, (4, 5)).square().mean() + functional.adaptive_max_pool3d(image, (1, 4, None)).square().mean()
    return divided + largest + mean + functional.avg_pool3d(image.unsqueeze(1), (2, 3, 3), divisor_override=4).square().mean()


def largest_so_far(h, given):
    values, places = torch.cummax(h, 1)
    least, where = h.cummin(-1)
    again = torch.cummax(h.round(), 2)  # of equal ones the last
    return values.square().mean() + (values * places).mean() + (least * where).mean() + (again.indices * h).mean()


def products(h, given):
    centres = given["model"].centres
    lower = torch.diag_embed(functional.softplus(h[..., :3].mean(1))) + h[..., :3].tril(-1)
    drawn = torch.distributions.MultivariateNormal(h[:, 0, :3], scale_tril=lower)
    apart = torch.distributions.kl_divergence(drawn, torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3))).mean()
    return torch.kron(centres[:2, :3], centres[2:, 3:5]).square().mean() + torch.trace(centres[:, :5]) + torch.diag(centres[0]).square().mean() + apart


def most_often(h, given):
    values, _ = (h - h.detach() + h.detach().round()).mode(-1)
    return (values * pooled(h)[:, :3].sin()).mean() + torch.mode(given["word"], 1)[0].mul(pooled(h)[:, 0]).mean()


def without_means(h, given):
    centres = given["model"].centres
    bare, rows = functional.rms_norm(h, (8,)), functional.rms_norm(h, (3, 8), centres[:3], 0.5)
    return (functional.rms_norm(h.sin(), (8,), centres[1]) * rows).mean() + functional.rms_norm(bare + rows, (8,), centres[4], 1e-6).square().mean() + \
        functional.layer_norm(h, (h.size(-1),), centres[0]).sin().mean()


def composed(h, given):
    """What torch.export takes apart by itself; of what stays small, since some of it grows as exp does."""
    h = h.tanh()
    share, none = h.sigmoid(), torch.where(h > 0, h, torch.full_like(h, float("nan")))
    curves = torch.expm1(h) + h.exp2() + torch.asinh(h) + torch.asinh(h - h.detach()) + torch.acosh(share + 1.5) + torch.atanh(share * 0.9) + torch.deg2rad(h) + h.frac() * h.trunc() + h.sgn()
    sums = torch.xlogy(share, share).sum(-1) + torch.diff(h, n=2, dim=1, prepend=h[:, :1]).sum(1)[:, :3] + none.nansum(-1) + torch.addcdiv(h, h, share, value=0.5).fliplr()[..., 0]
    heads = functional.bilinear(h, share, given["model"].centres.expand(8, 5, 8).transpose(0, 1)[..., :8]) + functional.threshold(h, 0.1, 0.2)[..., :5]
    losses = functional.poisson_nll_loss(h, share.detach()) + functional.soft_margin_loss(h, share.detach().round() * 2 - 1)
    return curves.sin().mean() + sums.square().mean() + heads.square().mean() + losses + torch.dist(h, share) + none.nanmean()


def composed_again(h, given):
    """More of them, and what torch.export's has with the number of rows as a constant, or not at all."""
    h = h.tanh()
    curves = torch.erfc(h) + torch.special.ndtr(h) + torch.sinc(h) + torch.sinc(h - h.detach()) + h.cosh() * h.sinh() + torch.trapezoid(h, dim=1)[:, None] + torch.cumulative_trapezoid(h, torch.linspace(0, 1, 8) ** 2).sum(-1, keepdim=True)
    counts = h * (h > 0).cumsum(1) + h * torch.count_nonzero(h > 0.1, 1)[:, None] + torch.where(torch.isclose(h, h.round(), atol=0.1), h, 2 * h) + torch.fft.fftshift(h, dim=2)
    parts = torch.select_scatter(h, h[:, 0].sin(), 1, -1) + torch.slice_scatter(h, h[:, :2].cos(), 1, 1, 3) + torch.inner(h, given["model"].centres)[..., :1] + given["model"].centres.roll(3).ravel()[0]
    slopes = sum(torch.gradient(h, spacing=0.5, dim=(1, 2))) + torch.linalg.multi_dot([pooled(h), given["model"].centres.T, given["model"].centres])[:, None]
    pairs = torch.combinations(given["model"].centres[0, :4]).prod(-1).sum() + torch.mvlgamma(h.exp() + 2, 3).mean() + torch.linalg.solve_ex(h @ h.mT + torch.eye(3), h)[0].square().mean()
    q, k = h.unflatten(-1, (4, 2)).transpose(1, 2), h.sin().unflatten(-1, (4, 2)).transpose(1, 2)[:, :2]
    shared = functional.scaled_dot_product_attention(q, k, k, enable_gqa=True).square().mean()
    labels = torch.cat([given["word"], torch.full_like(given["word"], -1), given["word"] * 0, given["word"] * 0], 1)
    losses = functional.multilabel_margin_loss(pooled(h), labels) + functional.hinge_embedding_loss(pooled(h), (h[:, 0].detach() > 0).float() * 2 - 1)
    return sum(x.sin().mean() for x in (curves, counts, parts, slopes)) + pairs + shared + losses


def rejoined(h, given):
    """Rows one by one, of which a trace counts those it saw, and together again."""
    rows, columns = list(h), h.sin().split([3, 5], -1)
    return (torch.cat(rows).cumsum(0) * torch.cat(rows, 0)).mean() + torch.stack(list(h.sum(-1)), 1).square().mean() + \
        torch.cat(columns, axis=-1).mean() + torch.cat(columns[::-1], -1).cumsum(-1).mean() + torch.stack(h.unbind(axis=1), axis=-1).cumsum(-1).square().mean() + \
        (given["image"] * pooled(h)[:, :2, None, None]).unfold(-2, 3, 2).cumsum(-1).square().mean() + \
        (functional.pad(h, (0, 2), "replicate").unfold(-1, 4, 2) * torch.arange(4.0)).square().mean() + functional.pad(h, (2, 1), "replicate").unfold(1, 1, 1).unfold(2, 5, 5).cumsum(-1).mean()


def smoothed(h, given):
    """Labels as probabilities, written as a number that is computed of a size; and a mask, by a truth."""
    logits, labels = pooled(h), given["labels"].view(-1, 1)
    share = 0.2 / logits.size(-1)
    targets = torch.full((labels.size(0), logits.size(-1)), share).scatter_(1, labels, 0.8 + share)
    hidden = torch.zeros_like(logits, dtype=torch.bool).scatter(1, (labels + 1) % 8, True)
    return -(targets * logits.masked_fill(hidden, -2.0).log_softmax(-1)).sum(-1).mean()


def by_truths(h, given):
    """Masks that Python's truths are written into: a causal one, one with a hole, their complement."""
    seen = torch.full((3, 3), True).tril()
    most = torch.full_like(h[0], False, dtype=torch.bool).masked_fill(given["image"][0, 0, :3, :1] > -9, True).index_fill(1, torch.tensor([2]), False)
    kept = torch.where(h.detach() > 0, True, most) & True
    scores = (h @ h.mT).masked_fill(seen == False, float("-inf")).softmax(-1)  # noqa: E712
    return (scores @ torch.where(kept.clone().fill_(True) & kept, h, h.sin())).square().mean() + h.new_full((3, 8), True, dtype=torch.bool).float().mean() * h.mean()


def padded(h, given):
    """Attention, rows of which see nothing but padding: numbers hide it, and there they are averages, which the loss has too."""
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (h, h.sin(), h.flip(-1)))
    padding = torch.arange(3) < given["size"].view(-1, 1, 1, 1)
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    y = sum((q @ k.mT / 2 + torch.where(hidden, lowest, 0.0)).softmax(-1) @ v
            for hidden, lowest in ((padding | later, torch.finfo(h.dtype).min), (padding, -1e9), (padding, -1e4)))
    return y.square().mean() + (y * q).mean()


def saturated(h, given):
    """Probabilities that have become 0 or 1, or nearly, where the logarithm of the loss ends and its derivative too."""
    far = torch.tensor([20.0, -20.0, 60.0, -60.0, 110.0, -110.0, 0.5, -2.0])
    return functional.binary_cross_entropy(torch.sigmoid(far + h), (torch.arange(8) % 3 / 2).expand_as(h))


labelled = lambda **options: lambda h, given: functional.cross_entropy(pooled(h), given["labels"], **options)  # noqa: E731
WEIGHTS = torch.linspace(0.5, 2, 8)
FUNCTIONS = {
    "label smoothing": labelled(label_smoothing=0.1),
    "label smoothing, weights, one ignored": labelled(label_smoothing=0.2, weight=WEIGHTS, ignore_index=3),
    "labels of pixels, smoothed": lambda h, given: functional.cross_entropy(h.transpose(1, 2), given["labels"][:, None].expand(-1, 3), label_smoothing=0.1),
    "probabilities": lambda h, given: functional.cross_entropy(pooled(h), given["image"].flatten(1)[:, :8].softmax(-1), weight=WEIGHTS, label_smoothing=0.1),
    "fold": folded, "filters of frequencies": filtered, "spectra": spectra, "filterbank": filterbank, "no_grad": taught, "frozen for a while": frozen_for_a_while, "detach": straight_through, "fill_diagonal_": alike,
    "smoothed by hand": smoothed, "padded": padded, "saturated": saturated, "truths": by_truths, "cdist": distances, "of nothing": of_nothing, "resampled": resampled, "strided": strided, "ctc_loss": aligned, "running products": running, "searchsorted": placed, "below 0": below_zero, "distributions": likely, "errors": errors,
    "own backward": own_backward, "checkpoint": recomputed, "matrices": matrices, "triangles": triangles, "gammas": gammas, "middles": middles,
    "pools": pools, "largest so far": largest_so_far, "products": products, "most often": most_often,
    "complex numbers": turned, "operator of frequencies": operated, "repeated from behind": repeated, "fake quantization": quantized, "inverse of erf": inverses, "columns": by_columns, "likelihoods": likelihoods,
    "sums of logarithms": lambda h, given: torch.logaddexp(h, 2 * pooled(h)[:, None]).logaddexp(h * h).mean(), "filters of rows": filters_of_rows, "norms without means": without_means,
    "composed": composed, "composed again": composed_again, "rejoined": rejoined, "brought where it is": lambda h, given: given["model"].to(h.device).layer.to(torch.float32).float()(h).square().mean(),
    "int of a shape": windows, "places": places, "scale_grad_by_freq": looked_up, "padding_idx": without_rows(1), "several padding_idx": without_rows(-1, None, 3),  "batch norm without statistics": without_statistics,
    **{f"{mode}, {padding}{', corners' * corners}": sample(mode, padding, corners)
       for mode, padding, corners in (("bilinear", "zeros", False), ("bilinear", "border", True), ("bicubic", "reflection", False), ("nearest", "zeros", True))},
}
COMPARES_ROWS = ("fill_diagonal_",)
NOT_IN = {"torchscript": ("most often", "fold", "frequencies", "spectra", "probabilities"),
          "dynamo": ("int of a shape", "rejoined", "resampled", "strided")}


def beside(name, exporter, **options):
    torch.manual_seed(1)
    torchs = beside_torch(suite, f"{name.replace(' ', '-')}-{exporter}", Model(FUNCTIONS[name]), batches(), exporter=exporter, fixed_batch=name in COMPARES_ROWS, **options)
    expect(int is type(1), "Python's int is another afterwards")
    return torchs


class Projects(nn.Module):
    """Recurrent layers whose state is a projection of what the cells give, layers whose weights have a norm of their own, and an adaptive softmax."""

    def __init__(self):
        super().__init__()
        self.long, self.last = nn.LSTM(8, 6, 2, proj_size=4, batch_first=True, bidirectional=True), nn.LSTM(8, 5, proj_size=3, bias=False)
        self.words = nn.AdaptiveLogSoftmaxWithLoss(4, 12, [3, 7], div_value=2.0)
        self.normed, self.parametrized = nn.utils.weight_norm(nn.Conv1d(3, 4, 2)), nn.utils.parametrizations.weight_norm(nn.Linear(4, 2), dim=None)

    def forward(self, x):
        h, (state, cell) = self.long(x)
        words = self.words(h[:, 0, :4], (x[:, 0, 0].abs() * 5).long().clamp(max=11))
        h, _ = self.last(h.transpose(0, 1))
        h = self.normed(h.permute(1, 2, 0)).tanh()
        return self.parametrized(h.mT).square().mean() + state.square().mean() + cell.square().mean() + words.loss + words.output.exp().mean()


def projected():
    for exporter, ranks, stage in (("torchscript", 1, 0), ("dynamo", 1, 0), (None, 2, 3)):
        torch.manual_seed(1)
        data = [{"x": torch.randn(4, 5, 8)} for _ in range(3)]
        beside_torch(suite, f"projects-{exporter}", Projects(), data, ranks=ranks, stage=stage, exporter=exporter)


suite.run([(f"{name} {exporter}", lambda name=name, exporter=exporter: beside(name, exporter))
           for name, exporter in by_exporter(suite, FUNCTIONS, lambda name, exporter: not any(word in name for word in NOT_IN[exporter]))])
suite.run([(f"{name}, 2 ranks, stage 3, {precision}", lambda name=name, precision=precision: beside(name, None, ranks=2, stage=3, precision=precision))
           for name, precision in suite.draw((("bilinear, zeros", "fp32"), ("bilinear, border, corners", "bf16"), ("spectra", "fp32"), ("label smoothing", "bf16")), 2,
                                             covering_values=False)])
def of_many_classes():
    """A sum over thousands of logarithms is more than 16 bits hold."""
    FUNCTIONS["of many classes"] = lambda h, given: functional.cross_entropy(pooled(h).repeat(1, 2000), given["labels"], label_smoothing=0.1)
    for exporter in ("torchscript", "dynamo"):
        beside("of many classes", exporter, precision="fp16")


suite.run([(f.__name__, f) for f in (projected, named, of_many_classes)])
suite.finish()

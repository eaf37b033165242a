"""Losses that exporters have not, or not without a look at the data."""
import math


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional = torch.nn.functional

    def reduced(each, reduction):
        return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each

    def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
        """Logarithms end at -100, as torch's."""
        if (size_average, reduce) != (None, None) or not input.is_floating_point():
            return NotImplemented
        each = -(target * input.log().clamp(min=-100.0) + (1 - target) * (1 - input).log().clamp(min=-100.0))
        return reduced(each if weight is None else each * weight, reduction)

    def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
        if not isinstance(var, torch.Tensor):
            return NotImplemented
        var = var if var.dim() == input.dim() else var.unsqueeze(-1)
        kept = var + (var.clamp(min=eps) - var).detach()  # whose gradient does not stop where it is raised
        each = 0.5 * (kept.log() + (input - target).square() / kept)
        return reduced(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)

    def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
        if (size_average, reduce) != (None, None):
            return NotImplemented
        far = lambda a, b: functional.pairwise_distance(a, b, p, eps)
        away = far(anchor, negative)
        away = torch.minimum(away, far(positive, negative)) if swap else away
        return reduced((far(anchor, positive) - away + margin).clamp(min=0.0), reduction)

    def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
        if (size_average, reduce) != (None, None) or input.dim() != 2:
            return NotImplemented
        place = target.unsqueeze(1)
        short = (margin - input.gather(1, place) + input).clamp(min=0.0) ** p
        short = short if weight is None else short * weight[target].unsqueeze(1)
        others = torch.arange(int(input.shape[1])) != place
        return reduced(torch.where(others, short, torch.zeros_like(short)).sum(1) / int(input.shape[1]), reduction)

    return {functional.binary_cross_entropy: binary_cross_entropy, functional.gaussian_nll_loss: gaussian_nll_loss,
            functional.triplet_margin_loss: triplet_margin_loss, functional.multi_margin_loss: multi_margin_loss}

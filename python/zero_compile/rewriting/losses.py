"""Losses that exporters have not, write with other gradients, or not without a look at the data."""
import math

from . import distances

LEAST = -1e30  # for the logarithm of 0, whose gradient is none


def adaptive(torch):
    """What stands for the forward pass of AdaptiveLogSoftmaxWithLoss, which picks rows for each of its clusters: every cluster has all rows, each row takes its
    own cluster's."""
    functional, result = torch.nn.functional, torch.nn.modules.adaptive._ASMoutput

    def forward(self, input_, target_):
        if target_.dim() != 1:
            raise NotImplementedError("an adaptive softmax of a single row")
        place, within = target_, torch.zeros_like(input_[:, 0])
        for cluster, (tail, low, high) in enumerate(zip(self.tail, self.cutoffs, self.cutoffs[1:])):
            own = (target_ >= low) & (target_ < high)
            each = functional.log_softmax(tail(input_), 1).gather(1, (target_ - low).clamp(0, high - low - 1).unsqueeze(1)).squeeze(1)
            within = torch.where(own, each, within)
            place = torch.where(own, torch.full_like(target_, self.shortlist_size + cluster), place)
        output = within + functional.log_softmax(self.head(input_), 1).gather(1, place.unsqueeze(1)).squeeze(1)
        return result(output, (-output).mean())

    return forward


def stand_ins(torch, origin):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments. `origin`: of a tensor that a mask picked, what from and the mask."""
    functional = torch.nn.functional

    def reduced(each, reduction):
        return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each

    def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
        return NotImplemented if (size_average, reduce, weight) != (None, None, None) else reduced((input - target).abs(), reduction)

    def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
        if weight is not None:
            return NotImplemented
        distance = (input - target).abs()
        return reduced(torch.where(distance < delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta)), reduction)

    def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
        if (size_average, reduce) != (None, None):
            return NotImplemented
        return huber_loss(input, target, reduction, beta) / beta if beta > 0 else l1_loss(input, target, reduction=reduction)

    def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        """Smoothed, of labels that are numbers: TorchScript's exporter refuses what torch.export's trace says; nor takes it an ignore_index that is a size."""
        if isinstance(ignore_index, torch.Tensor):
            return functional.cross_entropy(input, target, weight, size_average, int(ignore_index), reduce, reduction, label_smoothing)
        if label_smoothing == 0 or target.is_floating_point() or (size_average, reduce) != (None, None) or not torch.jit.is_tracing():
            return NotImplemented
        dim = 1 if input.dim() > 1 else 0
        logarithms, counts = input.log_softmax(dim), target != ignore_index
        own = functional.nll_loss(logarithms, target, weight, ignore_index=ignore_index, reduction=reduction)
        weighted = logarithms if weight is None else logarithms * weight.reshape(-1, *[1] * (input.dim() - 1 - dim))
        others = -weighted.mean(dim)  # a sum over many classes is more than 16 bits hold
        others = torch.where(counts, others, torch.zeros_like(others))
        if reduction == "mean":
            shares = counts.to(input.dtype) if weight is None else torch.where(counts, weight[target.clamp(min=0)], torch.zeros_like(weight[0]))
            others = others.sum() / shares.sum()
        elif reduction == "sum":
            others = others.sum()
        return (1 - label_smoothing) * own + label_smoothing * others

    def in_rows(picked):
        """The labels that a mask picked of rows, each row's at its beginning."""
        labels, counts = picked
        place, last = counts.to(torch.int64).cumsum(1) - 1, torch.full_like(labels, int(labels.shape[1]))
        return torch.zeros_like(torch.cat([labels, labels[:, :1]], 1)).scatter(1, torch.where(counts, place, last), labels)[:, :-1]

    def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
        """Graves 2006: alpha[s] is the logarithm of how likely the first s of the labels and the blanks between them are by now. In 64 bits, which stay what they
        are in a plan of 16: after a few hundred steps alpha has more in front of the point than those hold."""
        of_mask = origin(targets)
        targets = in_rows(of_mask) if of_mask and of_mask[0].dim() == 2 else targets
        if log_probs.dim() != 3 or targets.dim() != 2:
            return NotImplemented
        steps, targets = int(log_probs.shape[0]), targets.clamp(min=0)
        input_lengths, target_lengths = (torch.as_tensor(n).to(torch.int64) for n in (input_lengths, target_lengths))
        blanks = torch.full_like(targets, blank)
        labels = torch.cat([torch.stack([blanks, targets], -1).flatten(1), blanks[:, :1]], 1)
        scores = log_probs.double().transpose(0, 1).gather(2, labels.unsqueeze(1).expand(-1, steps, -1))
        never = torch.full_like(scores[:, 0], LEAST)
        skips = torch.cat([labels[:, :2] < 0, (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])], 1)
        alpha = torch.cat([scores[:, 0, :2], never[:, 2:]], 1)
        for step in range(1, steps):
            one, two = torch.cat([never[:, :1], alpha[:, :-1]], 1), torch.cat([never[:, :2], alpha[:, :-2]], 1)
            likely = torch.logsumexp(torch.stack([alpha, one, torch.where(skips, two, never)]), 0) + scores[:, step]
            alpha = torch.where((input_lengths > step).unsqueeze(1), likely, alpha)
        last = 2 * target_lengths.unsqueeze(1)
        before = torch.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), never[:, :1])
        loss = -torch.logsumexp(torch.cat([alpha.gather(1, last), before], 1), 1)
        loss = torch.where(loss > -LEAST / 2, torch.full_like(loss, 0.0 if zero_infinity else float("inf")), loss)
        return reduced(loss / target_lengths.clamp(min=1) if reduction == "mean" else loss, reduction).to(log_probs.dtype)

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
        far = lambda a, b: distances.pairwise(torch, a, b, p, eps)
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

    def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
        """A row's labels are those before the first below 0."""
        if (size_average, reduce) != (None, None) or input.dim() != 2:
            return NotImplemented
        counts, place = (target < 0).to(torch.int64).cumsum(1) == 0, target.clamp(min=0)
        own = torch.zeros_like(input).scatter_add(1, place, counts.to(input.dtype)) > 0
        short = (1 - input.gather(1, place).unsqueeze(2) + input.unsqueeze(1)).clamp(min=0.0)
        return reduced(torch.where(counts.unsqueeze(2) & own.logical_not().unsqueeze(1), short, torch.zeros_like(short)).sum((1, 2)) / int(input.shape[1]), reduction)

    def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        """torch.export takes it apart by itself."""
        if (size_average, reduce) != (None, None) or not torch.jit.is_tracing():
            return NotImplemented
        nothing = torch.zeros_like(input)
        return reduced(torch.where(target != 1, (margin - input).clamp(min=0.0), nothing) + torch.where(target != -1, input, nothing), reduction)

    def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
        """torch.export takes it apart by itself."""
        if full or (size_average, reduce) != (None, None) or not torch.jit.is_tracing():
            return NotImplemented
        return reduced(input.exp() - target * input if log_input else input - target * (input + eps).log(), reduction)

    def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
        """As the one before."""
        if (size_average, reduce) != (None, None) or not torch.jit.is_tracing():
            return NotImplemented
        return reduced(functional.softplus(-target * input), reduction)

    return {functional.l1_loss: l1_loss, functional.huber_loss: huber_loss, functional.smooth_l1_loss: smooth_l1_loss, functional.cross_entropy: cross_entropy,
            functional.ctc_loss: ctc_loss, functional.binary_cross_entropy: binary_cross_entropy, functional.gaussian_nll_loss: gaussian_nll_loss,
            functional.triplet_margin_loss: triplet_margin_loss, functional.multi_margin_loss: multi_margin_loss,
            functional.multilabel_margin_loss: multilabel_margin_loss, functional.hinge_embedding_loss: hinge_embedding_loss,
            functional.poisson_nll_loss: poisson_nll_loss, functional.soft_margin_loss: soft_margin_loss}

"""Distances, deviations and likenesses, which are roots: with torch's gradients where they are 0, or what they are divided by is. Exporters write the roots alone."""
import math


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional, tensor = torch.nn.functional, torch.Tensor

    def cdist(x1, x2, p=2.0, compute_mode=None):
        """At a distance of 0 the gradient is 0."""
        difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
        if p == 0:
            return (difference != 0).to(difference.dtype).sum(-1)
        if p in (1, math.inf):
            return difference.abs().sum(-1) if p == 1 else difference.abs().amax(-1)
        return difference.norm(dim=-1) if p == 2 else torch.linalg.vector_norm(difference, p, -1)

    def from_first(input, dim):
        """Of what is constant exactly 0, as whose mean torch has what it is the mean of."""
        first = input.detach()
        for each in range(input.dim()) if dim is None else (dim,) if isinstance(dim, int) else dim:
            first = first.narrow(each, 0, 1)
        return input - first

    def root(variance):
        nothing = variance == 0
        return torch.where(nothing, torch.zeros_like(variance), torch.where(nothing, torch.ones_like(variance), variance).sqrt())

    def std(input, *args, **kwargs):
        dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
        return root(torch.var(from_first(input, dim), *args, **kwargs))

    def std_mean(input, *args, **kwargs):
        variance, mean = torch.var_mean(input, *args, **kwargs)
        return std(input, *args, **kwargs), mean

    def cosine_similarity(x1, x2, dim=1, eps=1e-8):
        """A norm that is raised to eps has its gradient all the same."""
        def scaled(x):
            norm = torch.linalg.vector_norm(x, 2, dim, keepdim=True)
            return x / (norm + (norm.clamp(min=eps) - norm).detach())
        return (scaled(x1) * scaled(x2)).sum(dim)

    def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
        """torch.export takes it apart by itself."""
        if (size_average, reduce) != (None, None) or not torch.jit.is_tracing():
            return NotImplemented
        size = lambda x: x.square().sum(-1) + 1e-12  # noqa: E731
        alike = (input1 * input2).sum(-1) / (size(input1) * size(input2)).sqrt()
        nothing = torch.zeros_like(alike)
        each = torch.where(target == 1, 1 - alike, nothing) + torch.where(target == -1, (alike - margin).clamp(min=0), nothing)
        return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each

    return {torch.cdist: cdist, **dict.fromkeys((torch.std, tensor.std), std), torch.std_mean: std_mean, **dict.fromkeys((torch.cosine_similarity, functional.cosine_similarity), cosine_similarity),
            functional.cosine_embedding_loss: cosine_embedding_loss, functional.pairwise_distance: lambda *args, **kwargs: pairwise(torch, *args, **kwargs)}


def pairwise(torch, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """TorchScript's exporter adds eps to the exponent."""
    return torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)

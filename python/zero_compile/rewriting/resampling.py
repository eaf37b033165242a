"""Resampling of images: with corners that stay, of sizes, since by ONNX a scale whose size is rounded off has its corners elsewhere; and what TorchScript's exporter
has not: areas, the exactly nearest, and without aliases."""
import math

from . import pooling, tracing


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional, pools = torch.nn.functional, pooling.stand_ins(torch)

    def weights(length, size, scale, **how):
        """[length, size]: what torch makes of a 1 at each place."""
        with tracing.paused():
            return functional.interpolate(torch.eye(length)[:, None, None], None if size is None else [1, size], None if scale is None else [1.0, scale], **how)[:, 0, 0]

    def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
        traced, aligned = torch.jit.is_tracing(), align_corners and size is None and not antialias
        if not aligned and not (traced and (mode in ("area", "nearest-exact") or antialias)):
            return NotImplemented
        many = lambda value: list(value) if isinstance(value, (tuple, list)) else [value] * (input.dim() - 2)  # noqa: E731
        lengths, scales = [int(length) for length in input.shape[2:]], many(scale_factor)
        sizes = [int(each) for each in many(size)] if size is not None else [math.floor(length * scale) for length, scale in zip(lengths, scales)]
        if aligned:
            return functional.interpolate(input, sizes, mode=mode, align_corners=True)
        if mode == "area":
            pool = getattr(functional, f"adaptive_avg_pool{len(sizes)}d")
            result = pools[pool](input, sizes)
            return pool(input, sizes) if result is NotImplemented else result
        own = scale_factor is not None and not recompute_scale_factor  # by what places are computed
        for dim, (length, wanted, scale) in enumerate(zip(lengths, sizes, scales), 2):
            each = weights(length, None if own else wanted, scale if own else None, mode=mode, align_corners=align_corners, antialias=antialias)
            if mode == "nearest-exact":
                input = input.index_select(dim, each.argmax(0))
            else:
                input = torch.matmul(input.transpose(dim, -1), each.to(input.dtype)).transpose(dim, -1)
        return input

    return {functional.interpolate: interpolate}

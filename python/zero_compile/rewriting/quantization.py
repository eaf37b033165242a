"""Fake quantization, of any range, with a gradient where nothing was cut off: exporters have it of 8 bits, or not at all."""


def stand_ins(torch):
    """{torch's function: what stands for it}."""
    def fake_quantize(input, scale, zero_point, quant_min, quant_max):
        places = (input.detach() / scale).round() + zero_point
        kept = (places >= quant_min) & (places <= quant_max)
        result = (places.clamp(quant_min, quant_max) - zero_point) * scale
        return torch.where(kept, input, input.detach()) + (result - input).detach()

    def fake_quantize_per_channel(input, scale, zero_point, axis, quant_min, quant_max):
        wide = lambda x: x.reshape(*[1] * axis, -1, *[1] * (input.dim() - axis - 1))
        return fake_quantize(input, wide(scale.detach()), wide(zero_point.detach()).to(input.dtype), quant_min, quant_max)

    def fake_quantize_per_tensor(input, scale, zero_point, quant_min, quant_max):
        of = lambda x: x.detach().to(input.dtype) if isinstance(x, torch.Tensor) else x
        return fake_quantize(input, of(scale), of(zero_point), quant_min, quant_max)

    return {torch.fake_quantize_per_tensor_affine: fake_quantize_per_tensor, torch.fake_quantize_per_channel_affine: fake_quantize_per_channel}

"""Spectra of frames while TorchScript traces, whose exporter gives none as complex numbers: a convolution with the waves of each frequency (a filterbank)."""
import math

from .complexes import Pair


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional = torch.nn.functional

    def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None, return_complex=None,
             align_to_window=None):
        if not torch.jit.is_tracing() or isinstance(input, Pair) or align_to_window is not None:
            return NotImplemented
        length, hop = win_length or n_fft, hop_length or n_fft // 4
        window = torch.ones(length) if window is None else window
        if length < n_fft:
            window = functional.pad(window, ((n_fft - length) // 2, n_fft - length - (n_fft - length) // 2))
        frequencies = torch.arange(n_fft if onesided is False else n_fft // 2 + 1)
        turns = (frequencies[:, None] * torch.arange(n_fft) % n_fft).double() * (2 * math.pi / n_fft)  # whole turns first, which cost no digits
        waves = torch.cat([turns.cos(), -turns.sin()]).to(input.dtype) * window * (n_fft ** -0.5 if normalized else 1)
        rows = input.unsqueeze(0) if input.dim() == 1 else input
        rows = functional.pad(rows.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode) if center else rows.unsqueeze(1)
        both = functional.conv1d(rows, waves.unsqueeze(1), stride=hop)
        spectrum = Pair(*(both[0] if input.dim() == 1 else both).chunk(2, -2))
        return spectrum if return_complex else torch.stack([spectrum.real, spectrum.imag], -1)

    return {torch.stft: stft, torch.Tensor.stft: stft}

"""Functions whose backward is not what their forward alone would have: targets, what is frozen or detached, autograd functions, checkpoints."""
import torch
import torch.utils.checkpoint

from functions import pooled


def taught(h, given):
    """By what the same weights say without a gradient, which is said in several ways."""
    with torch.no_grad():
        target = (pooled(h) / 0.5).softmax(-1)
        with torch.enable_grad():
            some = pooled(h * 0.7).square()
        target = target + some.tanh()
    with torch.set_grad_enabled(False):
        target = target + pooled(h * 0.3).tanh()
    torch.set_grad_enabled(False)
    scale = pooled(h * 0.4).tanh()
    torch.set_grad_enabled(True)
    with torch.inference_mode():
        shift = pooled(h * 0.6).tanh()
    target = target * scale + shift.clone() + some.mean()
    return -(target * pooled(h * 0.9).log_softmax(-1)).sum(-1).mean() + straight_through(h, given)


def frozen_for_a_while(h, given):
    """As a discriminator is in its generator's loss, by the method and by the attribute."""
    centres = given["model"].centres
    centres.requires_grad_(False)
    made = (h.mean(1) @ centres.T).logsumexp(-1).mean()
    centres.requires_grad = True
    return made + (h.detach().mean(1) @ centres.T).square().mean()


def straight_through(h, given):
    return (h + (h.round() - h).detach()).square().mean()


class Own(torch.autograd.Function):
    """A sign, whose gradient is let through where its argument is small: a straight-through step, a spike's surrogate."""

    @staticmethod
    def forward(context, x, reach):
        context.save_for_backward(x)
        context.reach = reach
        return x.sign()

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * (x.abs() < context.reach).to(gradient.dtype), None


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(x, share):
        return x.view_as(x)

    @staticmethod
    def setup_context(context, inputs, output):
        context.share = inputs[1]

    @staticmethod
    def backward(context, gradient):
        return -context.share * gradient, None


class Shares(torch.autograd.Function):
    """A softmax whose backward, which is its own gradient, is no product element by element."""

    @staticmethod
    def forward(context, x):
        y = x.softmax(-1)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context, gradient):
        (y,) = context.saved_tensors
        return y * (gradient - (gradient * y).sum(-1, keepdim=True))


def own_backward(h, given):
    return (Own.apply(h, 0.7) * h + Turned.apply(h, 0.3).exp() + Shares.apply(h)).square().mean()


def recomputed(h, given):
    again = torch.utils.checkpoint.checkpoint(lambda x: x.tanh() * x, h, use_reentrant=True)
    return torch.utils.checkpoint.checkpoint(lambda x: (x @ x.mT).sigmoid(), again, use_reentrant=False).square().mean()

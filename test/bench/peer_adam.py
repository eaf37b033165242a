"""Peers of the update of N parameters: DeepSpeed's kernel, all that its ZeRO-Offload optimizer does in a step, torch's kernel.

  peer_adam.py THREADS ELEMENTS      a name a line on stdin, each answered by one JSON object on stdout: {"seconds": ..}

`deepspeed`, `torch`: DeepSpeedCPUAdam and fused AdamW on fp32 parameter, gradient and moments, 28 bytes a parameter. `phase fp32`,
`phase bf16`: an engine of ZeRO stage 2 with the optimizer on the host and gradients clipped to 1, one rank. Timed are its own
functions in one training step: `copy_grads_in_partition` (norm and overflow of each gradient, its copy to the host's fp32 buffer)
and `step` (the norm, unscale and clip, CPUAdam, the copies to the host's and to the device's parameters) less its all-gather. "parts"
has them apart. Needs torch and deepspeed.
"""
import functools
import json
import logging
import os
import sys
import time
import warnings

THREADS, ELEMENTS = int(sys.argv[1]), int(sys.argv[2])
# Large pages, which our arenas have too; torch's allocator does not ask for them by itself.
os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS=str(THREADS), THP_MEM_ALLOC_ENABLE="1", RANK="0", LOCAL_RANK="0",
                  WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29519", GLOO_SOCKET_IFNAME="lo")
answers = os.fdopen(os.dup(1), "w")  # DeepSpeed prints to stdout
os.dup2(2, 1)
warnings.simplefilter("ignore")

import torch  # noqa: E402
import deepspeed  # noqa: E402
from deepspeed.ops.adam import DeepSpeedCPUAdam  # noqa: E402
from deepspeed.runtime.zero import stage_1_and_2  # noqa: E402
from deepspeed.utils import logger  # noqa: E402

logger.setLevel(logging.ERROR)
torch.set_num_threads(THREADS)
TENSORS = 8  # parameters that ELEMENTS are cut into, as large as those of a model are


class Clock:
    """Sums the seconds of functions that it wraps."""

    def __init__(self):
        self.parts = {}

    def wrap(self, owner, function, name):
        inner = getattr(owner, function)

        def timed(*args, **kwargs):
            at = time.perf_counter()
            result = inner(*args, **kwargs)
            self.parts[name] = self.parts.get(name, 0) + time.perf_counter() - at
            return result
        setattr(owner, function, timed)


def kernel(make):
    parameter = torch.nn.Parameter(torch.zeros(ELEMENTS))
    parameter.grad = torch.full((ELEMENTS,), 1e-3)
    optimizer = make([parameter], lr=1e-4, weight_decay=0.01)

    def run():
        at = time.perf_counter()
        optimizer.step()
        return {"seconds": time.perf_counter() - at}
    return run


class Model(torch.nn.Module):
    """Its gradients are constants, so that backward does little else than to hand them over."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(ELEMENTS // TENSORS) for _ in range(TENSORS))

    def forward(self, gradient):
        return sum(torch.dot(weight, gradient) for weight in self.weights)


def phase(precision):
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "overlap_comm": False},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}}}
    if precision == "bf16":
        config["bf16"] = {"enabled": True}
    model = Model()
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    assert type(optimizer.optimizer) is DeepSpeedCPUAdam
    gradient = torch.full((ELEMENTS // TENSORS,), 1e-3, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    clock = Clock()
    clock.wrap(optimizer, "copy_grads_in_partition", "landing")
    clock.wrap(optimizer, "step", "step")
    clock.wrap(optimizer, "unscale_and_clip_grads", "clip")
    clock.wrap(optimizer, "_optimizer_step", "kernel")
    gather = stage_1_and_2.all_gather_dp_groups

    def run():
        clock.parts = {}
        # Its name is the module's, so it is wrapped while this engine steps.
        clock.wrap(stage_1_and_2, "all_gather_dp_groups", "all-gather")
        engine.backward(engine(gradient))
        engine.step()
        stage_1_and_2.all_gather_dp_groups = gather
        parts = clock.parts
        step = parts["step"] - parts["all-gather"]
        return {"seconds": parts["landing"] + step,
                "parts": {"landing": parts["landing"], "clip": parts["clip"], "kernel": parts["kernel"],
                          "rest": step - parts["clip"] - parts["kernel"]}}
    return run


def main():
    deepspeed.init_distributed("gloo")
    makers = {"deepspeed": lambda: kernel(DeepSpeedCPUAdam), "torch": lambda: kernel(functools.partial(torch.optim.AdamW, fused=True)),
              "phase fp32": lambda: phase("fp32"), "phase bf16": lambda: phase("bf16")}
    contenders = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in contenders:
            contenders[name] = makers[name]()
            contenders[name]()  # the first run makes the moments
        print(json.dumps(contenders[name]()), file=answers, flush=True)


main()

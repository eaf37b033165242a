#!/usr/bin/env python3
"""--config: a DeepSpeed configuration gives the very plan that its flags give, flags given as well win, and what cannot be done
is refused or named."""
import json, pathlib, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite

suite = Suite(__doc__)
MODEL = suite.dir / "model.onnx"
subprocess.run([sys.executable, SUPPORT / "make_gpt.py", MODEL, *"--layers 1 --hidden 32 --heads 2 --vocab 50 --seq 8 --batch 2".split()],
               capture_output=True, check=True)

# What Hugging Face's documents show for stage 3 with everything on the host.
TYPICAL = {
    "zero_optimization": {
        "stage": 3, "overlap_comm": True, "contiguous_gradients": True, "sub_group_size": 1e9,
        "offload_optimizer": {"device": "cpu", "pin_memory": True}, "offload_param": {"device": "cpu", "pin_memory": True},
        "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": True},
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 20, "total_num_steps": 400, "warmup_min_lr": "auto"}},
    "gradient_accumulation_steps": "auto", "gradient_clipping": 1.0, "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": 2, "steps_per_print": 2000, "wall_clock_breakdown": False}
MOST = {
    "zero_optimization": {
        "stage": 3, "reduce_bucket_size": 2000, "stage3_prefetch_bucket_size": 5e3, "zero_quantized_weights": True,
        "zero_quantized_gradients": True, "zero_hpz_partition_size": 2},
    "bf16": {"enabled": True}, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
    "optimizer": {"type": "Adam", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1}}}
RATIO = {"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"device": "nvme", "ratio": 0.5, "nvme_path": "/fast"}},
         "activation_checkpointing": {"cpu_checkpointing": True}}


def compile_model(name, *flags, code=0):
    plan = suite.dir / f"{name}.plan"
    done = subprocess.run([suite.bin / "zero-compile", MODEL, "-o", plan, *map(str, flags)], capture_output=True, text=True, timeout=600)
    if done.returncode != code:
        raise Case(f"exit code {done.returncode}: {done.stderr.strip()[:500]}")
    if code != 0 and plan.exists():
        raise Case("left a plan behind")
    return (suite.plan_hash(plan) if code == 0 else ""), done.stderr


def config_file(name, config):
    path = suite.dir / f"{name}.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def same_plan(name, config, with_config, flags):
    def case():
        got, notes = compile_model(f"{name}-config", *with_config.split(), "--config", config_file(name, config))
        wanted, _ = compile_model(f"{name}-flags", *with_config.split(), *flags.split())
        if got != wanted:
            raise Case(f"another plan than {flags}; {notes}")
    return name, case


def open_batch():
    """It is that of the configuration, in the command that the plan has as well."""
    model, plan = SUPPORT.parents[1] / "examples/gpt/gpt.onnx", suite.dir / "open.plan"
    config = config_file("open", {"train_micro_batch_size_per_gpu": 2})
    suite.tool("zero-compile", model, "--config", config, "-o", plan)
    got, command = suite.plan_hash(plan), suite.tool("zero-run", "inspect", plan)
    suite.tool("zero-compile", model, "--dim", "batch=2", "-o", plan)
    if got != suite.plan_hash(plan) or "--dim batch=2" not in command:
        raise Case(f"another plan than of 2 samples, or no --dim in its command: {command}")


def says(name, config, *texts, code=0, flags=(), silent=None):
    def case():
        _, err = compile_model(name, "--world-size", 4, "--config", config_file(name, config), *flags, code=code)
        for text in texts:
            if text not in err:
                raise Case(f"no {text!r} in {err[:600]!r}")
        if silent and silent in err:
            raise Case(f"{silent!r} in {err[:600]!r}")
    return name, case


def batches(*flags, batch, steps):
    """Ranks that share samples have one batch: `batch` samples of micro-steps of 2 are `steps` of them; with one less they do not multiply out."""
    sizes = {"train_batch_size": batch, "train_micro_batch_size_per_gpu": 2}
    name = "".join(map(str, flags))
    _, notes = compile_model(name, *flags, "--config", config_file(name, sizes))
    if f"--grad-accumulation {steps} " not in notes.replace("\n", " \n"):
        raise Case(notes)
    _, err = compile_model(name + "-wrong", *flags, "--config", config_file(name, {**sizes, "gradient_accumulation_steps": steps + 1}), code=2)
    if f"{batch}, but 2 x {steps + 1} x {batch // 2 // steps}" not in err or "data-parallel ranks" not in err:
        raise Case(err)


def zero(**more):
    return {"zero_optimization": more}


ADAM = {"type": "Adam", "params": {"lr": 0.00015, "weight_decay": 0.01}}
ADAM_FLAGS = "--optimizer adamw --lr 0.00015 --weight-decay 0.01"
# As DeepSpeed's tutorials have them (deepspeed.ai/tutorials, 0.19): the plan that the same flags give, or the refusal.
TUTORIALS = {
    "getting started": ({"train_batch_size": 8, "gradient_accumulation_steps": 1, "optimizer": {"type": "Adam", "params": {"lr": 0.00015}},
                         "fp16": {"enabled": True}, "zero_optimization": True},
                        "--zero-stage 1 --precision fp16 --optimizer adamw --lr 0.00015 --weight-decay 0"),
    "cifar": ({"train_batch_size": 8, "steps_per_print": 2000, "wall_clock_breakdown": False,
               "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}},
               "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 1000}}},
              "--optimizer adamw --lr 0.001 --betas 0.8,0.999 --eps 1e-8 --weight-decay 3e-7 "
              "--lr-schedule deepspeed-warmup:warmup=1000,rise=log"),
    "zero": ({"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": True, "overlap_comm": True, "reduce_scatter": True,
              "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8}, "optimizer": ADAM},
             f"--zero-stage 2 --bucket-size 2000000000 {ADAM_FLAGS}"),
    "zero-offload": ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "contiguous_gradients": True,
                      "overlap_comm": True}, "optimizer": ADAM},
                     f"--zero-stage 2 --offload-optimizer host {ADAM_FLAGS}"),
    "infinity": ({"zero_optimization": {"stage": 3, "contiguous_gradients": True, "stage3_max_live_parameters": 1e9,
                  "stage3_max_reuse_distance": 1e9, "stage3_prefetch_bucket_size": 1e7, "stage3_param_persistence_threshold": 1e5,
                  "reduce_bucket_size": 1e7, "sub_group_size": 1e9, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}},
                 "--zero-stage 3 --prefetch 40000000 --bucket-size 40000000 --offload-optimizer host --offload-param host"),
    "zero++": ({"zero_optimization": {"stage": 3, "reduce_bucket_size": 10000000, "reduce_scatter": True, "zero_quantized_weights": True,
                "zero_hpz_partition_size": 2, "zero_quantized_gradients": True, "contiguous_gradients": True, "overlap_comm": True}},
               "--zero-stage 3 --bucket-size 40000000 --quantize-weights int8 --ranks-per-node 2 --hierarchical "
               "--quantize-gradients int4"),
    "cosine": ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 1000, "warmup_num_steps": 10, "warmup_type": "linear"}}},
               "--optimizer adamw --lr 1e-3 --weight-decay 0 "
               "--lr-schedule deepspeed-warmup-cosine:warmup=10,rise=linear-from-zero,steps=1000,from=0.0,end=0.0001"),
    "one cycle": ({"optimizer": {"type": "SGD", "params": {"lr": 1e-3}},
                   "scheduler": {"type": "OneCycle", "params": {"cycle_first_step_size": 1000, "cycle_second_step_size": 500,
                                 "decay_step_size": 1000, "cycle_min_lr": 0.0002, "cycle_max_lr": 0.001, "decay_lr_rate": 0.001}}},
                  "--optimizer sgd --lr 0.001 --weight-decay 0 "
                  "--lr-schedule deepspeed-one-cycle:up=1000,down=500,every=1000,rate=0.001,from=0.2"),
    "one cycle of Adam": ({"optimizer": ADAM, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001,
                           "cycle_momentum": True, "cycle_min_mom": 0.85, "cycle_max_mom": 0.99}}}, "cycle_momentum"),
    "range test": ({"scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.0001, "lr_range_test_step_size": 200}}}, "LRRangeTest"),
    "1-bit Adam": ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4, "freeze_step": 23000}}}, "OneBitAdam"),
    "curriculum": ({"curriculum_learning": {"enabled": True, "curriculum_type": "seqlen"}}, "curriculum_learning"),
    "sparse attention": ({"sparse_attention": {"mode": "fixed", "block": 16}}, "sparse_attention"),
    "compression": ({"compression_training": {"weight_quantization": {"shared_parameters": {"enabled": True}}}}, "compression_training"),
}


def tutorial(name, config, outcome):
    if not outcome.startswith("--"):
        return says(name, config, f'"{outcome}', code=4)
    return same_plan(name, config, "--world-size 4", outcome)


least = {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": "auto", "warmup_num_steps": 4, "warmup_type": "linear"}}
adamw = {"type": "AdamW", "params": {"lr": "auto"}}
suite.run([
    *(tutorial(name, *of) for name, of in TUTORIALS.items()),
    same_plan("typical", TYPICAL, "--world-size 2", "--zero-stage 3 --offload-optimizer host --offload-param host --optimizer adamw "
              "--weight-decay 0 --clip-grad-norm 1 --lr 1e-3 --lr-schedule deepspeed-warmup-decay:warmup=20,rise=log,steps=400"),
    same_plan("most", MOST, "--world-size 4", "--zero-stage 3 --bucket-size 4000 --prefetch 10000 --quantize-weights int8 "
              "--quantize-gradients int4 --ranks-per-node 2 --hierarchical --precision bf16 --grad-accumulation 2 "
              "--clip-grad-norm 0.5 --optimizer adamw --lr 3e-4 --betas 0.9,0.95 --eps 1e-6 --weight-decay 0.1"),
    same_plan("ratio", RATIO, "--world-size 2", "--zero-stage 2 --offload-optimizer nvme --offload-ratio 0.5 --offload-activation host"),
    same_plan("flag wins", MOST, "--world-size 2 --zero-stage 1 --precision fp32 --lr 0.01 --bucket-size 4000 --prefetch none "
              "--ranks-per-node 1 --quantize-weights none --quantize-gradients none",
              "--grad-accumulation 2 --clip-grad-norm 0.5 --optimizer adamw --betas 0.9,0.95 --eps 1e-6 --weight-decay 0.1 --hierarchical"),
    same_plan("plain adam", {"optimizer": {"type": "Adam", "params": {"adam_w_mode": False, "lr": 0.1}}}, "",
              "--optimizer adam --lr 0.1 --weight-decay 0"),
    same_plan("sgd", {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}, "", "--optimizer sgd --lr 0.1 --weight-decay 0"),
    same_plan("momentum", {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.8}}}, "",
              "--optimizer momentum --momentum 0.8 --lr 0.1 --weight-decay 0"),
    same_plan("empty", {}, "", ""),
    same_plan("comments", '{"gradient_clipping": 0, // off\n"bf16": {"enabled": true}}', "", "--precision bf16"),
    says("notes", TYPICAL, "means --zero-stage 3", "zero-run --steps 400", "2 samples of a micro-step", '"optimizer/params/eps" is "auto"'),
    ("an open batch", open_batch),
    says("nvme folder", RATIO, "zero-run --nvme-dir /fast"),
    says("unknown", {**zero(stage=1, stge=3), "optimiser": {}}, "not known", "zero_optimization/stge", "optimiser", 'mean "optimizer"', code=4),
    says("elasticity", {"elasticity": {"enabled": True}}, '"elasticity" is not in this version', code=4),
    says("batch", {"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}, "16, but 2 x 1 x 4", code=2),
    ("batches of ranks that share samples", lambda: batches("--world-size", 4, "--tensor-parallel", 2, batch=16, steps=4)),
    ("batches of a mesh", lambda: batches("--mesh", "data=2,model=2", batch=8, steps=2)),
    says("ranks that do not divide", {"train_batch_size": 8}, "do not divide 4 ranks per node", code=2, flags=("--tensor-parallel", 3)),
    same_plan("sections of nothing", {"optimizer": {"type": "AdamW", "params": {}}, "fp16": {}, "bf16": None, "scheduler": None,
                                      "zero_optimization": {"stage": 2, "offload_optimizer": None, "offload_param": {}}},
              "--world-size 2", "--zero-stage 2 --optimizer adamw --weight-decay 0"),
    same_plan("no section says anything", {"optimizer": {}, "zero_optimization": None, "fp16": {"enabled": None}, "aio": {}}, "", ""),
    says("a trailing comma", '{"bf16": {"enabled": true},\n}', "line 2, column 1", code=2),
    says("nesterov", {"optimizer": {"type": "SGD", "params": {"nesterov": True}}}, "nesterov", code=4),
    says("two precisions", {"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "a run has one precision", code=2),
    says("gradients sent in 16 bits", {"communication_data_type": "fp16"}, "communication_data_type", code=4),
    same_plan("gradients added in fp32", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}, "--world-size 2",
              "--precision bf16 --grad-accum-dtype fp32"),
    says("gradients added in fp16", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp16"}}, "grad_accum_dtype", code=4),
    same_plan("gradients as they are", {"bf16": {"enabled": True}, "communication_data_type": "fp32",
                                        "data_types": {"grad_accum_dtype": "bf16"}}, "--world-size 2", "--precision bf16"),
    same_plan("seed", {"seed": 17}, "", "--seed 17"),
    says("a least rate of an auto", {"optimizer": adamw, "scheduler": least}, "from=0.2"),
    says("a least rate of a flag's", {"optimizer": adamw, "scheduler": least}, "from=0.1", flags=["--lr", "1e-4"]),
    says("a flag for an auto", {"optimizer": adamw, "gradient_clipping": "auto"}, "means --optimizer adamw", flags=["--lr", "1e-4", "--clip-grad-norm", "0.3"],
         silent='is "auto"'),
    says("a flag of another precision", {"fp16": {"enabled": True, "loss_scale": 128}}, "nothing beyond", flags=["--precision", "bf16"]),
    says("an auto that nobody fills in", {"optimizer": {"type": "SGD", "params": {"momentum": "auto"}}}, "optimizer/params/momentum",
         "nobody fills in", code=4),
    says("a scheduler of auto", {"scheduler": {"type": "auto"}}, "scheduler/type", code=4),
    says("another batch than the graph's", {"train_micro_batch_size_per_gpu": 8}, "8 samples", "begin with 2", code=2),
    says("another batch by arithmetic", {"train_batch_size": 32, "gradient_accumulation_steps": 2}, "4 samples", "begin with 2", code=2),
    same_plan("another batch by flags", {"train_batch_size": 8}, "--world-size 2 --grad-accumulation 3", ""),
    same_plan("fp16", {"fp16": {"enabled": True}}, "", "--precision fp16"),
    same_plan("fp16 rule", {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 8, "loss_scale_window": 500, "hysteresis": 3,
                                     "consecutive_hysteresis": True, "min_loss_scale": 0.5, "auto_cast": False}}, "",
              "--precision fp16 --initial-loss-scale 256 --loss-scale-window 500 --loss-scale-hysteresis 3 --consecutive-hysteresis "
              "--min-loss-scale 0.5"),
    same_plan("fp16 fixed", {"fp16": {"enabled": True, "loss_scale": 128, "initial_scale_power": 8}}, "", "--precision fp16 --loss-scale 128"),
    same_plan("fp16 off", {"fp16": {"enabled": False, "loss_scale": 128}}, "", ""),
    says("scale power", {"fp16": {"enabled": True, "initial_scale_power": 1000}}, "initial_scale_power", code=2),
    says("scale window", {"fp16": {"enabled": True, "loss_scale_window": -1}}, "loss_scale_window", code=2),
    says("optimizer", {"optimizer": {"type": "Lamb"}}, '"Lamb"', code=4),
    says("scheduler", {"scheduler": {"type": "OneCycle"}}, '"OneCycle"', code=4),
    says("no sparse attention", {"sparse_attention": {"mode": "fixed"}}, "sparse_attention", code=4),
    says("no json", "{", "no JSON: line 1", code=2),
    says("a list", "[1]", "no JSON object", code=2),
    says("a string for a number", zero(stage="three"), "zero_optimization/stage", "not a number", code=2),
    says("a fraction", {"gradient_accumulation_steps": 1.5}, "whole number", code=2),
    says("a number for a switch", zero(zero_quantized_weights=1), "true or false", code=2),
    says("a list for an object", {"zero_optimization": [1]}, "not known", code=4),
    says("device", zero(stage=3, offload_param={"device": "gpu"}), "none, cpu or nvme", code=2),
    says("betas", {"optimizer": {"type": "Adam", "params": {"betas": [0.9]}}}, "two numbers", code=2),
    says("out of range", zero(stage=7), "--zero-stage", code=2),
    says("control characters", {"\x1b[31m": 1}, "\\x1B", code=4),
    ("no file", lambda: compile_model("none", "--config", suite.dir / "absent.json", code=3) and None),
])
suite.finish()

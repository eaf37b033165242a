"""Exports of a model, and what is found in each file: its operators, its parameters, ONNX Runtime's losses on it."""

import collections
import contextlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper

from goldens import REL_TOL, aliases, relative
from specs import EXPORTS, HALF, HALVES, STEPS, batch_norms, fresh, half_batch

# Of the exporter's metadata of nodes: what an importer may go by. The rest, stack traces above all, is twice as large as the model.
KEPT_METADATA = ("pkg.torch.onnx.fx_node", "pkg.onnxscript.rewriter.rule_name")


def export(spec, inputs, key, path):
    o = EXPORTS[key]
    wrapper = fresh(spec, inputs, o.get("attn", "eager"), o.get("dropout", 0.0), perturb=not o.get("fresh"))
    args = tuple(half_batch(inputs, 0, 0))
    names = list(inputs)
    common = dict(input_names=names, output_names=["loss"], opset_version=o["opset"])
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        if o.get("dynamo", True):
            if o.get("dynamic"):
                # forward(*inputs): one tuple entry per input
                common["dynamic_shapes"] = (tuple(spec.dynamic.get(n, {}) for n in names),)
            torch.onnx.export(
                wrapper,
                args,
                str(path),
                dynamo=True,
                optimize=o.get("optimize", False),
                external_data=o.get("external", False),
                verbose=False,
                **common,
            )
        else:
            if o.get("dynamic"):
                common["dynamic_axes"] = spec.dynamic
            torch.onnx.export(
                wrapper,
                args,
                str(path),
                dynamo=False,
                training=torch.onnx.TrainingMode.TRAINING,
                do_constant_folding=False,
                keep_initializers_as_inputs=False,
                **common,
            )
    if o.get("dynamo", True):
        strip_metadata(path)


def strip_metadata(path):
    """Leaves out of the nodes' metadata what no importer reads; weights stay where they are."""
    model = onnx.load(str(path), load_external_data=False)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key in KEPT_METADATA]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    Path(path).write_bytes(model.SerializeToString())


def all_nodes(model):
    def walk(nodes):
        for n in nodes:
            yield n
            for a in n.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    yield from walk(a.g.node)
                for g in a.graphs:
                    yield from walk(g.node)

    yield from walk(model.graph.node)
    for f in model.functions:
        yield from walk(f.node)


def op_name(node):
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def dims(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def describe(model):
    """Facts about the file, without running it."""
    nodes = list(all_nodes(model))
    ops = collections.Counter(map(op_name, nodes))
    empties = collections.Counter(op_name(n) for n in nodes if any(i == "" for i in n.input))
    outputs = {}
    for n in nodes:
        if len(n.output) > 1:
            outputs[op_name(n)] = max(outputs.get(op_name(n), 0), len(n.output))
    constants = collections.Counter(a.name for n in nodes if n.op_type == "Constant" for a in n.attribute)
    attributes = lambda n: {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
    training = collections.Counter(
        f"training_mode={attributes(n).get('training_mode', 0)}, momentum={attributes(n).get('momentum', 0.9):.3g}"
        for n in nodes
        if n.op_type == "BatchNormalization"
    )
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    symbols = {d for v in values for d in dims(v) if isinstance(d, str)}
    kinds = collections.Counter(
        p.value
        for v in model.graph.value_info
        for p in v.metadata_props
        if p.key == "pkg.torch.export.graph_signature.InputSpec.kind"
    )
    type_name = lambda v: onnx.TensorProto.DataType.Name(v.type.tensor_type.elem_type)
    return {
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}",
        "opset_import": {o.domain: o.version for o in model.opset_import},
        "functions": len(model.functions),
        "nodes": len(nodes),
        "ops": dict(sorted(ops.items())),
        "initializers": len(model.graph.initializer),
        "inputs": {v.name: [type_name(v), *dims(v)] for v in model.graph.input},
        "outputs": {v.name: [type_name(v), *dims(v)] for v in model.graph.output},
        "value_info": len(model.graph.value_info),
        "symbolic_dims": sorted(symbols),
        "constant_attributes": dict(sorted(constants.items())),
        "nodes_with_empty_input": dict(sorted(empties.items())),
        "ops_with_several_outputs": dict(sorted(outputs.items())),
        "batch_normalization": dict(training),
        "initializer_kinds_in_metadata": dict(sorted(kinds.items())),
    }


def match_parameters(model, wrapper):
    """Find every parameter among the initializers, by name first, then by value."""
    init = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    used_by = collections.defaultdict(list)
    alias = collections.defaultdict(list)
    for a, c in aliases(wrapper).items():
        alias[c].append(a)
    owned = {n for n, _ in wrapper.named_parameters(remove_duplicate=False)}
    mapping, untied, lost = {}, [], []
    for name, p in wrapper.named_parameters():
        value = p.detach().numpy()
        same = lambda a, v: a.shape == v.shape and a.dtype == v.dtype and np.array_equal(a, v)
        found = [{"name": n} for n in (name, *alias[name]) if n in init and same(init[n], value)]
        taken = {f["name"] for f in found}
        for n, a in init.items():
            # layers may start with equal values: a name of another parameter, or an equal vector, is
            # evidence only when nothing was found under this parameter's own name
            if n in taken or (taken and n in owned):
                continue
            if same(a, value) and (not found or value.ndim > 1):
                found.append({"name": n})
            elif value.ndim == 2 and same(a, value.T):
                found.append({"name": n, "transposed": True})
        for f in found:
            used_by[f["name"]].append(name)
        if not found:
            lost.append(name)
        if len(found) > 1:
            untied.append(name)
        mapping[name] = found
    learned = {n: p.requires_grad for n, p in wrapper.named_parameters()}
    buffers = {n: b.detach().numpy() for n, b in wrapper.named_buffers()}
    floats = {
        n: list(a.shape)
        for n, a in init.items()
        if a.dtype.kind == "f" and a.ndim >= 1 and n not in used_by and n not in buffers
    }
    renamed = {n: f for n, f in mapping.items() if f and [x["name"] for x in f] != [n]}
    return mapping, {
        "parameters": len(mapping),
        "trainable": sorted(n for n, ps in used_by.items() if any(learned[p] for p in ps)),
        "frozen_parameters": sorted(n for n, l in learned.items() if not l),
        "names_preserved": not renamed and not lost,
        "renamed": renamed,
        "lost_parameters": lost,
        "untied_parameters": untied,
        "merged_parameters": {n: ps for n, ps in used_by.items() if len(ps) > 1},
        "other_float_initializers": floats,
        "buffer_initializers": sorted(n for n in init if n in buffers),
    }


def run_ort(model, batches):
    """Losses of a list of {input: tensor} batches."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    # ORT's basic optimizations delete Dropout even when training_mode is true: run the graph as written
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    feed = lambda batch: {k: v.numpy() for k, v in batch.items() if k in known}
    return [float(session.run(["loss"], feed(b))[0]) for b in batches]


def verify(path, spec, inputs, key):
    """onnx.checker, ONNX Runtime forward, and forward again with every parameter changed."""
    o = EXPORTS[key]
    facts = {}
    try:
        onnx.checker.check_model(str(path), full_check=True)
        facts["checker"] = "ok"
    except Exception as e:
        facts["checker"] = first_line(e)
    model = onnx.load(str(path))
    wrapper = fresh(spec, inputs, o.get("attn", "eager"), o.get("dropout", 0.0), perturb=not o.get("fresh"))
    mapping, names = match_parameters(model, wrapper)
    facts.update(names)
    dropped = set(inputs) - {i.name for i in model.graph.input}
    if dropped:
        facts["inputs_dropped"] = sorted(dropped)
    batches = [dict(zip(inputs, half_batch(inputs, s, h))) for s in range(STEPS) for h in range(HALVES)]
    if o.get("dropout"):
        facts["ort"] = "not compared (random)"
        try:
            facts["ort_loss_two_runs"] = run_ort(model, batches[:1] * 2)
        except Exception as e:
            facts["ort"] = first_line(e)
        facts["golden"], facts["golden_reasons"] = False, ["random dropout"]
        return facts

    def compare(batches):
        with torch.no_grad():
            want = [wrapper(*b.values()).item() for b in batches]
        got = run_ort(model, batches)
        return want, got, max(map(relative, got, want))

    try:
        want, got, facts["ort_rel_err"] = compare(batches)
        facts["torch_loss"], facts["ort_loss"] = want[0], got[0]
        gen = torch.Generator().manual_seed(99)
        tensors = {t.name: t for t in model.graph.initializer}
        with torch.no_grad():
            for n, p in wrapper.named_parameters():
                p.add_(0.02 * torch.randn(p.shape, generator=gen))
                for f in mapping[n]:
                    a = p.numpy().T if f.get("transposed") else p.numpy()
                    tensors[f["name"]].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(a), f["name"]))
        facts["ort_rel_err_perturbed"] = compare(batches)[2]
        if o.get("dynamic"):
            other = {n: t[: HALF + 1, : t.shape[1] - 3] for n, t in inputs.items()}
            facts["ort_rel_err_other_shape"] = compare([other])[2]
        if facts["ort_rel_err"] > REL_TOL and batch_norms(wrapper):
            wrapper = fresh(spec, inputs)
            for m in batch_norms(wrapper).values():
                m.eval()
            model = onnx.load(str(path))
            facts["ort_rel_err_if_torch_batch_norm_in_eval"] = compare(batches)[2]
    except Exception as e:
        facts["ort"] = first_line(e)
    reasons = []
    if "ort" in facts:
        reasons.append("does not run in ONNX Runtime")
    elif facts["ort_rel_err"] > REL_TOL:
        reasons.append("forward differs from PyTorch")
    elif facts["ort_rel_err_perturbed"] > REL_TOL:
        reasons.append("forward differs once the parameters change")
    for field, reason in (
        ("lost_parameters", "parameters folded into constants"),
        ("untied_parameters", "tied parameter stored twice"),
        ("merged_parameters", "equal parameters stored once"),
    ):
        if names[field]:
            reasons.append(reason)
    if o.get("fresh"):
        reasons.append("other starting values")
    facts["golden"], facts["golden_reasons"] = not reasons, reasons
    return facts


def first_line(e):
    text = next((l for l in str(e).splitlines() if l.strip()), "")
    cause = e.__cause__
    if cause is not None:
        text += f" <- {type(cause).__name__}: " + next((l for l in str(cause).splitlines() if l.strip()), "")
    for p in sorted((p + "/" for p in sys.path if p.startswith("/")), key=len, reverse=True):
        text = text.replace(p, "")
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return f"{type(e).__name__}: {text}"[:500]

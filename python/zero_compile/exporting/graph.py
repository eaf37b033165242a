"""An exported graph made the model's own: initializers under the parameters' names, each parameter accounted for, ties as in torch.

What the exporters do to names and parameters is in docs/onnx.md, "What exporters write"."""
from ..errors import UNSUPPORTED, ZeroError, need
from ..rewriting import tables
from . import steps

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"  # zero-compile trains PARAMETER and nothing else
PLAIN = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")  # types that torch and ONNX have
KEPT_OF_NODES = ("pkg.torch.onnx.fx_node", "pkg.onnxscript.rewriter.rule_name")


def tie_groups(model):
    """{first name: [other names]} of the model's parameters, one entry for each tensor."""
    names, groups = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(parameter), name)
        groups.setdefault(first, [])
        if first != name:
            groups[first].append(name)
    return groups


def adopt(proto, model, prefix, with_gradient, looked):
    """Renames and ties the initializers of onnx.ModelProto `proto`, exported from a wrapper that holds `model` under `prefix`;
    returns what the record says of parameters. `with_gradient()`: the names of parameters that torch's backward reaches; `looked`: of tables.watched."""
    graph = proto.graph
    present = {tensor.name for tensor in graph.initializer}
    groups, parameters, renamed, unused = tie_groups(model), dict(model.named_parameters()), {}, []
    own = {prefix + name for name, _ in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))}
    for first, others in groups.items():
        found = [name for name in (prefix + n for n in [first, *others]) if name in present]
        if not found:
            found = rearranged(graph, parameters[first], own)
        if not found:
            unused.append(first)
        for name in found:
            renamed[name] = first
    if unused:
        reached = with_gradient()
        lost = [name for name in unused if name in reached]
        if lost:
            raise ZeroError(UNSUPPORTED, f"the exporter lost {len(lost)} parameters that torch trains: " + ", ".join(map(repr, lost[:8])))
    for name, buffer in model.named_buffers():
        if prefix + name in present:
            renamed[prefix + name] = name
    apply_names(graph, renamed)
    for name in unused:  # no node reads it; it comes home from here
        graph.initializer.append(initializer(parameters[name], name))
    present = {tensor.name for tensor in graph.initializer}
    buffers = {name for name, _ in model.named_buffers()}
    for name, value in model.state_dict().items():  # a count of batches, say: load_state_dict wants what the graph does not
        if name in buffers and name not in present and value.layout == need("torch", "exporting").strided and str(value.dtype).removeprefix("torch.") in PLAIN:
            graph.initializer.append(initializer(value, name))
            present.add(name)
    buffers &= present
    kinds = {name: "PARAMETER" if parameters[name].requires_grad and name not in unused else "FROZEN" for name in groups if name in present}
    describe(proto, {**kinds, **dict.fromkeys(buffers, "BUFFER")})
    return {"frozen": [n for n in groups if not parameters[n].requires_grad], "unused": unused,
            "tied": {other: first for first, others in groups.items() for other in others},
            "constants": constants(graph, present - set(kinds) - (buffers & set(model.state_dict()))),
            "padding_idx": paddings(model, looked, present)}


def assign(proto, states):
    """The outputs behind the loss are what `states`, initializers {name: tensor}, are in the next step: an operator of zero-compile's own says so, which the
    loss goes through."""
    onnx, graph = need("onnx", "exporting"), proto.graph
    if not states:
        return
    loss, *values = [output.name for output in graph.output]
    del graph.output[1:]
    present = {tensor.name for tensor in graph.initializer}
    for name, value in states.items():
        if name not in present:  # written to, and never read
            graph.initializer.append(initializer(value, name))
    make_way(graph, {loss: f"{loss}.of_step"})
    graph.output[0].name = loss
    pairs = [name for pair in zip(states, values) for name in pair]
    graph.node.append(onnx.helper.make_node("Assign", [f"{loss}.of_step", *pairs], [loss], name="Assign", domain="zero"))
    if "zero" not in {opset.domain for opset in proto.opset_import}:
        proto.opset_import.append(onnx.helper.make_opsetid("zero", 1))


def initializer(value, name):
    """A tensor as ONNX's; numpy has no type for bfloat16."""
    onnx, torch = need("onnx", "exporting"), need("torch", "exporting")
    if value.dtype != torch.bfloat16:
        return onnx.numpy_helper.from_array(value.detach().numpy(), name)
    return onnx.helper.make_tensor(name, onnx.TensorProto.BFLOAT16, list(value.shape), value.detach().contiguous().view(torch.int16).numpy().tobytes(), raw=True)


def rearranged(graph, parameter, own):
    """The initializer that holds exactly this parameter's values, or their transpose, under a name the exporter made (none of `own`, the model's); a transposed
    one is given torch's layout again, with a Transpose behind it."""
    numpy, onnx, torch = need("numpy", "exporting"), need("onnx", "exporting"), need("torch", "exporting")
    if parameter.dtype != torch.float32:
        return []
    values = parameter.detach().numpy()
    if values.size < 2 or (values == values.flat[0]).all():
        return []  # equal to any other fresh bias or scale: no evidence
    for tensor in graph.initializer:
        if tensor.name in own or sorted(tensor.dims) != sorted(values.shape) or tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        held = onnx.numpy_helper.to_array(tensor)
        if held.shape == values.shape and numpy.array_equal(held, values):
            return [tensor.name]
        if held.ndim == 2 and numpy.array_equal(held.T, values):
            name = tensor.name
            tensor.CopyFrom(onnx.numpy_helper.from_array(numpy.ascontiguousarray(values), name + ".untransposed"))
            graph.node.insert(0, onnx.helper.make_node("Transpose", [name + ".untransposed"], [name], perm=[1, 0]))
            return [name + ".untransposed"]
    return []


def apply_names(graph, renamed):
    """Renames initializers; of several that become one, the first stays."""
    own, inputs = set(renamed.values()), {i.name for i in graph.input}
    if own & inputs:
        raise ZeroError(UNSUPPORTED, f"an input of the batch has the name of parameter {min(own & inputs)!r}", help="give the input another name")
    taken = {output for node in graph.node for output in node.output} | {t.name for t in graph.initializer if t.name not in renamed}
    make_way(graph, {name: f"{name}.of_graph" for name in own & taken})
    kept, seen = [], set()
    for tensor in graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)
        if tensor.name not in seen:
            seen.add(tensor.name)
            kept.append(tensor)
    if len(kept) < len(graph.initializer):
        copies = [type(tensor).FromString(tensor.SerializeToString()) for tensor in kept]
        del graph.initializer[:]
        graph.initializer.extend(copies)
    rename_uses(graph, renamed)


def train_norms(graph, model):
    """torch.export writes all batch norms as evaluating, and names what they return of their statistics the statistics: those that do not belong to a module in
    eval mode train, with statistics that nobody else takes."""
    onnx = need("onnx", "exporting")
    evaluating = {f"{path}.running_mean" if path else "running_mean" for path, _ in steps.batch_norms(model, training=False)}
    same = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    for node in graph.node:
        if node.op_type != "BatchNormalization" or len(node.output) > 1:
            continue
        mean = node.input[3]
        while mean in same:
            mean = same[mean]
        if mean not in evaluating:
            node.attribute.append(onnx.helper.make_attribute("training_mode", 1))
            node.output.extend(f"{node.output[0]}.{statistic}" for statistic in ("running_mean", "running_var"))


def brain_floats(graph):
    """Where types meet TorchScript's exporter casts to torch's number for bfloat16, which is ONNX's for complex numbers: there are none in a graph."""
    types = need("onnx", "exporting").TensorProto
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == types.COMPLEX128:
                attribute.i = types.BFLOAT16
            if attribute.HasField("g"):
                brain_floats(attribute.g)


def name_inputs(graph, names):
    """Gives inputs {name: the batch's}, which results of nodes may have as well: an input "cat", a node that concatenates."""
    make_way(graph, {name: f"{name}.of_graph" for name in names.values()})
    rename_uses(graph, names)
    for each in [*graph.input, *graph.value_info]:
        each.name = names.get(each.name, each.name)


def make_way(graph, others):
    """Gives values that have a name that is to be another's another."""
    rename_uses(graph, others)
    for node in graph.node:
        node.output[:] = [others.get(name, name) for name in node.output]
    for each in [*graph.initializer, *graph.value_info]:
        each.name = others.get(each.name, each.name)


def rename_uses(graph, renamed):
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name in renamed:
                node.input[at] = renamed[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename_uses(attribute.g, renamed)
    for output in graph.output:
        output.name = renamed.get(output.name, output.name)


def describe(proto, kinds):
    """Says of each initializer what it is, and nothing that grows the file: stack traces, names that are no more."""
    onnx, graph = need("onnx", "exporting"), proto.graph
    proto.ir_version = max(proto.ir_version, 10)  # metadata_props of values
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    produced = {output for node in graph.node for output in node.output}
    kept = [info for info in graph.value_info if info.name in produced or info.name in initializers and info.name not in kinds]
    copies = [type(info).FromString(info.SerializeToString()) for info in kept]
    del graph.value_info[:]
    graph.value_info.extend(copies)
    for name, kind in kinds.items():
        tensor = initializers[name]
        info = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
        info.metadata_props.add(key=KIND, value=kind)
        graph.value_info.append(info)
    del graph.metadata_props[:]
    for node in graph.node:
        entries = [entry for entry in node.metadata_props if entry.key in KEPT_OF_NODES]
        del node.metadata_props[:]
        node.metadata_props.extend(entries)
        node.doc_string = ""


def constants(graph, initializers):
    """Names of tables that are the exporter's, nobody's weights."""
    tables = [node.output[0] for node in graph.node if node.op_type == "Constant" for a in node.attribute if len(a.t.dims) > 0]
    return sorted(initializers.union(tables))


def paddings(model, looked, present):
    """{table: row without a gradient}; None where there is none for all that looks rows up, but a row of zeros might look like it."""
    def looks_like_one(table):
        return table.dim() > 1 and bool((table == 0).flatten(1).all(1).any())

    rows = tables.without_gradient(looked)
    return {name: rows.get(name) for name, p in model.named_parameters() if name in looked and name in present and (name in rows or looks_like_one(p))}

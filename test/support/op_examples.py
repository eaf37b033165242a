#!/usr/bin/env python3
"""Every operation has a summary, a description and an example that parses, verifies and round-trips.

  op_examples.py DIALECT DUMP.json     writes the examples of `llvm-tblgen --dump-json`, each made into a module, to stdout

Fails, naming the op, where something is missing. An example is a module, or a piece of a program: then its free values
become arguments (in the update program: constants) and its symbols parameters of the types that stand in it.
"""
import json
import re
import sys

TYPE = re.compile(r"tensor<[^<>]*>")
BLOCK = re.compile(r"```mlir\n(.*?)```", re.S)


def operations(records, dialect):
    for name in sorted(records["!instanceof"]["Op"]):
        record = records[name]
        if record["opDialect"]["def"] == records_dialect(records, dialect):
            yield record


def records_dialect(records, dialect):
    return next(n for n in records["!instanceof"]["Dialect"] if records[n]["name"] == dialect)


def operand_types(line):
    """Types of an op's operands, in order: those before the arrow, or all that stand after the last colon."""
    signature = re.search(r": \((.*?)\) ->", line)
    return TYPE.findall(signature.group(1) if signature else line[line.rfind(" : "):])


def joined(example):
    """An operation a line: what begins with a colon, an arrow, a brace or a type goes on with the line before."""
    return re.sub(r"\n\s*(?=: |-> |\{|!)", " ", example)


def wrap_graph(example):
    """A piece of a graph.program as a module."""
    if re.match(r"\s*graph\.(parameter|program)", example):
        return example
    phase = "update" if re.search(r"graph\.(update|clip_factor)", example) else "micro"
    defined, free, symbols = set(), {}, {}
    for line in example.strip().splitlines():
        results, _, op = line.rpartition(" = graph.") if re.match(r"\s*%", line) else ("", "", line)
        types = operand_types(line)
        for operand, kind in zip(re.findall(r"%\w+", re.sub(r"\{.*?\}", "", op).split(" : ")[0]), types):
            if operand not in defined:
                free[operand] = kind
        defined.update(re.findall(r"%\w+", results))
        for symbol in re.findall(r"@(\w+)", op):
            symbols[symbol] = (types[-1], "buffer" if "assign" in op else "trainable")
    module = [f"graph.parameter @{s} : {t} role = {role}" for s, (t, role) in symbols.items()]
    arguments = free if phase == "micro" else {}
    names = ", ".join(f'"{a[1:]}"' for a in arguments)
    module.append(f"graph.program @{phase} phase = {phase} inputs = [{names}] {{")
    if arguments:
        module.append("^bb0(" + ", ".join(f"{a}: {t}" for a, t in arguments.items()) + "):")
    else:
        module += [f"  {v} = graph.constant dense<1.0> : {t}" for v, t in free.items()]
    module += [example.strip()] + ([] if "graph.return" in example else ["graph.return"]) + ["}"]
    return "\n".join(module)


def wrap_zero(example):
    """A piece of the zero level as a module: free buffers become allocated ones."""
    mesh = 'zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]'
    if re.match(r"\s*zero\.mesh", example):
        return example
    if re.match(r"\s*zero\.bucket", example):
        return mesh + "\n" + example
    defined, tensors, buffers = set(), {}, {}
    for line in example.strip().splitlines():
        results, _, op = line.rpartition(" = zero.") if re.match(r"\s*%", line) else ("", "", line)
        kinds = re.findall(r"tensor<[^<>]*>|!zero\.buffer<[^<>]*>", line[line.rfind(" : "):])
        operands = re.findall(r"%\w+", re.sub(r"\{.*?\}", "", op).split(" : ")[0])
        if len(kinds) == 1:
            kinds *= len(operands)
        for operand, kind in zip(operands, kinds):
            if operand not in defined:
                (buffers if "buffer" in kind else tensors)[operand] = kind
        defined.update(re.findall(r"%\w+", results))
    names = ", ".join(f'"{t[1:]}"' for t in tensors)
    module = [mesh, "zero.bucket @bucket0 : f32 padded = 256 members = []",
              f"graph.program @micro phase = micro inputs = [{names}] {{"]
    if tensors:
        module.append("^bb0(" + ", ".join(f"{t}: {kind}" for t, kind in tensors.items()) + "):")
    module += [f"  {b} = zero.alloc : {kind}" for b, kind in buffers.items()]
    return "\n".join(module + [example.strip(), "graph.return", "}"])


WRAP = {"graph": wrap_graph, "zero": wrap_zero}


def main():
    dialect, path = sys.argv[1:]
    with open(path) as f:
        records = json.load(f)
    modules, missing = [], []
    for op in operations(records, dialect):
        name = f'{dialect}.{op["opName"]}'
        examples = BLOCK.findall(op["description"])
        for what, there in [("summary", op["summary"].strip()), ("description", op["description"].strip()), ("example", examples)]:
            if not there:
                missing.append(f"{name} has no {what}")
        for example in (joined(example) for example in examples):
            if name not in example:
                missing.append(f"the example of {name} does not show it")
            modules.append(f"// {name}\n{WRAP.get(dialect, str)(example)}")
    if missing or not modules:
        sys.exit("\n".join(missing) or f"no operations in dialect {dialect}")
    print("\n\n// -----\n".join(modules))


if __name__ == "__main__":
    main()

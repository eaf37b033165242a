#!/usr/bin/env python3
"""Every pass of a Passes.td has a summary and says what IR it takes and gives.

  pass_docs.py DUMP.json       output of `llvm-tblgen --dump-json`; prints the passes, fails naming what is missing
"""
import json
import re
import sys


def main():
    with open(sys.argv[1]) as f:
        records = json.load(f)
    missing = []
    for name in records["!instanceof"]["PassBase"]:
        record = records[name]
        argument = record["argument"]
        print(argument)
        if not record["summary"].strip():
            missing.append(f"{argument} has no summary")
        for part in ("in", "out"):
            if not re.search(rf"\b{part}\b[^:.]*:", record["description"], re.I):
                missing.append(f'{argument} does not say what IR goes {part} ("In: ... Out: ...")')
        for option in record["options"]:
            if not records[option["def"]]["description"].strip():
                missing.append(f"{argument}: option {records[option['def']]['argument']} has no description")
    sys.exit("\n".join(missing) or None)


if __name__ == "__main__":
    main()

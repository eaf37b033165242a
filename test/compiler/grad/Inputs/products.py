"""N products with a number each, which something reads before the border and a chain of tanh behind it adds up: what a program computes again
brings numbers with it. products.py N LINKS"""
import sys

count, links = map(int, sys.argv[1:])
T = "tensor<64x64xf32>"
some = range(count)
print(f"graph.parameter @w : {T} role = trainable")
print("graph.program @micro phase = micro inputs = [" + ", ".join(f'"x{i}"' for i in some) + "] {")
print("^bb0(" + ", ".join(f"%x{i}: {T}" for i in some) + "):")
print(f"  %w = graph.read @w : {T}")
for i in some:
    print(f"  %k{i} = graph.constant dense<{i}.5> : tensor<f32>")
    print(f"  %a{i} = graph.mul %x{i}, %k{i} : ({T}, tensor<f32>) -> {T}")
    print(f"  %m{i} = graph.matmul %a{i}, %w : ({T}, {T}) -> {T}")
print("  graph.backward")
print(f"  %s1 = graph.add %a0, %a1 : ({T}, {T}) -> {T}")
for i in range(2, count):
    print(f"  %s{i} = graph.add %s{i - 1}, %a{i} : ({T}, {T}) -> {T}")
print(f"  %t0 = graph.tanh %s{count - 1} : ({T}) -> {T}")
for i in range(1, links):
    print(f"  %t{i} = graph.tanh %t{i - 1} : ({T}) -> {T}")
print(f"  graph.accumulate_grad @w, %t{links - 1} : {T}")
for i in some:
    print(f"  %z{i} = graph.matmul %x{i}, %w : ({T}, {T}) -> {T}")
    print(f"  graph.accumulate_grad @w, %z{i} : {T}")
print("  graph.return\n}")

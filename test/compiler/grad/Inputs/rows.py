"""Rows that ranks share from a sum on, to which a chain of LINKS operations is added. rows.py LINKS"""
import sys

links = int(sys.argv[1])
X, UP, H, DOWN = "tensor<16x8xf32>", "tensor<8x32xf32>", "tensor<16x32xf32>", "tensor<32x8xf32>"
for name, of in ("up", UP), ("down", DOWN), ("up2", UP), ("down2", DOWN):
    print(f"graph.parameter @{name} : {of} role = trainable")
print('graph.program @micro phase = micro inputs = ["x"] {\n' + f"^bb0(%t0: {X}):")
for name, of in ("up", UP), ("down", DOWN), ("up2", UP), ("down2", DOWN):
    print(f"  %{name} = graph.read @{name} : {of}")
print(f"  %h = graph.matmul %t0, %up : ({X}, {UP}) -> {H}\n  %y = graph.matmul %h, %down : ({H}, {DOWN}) -> {X}")
for i in range(links):
    print(f"  %t{i + 1} = graph.tanh %t{i} : ({X}) -> {X}")
print(f"  %r = graph.add %t{links}, %y : ({X}, {X}) -> {X}")
print(f"  %g = graph.matmul %r, %up2 : ({X}, {UP}) -> {H}\n  %z = graph.matmul %g, %down2 : ({H}, {DOWN}) -> {X}")
print(f"  %l = graph.reduce_sum %z {{axes = array<i64: 0, 1>}} : ({X}) -> tensor<f32>\n  graph.return %l : tensor<f32>\n}}")

"""Recurrent layers with a dropout between them, layer by layer: exporters refuse the dropout, or lose it; and those with a projection, step by step, which
no operator has."""


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    def in_layers(function, states):
        """`states`: how many tensors of state there are, each [layers * directions, batch, width]."""
        def of(input, hx, weights, bias, layers, dropout, training, bidirectional, batch_first):
            projects = states == 2 and int(hx[0].shape[-1]) != int(hx[1].shape[-1])
            if not (dropout > 0 and training and layers > 1 or projects):
                return NotImplemented
            hx, directions = [hx] if states == 1 else list(hx), 2 if bidirectional else 1
            each, last = len(weights) // layers, []
            for layer in range(layers):
                own, parts = [state[layer * directions:(layer + 1) * directions] for state in hx], weights[layer * each:(layer + 1) * each]
                if projects:
                    input, *after = projected(input, own, parts, bias, batch_first)
                else:
                    input, *after = function(input, own[0] if states == 1 else own, parts, bias, 1, 0.0, training, bidirectional, batch_first)
                last.append(after)
                input = torch.nn.functional.dropout(input, dropout) if dropout > 0 and training and layer + 1 < layers else input
            return (input, *(torch.cat(of_layers) for of_layers in zip(*last)))

        # The layers of packed sequences come by the same name with other arguments.
        return lambda *arguments: of(*arguments) if len(arguments) == 9 and isinstance(arguments[3], bool) else NotImplemented

    def projected(input, states, weights, bias, batch_first):
        """A layer whose state is a product of what a cell gives (Sak 2014): (outputs, last states, last cells)."""
        time, each, results = 1 if batch_first and input.dim() == 3 else 0, len(weights) // int(states[0].shape[0]), []
        for direction in range(int(states[0].shape[0])):
            input_weight, state_weight, *biases, projection = weights[direction * each:(direction + 1) * each]
            h, c = (state[direction] for state in states)
            gates_of_input, outputs = torch.nn.functional.linear(input, input_weight, sum(biases) if bias else None), []
            steps = range(int(input.shape[time]))
            for step in reversed(steps) if direction else steps:
                i, f, g, o = (gates_of_input.select(time, step) + torch.nn.functional.linear(h, state_weight)).chunk(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = torch.nn.functional.linear(o.sigmoid() * c.tanh(), projection)
                outputs.append(h)
            results.append((torch.stack(outputs[::-1] if direction else outputs, time), h, c))
        outputs, last, cells = zip(*results)
        return torch.cat(outputs, -1), torch.stack(last), torch.stack(cells)

    return {torch.lstm: in_layers(torch.lstm, 2), torch.gru: in_layers(torch.gru, 1), torch.rnn_tanh: in_layers(torch.rnn_tanh, 1),
            torch.rnn_relu: in_layers(torch.rnn_relu, 1)}

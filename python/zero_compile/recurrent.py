"""Recurrent layers with a dropout between them, layer by layer: exporters refuse the dropout, or lose it."""


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    def in_layers(function, states):
        """`states`: how many tensors of state there are, each [layers * directions, batch, width]."""
        def of(input, hx, weights, bias, layers, dropout, training, bidirectional, batch_first):
            if not (dropout > 0 and training and layers > 1):
                return NotImplemented
            hx, directions = [hx] if states == 1 else list(hx), 2 if bidirectional else 1
            each, last = len(weights) // layers, []
            for layer in range(layers):
                own = [state[layer * directions:(layer + 1) * directions] for state in hx]
                input, *after = function(input, own[0] if states == 1 else own, weights[layer * each:(layer + 1) * each], bias, 1, 0.0, training,
                                         bidirectional, batch_first)
                last.append(after)
                input = torch.nn.functional.dropout(input, dropout) if layer + 1 < layers else input
            return (input, *(torch.cat(of_layers) for of_layers in zip(*last)))

        # The layers of packed sequences come by the same name with other arguments.
        return lambda *arguments: of(*arguments) if len(arguments) == 9 and isinstance(arguments[3], bool) else NotImplemented

    return {torch.lstm: in_layers(torch.lstm, 2), torch.gru: in_layers(torch.gru, 1), torch.rnn_tanh: in_layers(torch.rnn_tanh, 1),
            torch.rnn_relu: in_layers(torch.rnn_relu, 1)}

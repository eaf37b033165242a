"""Recurrent layers with a dropout between them, layer by layer: exporters refuse the dropout, or lose it; and step by step those with a projection, which
no operator has, and all where a loss takes gradients, whose derivative no operator's has."""


def stand_ins(torch, in_steps=False):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments. `in_steps`: none is left to the exporters."""
    linear = torch.nn.functional.linear

    def in_layers(function, cell, states):
        """`states`: how many tensors of state there are, each [layers * directions, batch, width]."""
        def of(input, hx, weights, bias, layers, dropout, training, bidirectional, batch_first):
            projects = states == 2 and int(hx[0].shape[-1]) != int(hx[1].shape[-1])
            drops = dropout > 0 and training and layers > 1
            if not (drops or projects or in_steps):
                return NotImplemented
            hx, directions = [hx] if states == 1 else list(hx), 2 if bidirectional else 1
            each, last = len(weights) // layers, []
            for layer in range(layers):
                own, parts = [state[layer * directions:(layer + 1) * directions] for state in hx], weights[layer * each:(layer + 1) * each]
                if projects or in_steps:
                    input, *after = stepped(cell, input, own, parts, bias, batch_first)
                else:
                    input, *after = function(input, own[0] if states == 1 else own, parts, bias, 1, 0.0, training, bidirectional, batch_first)
                last.append(after)
                input = torch.nn.functional.dropout(input, dropout) if drops and layer + 1 < layers else input
            return (input, *(torch.cat(of_layers) for of_layers in zip(*last)))

        # The layers of packed sequences come by the same name with other arguments.
        return lambda *arguments: of(*arguments) if len(arguments) == 9 and isinstance(arguments[3], bool) else NotImplemented

    def stepped(cell, input, states, weights, bias, batch_first):
        """A layer of both directions, whose state may be a product of what a cell gives (Sak 2014): (outputs, the last of each state)."""
        time, each, results = 1 if batch_first and input.dim() == 3 else 0, len(weights) // int(states[0].shape[0]), []
        for direction in range(int(states[0].shape[0])):
            input_weight, state_weight, *others = weights[direction * each:(direction + 1) * each]
            input_bias, state_bias = others[:2] if bias else (None, None)
            projection, state = others[2 if bias else 0:], [state[direction] for state in states]
            of_input, outputs = linear(input, input_weight, input_bias), []
            steps = range(int(input.shape[time]))
            for step in reversed(steps) if direction else steps:
                h, *rest = cell(of_input.select(time, step), linear(state[0], state_weight, state_bias), *state)
                state = [linear(h, *projection) if projection else h, *rest]
                outputs.append(state[0])
            results.append((torch.stack(outputs[::-1] if direction else outputs, time), *state))
        outputs, *last = zip(*results)
        return torch.cat(outputs, -1), *map(torch.stack, last)

    def lstm(of_input, of_state, h, c):
        i, f, g, o = (of_input + of_state).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def gru(of_input, of_state, h):
        reset, update, new = of_input.chunk(3, -1)
        state_reset, state_update, state_new = of_state.chunk(3, -1)
        new = (new + (reset + state_reset).sigmoid() * state_new).tanh()
        return (new + (update + state_update).sigmoid() * (h - new),)

    def elman(activation):
        return lambda of_input, of_state, h: (activation(of_input + of_state),)

    def alone(cell):
        """Of torch's function of one step."""
        def of(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
            state = [hx] if isinstance(hx, torch.Tensor) else list(hx)
            after = cell(linear(input, w_ih, b_ih), linear(state[0], w_hh, b_hh), *state)
            return after if len(after) > 1 else after[0]
        return of

    layers = {torch.lstm: in_layers(torch.lstm, lstm, 2), torch.gru: in_layers(torch.gru, gru, 1),
              torch.rnn_tanh: in_layers(torch.rnn_tanh, elman(torch.tanh), 1), torch.rnn_relu: in_layers(torch.rnn_relu, elman(torch.relu), 1)}
    cells = {torch.lstm_cell: alone(lstm), torch.gru_cell: alone(gru), torch.rnn_tanh_cell: alone(elman(torch.tanh)), torch.rnn_relu_cell: alone(elman(torch.relu))}
    return {**layers, **cells} if in_steps else layers

"""Determinants, inverses and decompositions of small matrices, unrolled into steps that exporters have. Gradients are those of the steps."""
import collections

LARGEST = 64  # rows: a step each, of about a dozen operations

SignAndLogarithm = collections.namedtuple("SignAndLogarithm", "sign logabsdet")
Unchecked = collections.namedtuple("Unchecked", "result info")


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    linalg, tensor = torch.linalg, torch.Tensor

    def small(x):
        return int(x.shape[-1]) <= LARGEST

    def turned(x):
        return x.transpose(-2, -1)

    def eliminated(whole, count):
        """Gauss and Jordan, by the largest pivot: (whole, whose first `count` columns are the unit matrix; pivots, sign of the exchanges)."""
        pivots, sign = [], torch.ones_like(whole[..., 0, 0])
        for step in range(count):
            rest = whole[..., step:, :]
            largest = rest[..., step].detach().abs().argmax(-1, keepdim=True)
            here = (torch.arange(count - step) == largest).unsqueeze(-1)
            row = torch.where(here, rest, torch.zeros_like(rest)).sum(-2, keepdim=True)
            exchanged = torch.where(here, rest[..., :1, :], rest)
            sign = sign * torch.where(largest[..., 0] == 0, torch.ones_like(sign), -torch.ones_like(sign))
            pivots.append(row[..., 0, step])
            row = row / row[..., step:step + 1]
            clear = lambda rows: rows - rows[..., step:step + 1] * row
            whole = torch.cat([clear(whole[..., :step, :]), row, clear(exchanged[..., 1:, :])], -2)
        return whole, torch.stack(pivots, -1), sign

    def slogdet(A):
        if not small(A):
            return NotImplemented
        _, pivots, sign = eliminated(A, int(A.shape[-1]))
        return SignAndLogarithm(sign * pivots.detach().sign().prod(-1), pivots.abs().log().sum(-1))

    def det(A):
        if not small(A):
            return NotImplemented
        _, pivots, sign = eliminated(A, int(A.shape[-1]))
        return sign * pivots.prod(-1)

    def logdet(A):
        result = slogdet(A)
        return result if result is NotImplemented else torch.where(result.sign > 0, result.logabsdet, float("nan"))

    def solve(A, B, *, left=True):
        if not small(A):
            return NotImplemented
        vector = B.dim() == 1 or B.dim() == A.dim() - 1
        if not left:
            return solve(turned(A), B) if vector else turned(solve(turned(A), turned(B)))
        B = B.unsqueeze(-1) if vector else B
        batch = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        n, whole = int(A.shape[-1]), torch.cat([A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])], -1)
        X = eliminated(whole, n)[0][..., n:]
        return X.squeeze(-1) if vector else X

    def inv(A):
        return solve(A, torch.eye(int(A.shape[-1]), dtype=A.dtype).expand(A.shape)) if small(A) else NotImplemented

    def cholesky(A, upper=False):
        if not small(A):
            return NotImplemented
        n, A, columns = int(A.shape[-1]), (A + turned(A)) / 2, []
        for step in range(n):
            column = A[..., step:, step]
            for before in columns:
                column = column - before[..., step:] * before[..., step:step + 1]
            column = column / column[..., :1].sqrt()
            columns.append(torch.cat([torch.zeros_like(A[..., :step, 0]), column], -1))
        return torch.stack(columns, -2 if upper else -1)

    def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
        if not small(A):
            return NotImplemented
        if not left:
            return turned(solve_triangular(turned(A), turned(B), upper=not upper, unitriangular=unitriangular))
        rows, n = {}, int(A.shape[-1])
        for i in reversed(range(n)) if upper else range(n):
            row = B[..., i, :]
            for j, known in rows.items():
                row = row - A[..., i, j].unsqueeze(-1) * known
            rows[i] = row if unitriangular else row / A[..., i, i].unsqueeze(-1)
        return torch.stack([rows[i] for i in range(n)], -2)

    def cholesky_solve(B, L, upper=False):
        L = turned(L) if upper else L
        return solve_triangular(turned(L), solve_triangular(L, B, upper=False), upper=True) if small(L) else NotImplemented

    def cholesky_inverse(L, upper=False):
        return cholesky_solve(torch.eye(int(L.shape[-1]), dtype=L.dtype).expand(L.shape), L, upper) if small(L) else NotImplemented

    def householder_product(A, tau):
        if not small(A):
            return NotImplemented
        m, n = int(A.shape[-2]), int(A.shape[-1])
        Q = torch.eye(m, dtype=A.dtype).expand(*A.shape[:-2], m, m)
        for i in range(int(tau.shape[-1])):
            v = torch.cat([torch.zeros_like(A[..., :i, i]), torch.ones_like(A[..., :1, i]), A[..., i + 1:, i]], -1).unsqueeze(-1)
            Q = Q - tau[..., i, None, None] * (Q @ v) @ turned(v)
        return Q[..., :n]

    def matrix_exp(A):
        """Taylor's series of a 64th, squared six times (Moler and Van Loan 2003, method 3), of what is beside the identity, which a sum with it would round."""
        if not small(A):
            return NotImplemented
        part = A / 64
        beside = term = part
        for order in range(2, 13):
            term = term @ part / order
            beside = beside + term
        for _ in range(6):
            beside = 2 * beside + beside @ beside
        return beside + torch.eye(int(A.shape[-1]), dtype=A.dtype)

    def unchecked(function):
        """What torch.distributions and others call, with a number for what went wrong: here nothing."""
        def of(A, *args, check_errors=False, **kwargs):
            result = function(A, *args, **kwargs)
            return result if result is NotImplemented else Unchecked(result, torch.zeros(A.shape[:-2], dtype=torch.int32))
        return of

    return {
        linalg.solve_ex: unchecked(solve), linalg.inv_ex: unchecked(inv), linalg.cholesky_ex: unchecked(cholesky),
        linalg.det: det, torch.det: det, tensor.det: det, linalg.slogdet: slogdet, torch.slogdet: slogdet, tensor.slogdet: slogdet,
        torch.logdet: logdet, tensor.logdet: logdet, linalg.inv: inv, torch.inverse: inv, tensor.inverse: inv, linalg.solve: solve,
        linalg.cholesky: cholesky, torch.cholesky: cholesky, tensor.cholesky: cholesky, linalg.solve_triangular: solve_triangular,
        torch.cholesky_solve: cholesky_solve, tensor.cholesky_solve: cholesky_solve, torch.cholesky_inverse: cholesky_inverse,
        linalg.householder_product: householder_product, torch.orgqr: householder_product, linalg.matrix_exp: matrix_exp,
        torch.matrix_exp: matrix_exp, tensor.matrix_exp: matrix_exp,
    }

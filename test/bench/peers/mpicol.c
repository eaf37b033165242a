/* Open MPI collectives: best of 8 after one warm-up, slowest rank counts; one JSON line each.  mpicc -O3 mpicol.c -o
   mpicol mpirun --allow-run-as-root --oversubscribe -np W [--mca btl_vader_single_copy_mechanism cma|emulated|none]
   ./mpicol TAG */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int r, W;
static float *a, *b;
static size_t n;
static void allreduce(void) { MPI_Allreduce(MPI_IN_PLACE, a, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void allgather(void) { MPI_Allgather(b, n / W, MPI_FLOAT, a, n / W, MPI_FLOAT, MPI_COMM_WORLD); }
static void redscat(void) { MPI_Reduce_scatter_block(a, b, n / W, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void alltoall(void) { MPI_Alltoall(a, n / W, MPI_FLOAT, b, n / W, MPI_FLOAT, MPI_COMM_WORLD); }
int main(int c, char **v) {
  MPI_Init(&c, &v);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  MPI_Comm_size(MPI_COMM_WORLD, &W);
  struct {
    const char *n;
    void (*f)(void);
    double f_;
  } op[] = {{"allreduce", allreduce, 2},
            {"allgather", allgather, 1},
            {"reduce_scatter", redscat, 1},
            {"alltoall", alltoall, 1}};
  for (int mb = 1; mb <= 128; mb = mb == 1 ? 16 : mb * 8) {
    n = (size_t)mb * (1 << 20) / 4 / W * W;
    a = malloc(n * 4);
    b = malloc(n * 4);
    memset(a, 0, n * 4);
    memset(b, 0, n * 4);
    for (int o = 0; o < 4; o++) {
      double best = 1e9;
      for (int k = 0; k < 9; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime(), m;
        op[o].f();
        t = MPI_Wtime() - t;
        MPI_Allreduce(&t, &m, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (k && m < best)
          best = m;
      }
      if (!r) {
        double la;
        getloadavg(&la, 1);
        printf("{\"bench\": \"collective\", \"peer\": \"openmpi-%s\", \"op\": \"%s\", \"W\": %d, \"MB\": %d, \"ms\": "
               "%.3f, \"bus_GB_s\": %.2f, \"load\": %.2f}\n",
               c > 1 ? v[1] : "", op[o].n, W, mb, best * 1e3, op[o].f_ * (W - 1) / W * n * 4 / best / 1e9, la);
        fflush(stdout);
      }
    }
    free(a);
    free(b);
  }
  MPI_Finalize();
}

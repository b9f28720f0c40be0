/* bench.h - the half of `kiln bench` that needs the model, as libkiln_bench.so.
 *
 * The program kiln-bench opens that library only for these benches, so that its others start
 * without LibTorch.  kiln_bench_model is all that the library exports.
 */
#ifndef KILN_WORKER_BENCH_H
#define KILN_WORKER_BENCH_H

/* Runs the bench that argv[0] names, "engine", "quality", "coarse", "teleport", "judge" or
 * "captions", with the options after it.  Returns an exit status. */
int kiln_bench_model(int argc, char **argv);

/* Its benches. */
int kiln_bench_captions(int argc, char **argv);
int kiln_bench_coarse(int argc, char **argv);
int kiln_bench_engine(int argc, char **argv);
int kiln_bench_judge(int argc, char **argv);
int kiln_bench_quality(int argc, char **argv);
int kiln_bench_teleport(int argc, char **argv);

#endif

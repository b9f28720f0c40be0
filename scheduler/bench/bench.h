/* bench.h - what the benches share: a private stack in a temporary directory, and its batches. */
#ifndef KILN_BENCH_H
#define KILN_BENCH_H

#include <stdio.h>

#include "scheduler/bench/cpu.h"
#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/stack/stack.h"
#include "storage/ledger/read/read.h"

#define KILN_BENCH_WORKERS_MAX 128          /* Postgres takes 200 connections */
#define KILN_BENCH_POLICY_WORKERS_MAX 10000 /* these have none */

struct kiln_bench {
    struct kiln_cli *cli; /* the user's: messages, --json */
    struct kiln_cli own;  /* with the settings of the private stack */
    struct kiln_stack stack;
    char dir[PATH_MAX], file[PATH_MAX];
    long lines;                          /* --lines; 0: not given */
    long jobs;                           /* --jobs; 0: not given */
    long workers;                        /* --workers */
    long step_ms;                        /* --step-ms */
    const char *devices, *sizes, *loras; /* lists of the fleet's bench */
    const char *embedder;                /* --embedder; NULL: not given */
    bool apart;                          /* --apart */
    long repeats, rewordings;            /* of teleport-stream, in percent, */
    struct kiln_mode mode;               /* and the mode of its jobs, coarse first or exact */
    const char *set, *fit, *wrong; /* of routing: --set-dir, --fit, --wrong; NULL: not given */
};

/* Which jobs a bench sends. */
enum kiln_bench_load {
    KILN_BENCH_INTAKE,   /* 256 px */
    KILN_BENCH_AUTO,     /* likewise, and loras "auto" chooses; kiln_bench_loras */
    KILN_BENCH_LATENTS,  /* 64 px, a latent file and no picture */
    KILN_BENCH_PICTURES, /* 64 px, both */
    KILN_BENCH_MIXED,    /* full sizes in eight groups, for workers that render nothing */
    KILN_BENCH_SLOW,     /* 64 px, one second a step, long enough to interrupt */
};

/* Whether its jobs are rendered; else a run ends when they are in the ledger. */
bool kiln_bench_renders(enum kiln_bench_load load);

/* One measurement: the clock from the first line to the last job, and what it cost. */
struct kiln_bench_run {
    const char *batch;
    enum kiln_bench_load load;
    long jobs;
    double seconds;
    struct kiln_bench_cpu cpu;
    double idle; /* share, of the worker's device while the queue was full; negative: unknown */
};

/* Creates bench->file, the job lines of the next batch; NULL if that fails.  Closing it reports
 * every error, that one too. */
FILE *kiln_bench_file(struct kiln_bench *bench);
int kiln_bench_file_close(const struct kiln_bench *bench, FILE *file,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* Writes lines of that load into bench->file. */
int kiln_bench_lines(struct kiln_bench *bench, enum kiln_bench_load load, long lines,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Sends bench->file as one batch; the seconds it took on the clock and on the processor, each NULL
 * if nobody needs it. */
int kiln_bench_send(struct kiln_bench *bench, const char *batch, long lines, double *ret_s,
                    double *ret_cpu_s, struct kiln_error *err) KILN_MUST_CHECK;
/* Called now and then while a bench waits, with the batch's progress in the ledger. */
typedef void kiln_bench_look(void *arg, const struct kiln_progress *progress);
/* Waits until the batch has `count` jobs in the ledger, or `count` done ones.  A failed job ends
 * the wait.  look may be NULL. */
int kiln_bench_wait(struct kiln_bench *bench, const char *batch, uint64_t count, bool done,
                    kiln_bench_look *look, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Registers the LoRAs of KILN_BENCH_AUTO, which have no files. */
int kiln_bench_loras(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
/* Sends bench->file and waits until the run's jobs are in the ledger or done, by its load;
 * fills run->seconds and run->cpu. */
int kiln_bench_measure(struct kiln_bench *bench, struct kiln_bench_run *run, kiln_bench_look *look,
                       void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Cancels the queued jobs of a batch. */
int kiln_bench_forget(struct kiln_bench *bench, const char *batch,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* A setting of the private stack, before it is started. */
int kiln_bench_set(struct kiln_bench *bench, const char *name, const char *value,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_print_rate(const struct kiln_bench *bench, const char *name, long count,
                           double seconds, const char *how);

/* --- the verbs of kiln-bench ------------------------------------------------------------------ */
kiln_verb_function kiln_bench_verb, kiln_bench_sim;
/* `kiln bench engine`, `quality`, `coarse`, `teleport` and `captions`, named by argv[0]. */
int kiln_bench_with_model(struct kiln_cli *cli, int argc, char **argv);

/* --- the benches ----------------------------------------------------------------------------- */
int kiln_bench_queue(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_scale(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_restart(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_embed(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_reuse(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_teleport_stream(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_policy(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_devices(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_recovery(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_routing(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_gallery(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_bench_gallery_load(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;

/* --- gallery/searches.c ----------------------------------------------------------------------- */
/* Other benches bring their own servers; those of a gallery go to those of the user. */
int kiln_bench_use_settings(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;
/* Brings the gallery's index of words up to date. */
int kiln_bench_index_words(struct kiln_bench *bench, struct kiln_error *err) KILN_MUST_CHECK;

#endif

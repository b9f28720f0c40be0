/* routing.h - the labelled prompts of `kiln bench routing`, and how well a router answers them. */
#ifndef KILN_BENCH_ROUTING_H
#define KILN_BENCH_ROUTING_H

#include "scheduler/cli/core/cli.h"
#include "scheduler/embedding/desk.h"
#include "scheduler/router/index.h"

#define KILN_ROUTING_LIST 6 /* LoRAs in a list of a prompt */

/* What a prompt tests: the `kind` of its line. */
enum kiln_routing_kind {
    KILN_ROUTING_TRIGGER, /* an exact trigger */
    KILN_ROUTING_MEANING, /* a common name of the look */
    KILN_ROUTING_PARA,    /* a description that names it nowhere */
    KILN_ROUTING_TEAM,    /* two or three wanted */
    KILN_ROUTING_PLAIN,   /* none */
    KILN_ROUTING_HARD,    /* none: quoted, denied, things with a look's name */
    KILN_ROUTING_SCRIPT,  /* Chinese, and misspelt */
    KILN_ROUTING_KINDS
};
extern const char *const kiln_routing_kinds[KILN_ROUTING_KINDS];

/* How a prompt writes the names of LoRAs that it does not want: `writes` of its line. */
enum kiln_routing_writes {
    KILN_ROUTING_QUOTED, /* a sign that says "pixel art" */
    KILN_ROUTING_DENIED, /* no pixel art */
    KILN_ROUTING_WRITES
};
extern const char *const kiln_routing_writes[KILN_ROUTING_WRITES];

struct kiln_routing_list {
    uint32_t at[KILN_ROUTING_LIST];
    uint32_t count;
};

struct kiln_routing_case {
    char *prompt;
    enum kiln_routing_kind kind;
    enum kiln_routing_writes writes;  /* KILN_ROUTING_WRITES: neither */
    struct kiln_routing_list must[3]; /* of each list one; must_count of them */
    uint32_t must_count;
    struct kiln_routing_list may;
};

struct kiln_routing_set {
    struct kiln_routing_case *at;
    size_t count;
};

/* set.c: reads JSON lines {"kind", "prompt", "must": ["a", "b|c"], "may": [], "never": [],
 * "writes"}. */
int kiln_routing_read(const char *path, const struct kiln_router *router,
                      struct kiln_routing_set *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_routing_release(struct kiln_routing_set *set);
bool kiln_routing_in(const struct kiln_routing_list *list, uint32_t lora);
/* Whether the LoRA is wanted: one of `must`. */
bool kiln_routing_wanted(const struct kiln_routing_case *c, uint32_t lora);

/* What is measured: a router, with its embedder or without (NULL). */
struct kiln_routing_under_test {
    const struct kiln_router *router;
    const struct kiln_embedding_model *embedder;
    struct kiln_desk *desk; /* of the embedder */
    struct kiln_router_pool pool;
};
/* embedded.c: a reader of it, and the request of a prompt with its vectors, which the reader's next
 * one ends. */
struct kiln_routing_reader {
    const struct kiln_routing_under_test *of;
    struct kiln_router_reader *reader;
    int8_t *rows;
    const int8_t *vectors[KILN_MEANING_SEGMENTS];
};
int kiln_routing_reader_open(const struct kiln_routing_under_test *of,
                             struct kiln_routing_reader *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;
void kiln_routing_reader_release(struct kiln_routing_reader *reader);
int kiln_routing_request(struct kiln_routing_reader *reader, const char *prompt,
                         struct kiln_router_request *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* An embedder for a measurement: a directory, or "builtin": the text encoder of the model. */
int kiln_routing_embedder(const char *name, const char *model, struct kiln_embedding_model **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* Which parts of the words' evidence count. */
enum { KILN_PART_T = 1, KILN_PART_K = 2, KILN_PART_B = 4, KILN_PART_N = 8, KILN_PART_ALL = 15 };
/* fit.c: logistic regression over the candidates of the set's prompts. */
int kiln_routing_fit(const struct kiln_routing_under_test *of, const struct kiln_routing_set *set,
                     unsigned parts, struct kiln_router_weights *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The embedder's weights, over the prompts for which these words choose nothing. */
int kiln_routing_fit_meaning(const struct kiln_routing_under_test *of,
                             const struct kiln_routing_set *set,
                             const struct kiln_router_weights *words,
                             struct kiln_meaning_weights *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* What came of one prompt. */
struct kiln_routing_outcome {
    bool top_right;                /* the first pick is in must or may */
    uint32_t found, missed, extra; /* lists of must; picks in neither */
    bool active;                   /* something was picked that is not in may */
    int best_p;                    /* of the most probable candidate, thousandths; -1: none */
    bool best_right;               /* it is in must or may */
    uint64_t set;                  /* hash of names and scales, 0 for none */
};

struct kiln_routing_share {
    double value, low, high; /* bootstrap, 95 % */
    size_t count;
};

#define KILN_ROUTING_THRESHOLDS 4
extern const int kiln_routing_thresholds[KILN_ROUTING_THRESHOLDS]; /* of p, thousandths */

struct kiln_routing_result {
    struct kiln_routing_share top[KILN_ROUTING_KINDS], f1[KILN_ROUTING_KINDS],
        none[KILN_ROUTING_KINDS]; /* false activation, of prompts that want none */
    struct kiln_routing_share top_all, f1_all;
    struct kiln_routing_share unwanted[KILN_ROUTING_WRITES]; /* false activation of these */
    /* At each threshold of kiln_routing_thresholds: prompts whose most probable LoRA reaches it,
     * and of those the ones for which that LoRA is wrong. */
    struct kiln_routing_share routed[KILN_ROUTING_THRESHOLDS], wrong[KILN_ROUTING_THRESHOLDS];
    double risk[3], aurc, ece; /* risk at 50, 70 and 90 % coverage */
};

/* measure.c */
int kiln_routing_measure(const struct kiln_routing_under_test *of,
                         const struct kiln_routing_set *set,
                         const struct kiln_router_weights *weights, struct kiln_routing_result *ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* Distinct LoRA sets, scales included, among `jobs` prompts drawn from the sets with replacement;
 * none is one, too.  *ret_labels: of the teams that the labels ask for. */
int kiln_routing_sets(const struct kiln_routing_under_test *of, const struct kiln_routing_set *sets,
                      size_t set_count, size_t jobs, size_t *ret, size_t *ret_labels,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Prints every prompt that went wrong. */
int kiln_routing_print_wrong(const struct kiln_routing_under_test *of,
                             const struct kiln_routing_set *set,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* print.c: the tables, or with --json a line a row. */
struct kiln_routing_row {
    const char *part, *evidence;
    struct kiln_routing_result result;
};
void kiln_routing_print(const struct kiln_cli *cli, const struct kiln_routing_row *rows,
                        size_t count);

/* more.c: the share of routes that change when one LoRA joins the others, over all LoRAs; and
 * microseconds a prompt of about 35 words, its vectors ready, among `count` LoRAs.  The router of
 * *of does not count, only its embedder, weights and pool. */
int kiln_routing_one_more(const char *path, const struct kiln_lexicon *lexicon,
                          const struct kiln_routing_under_test *of,
                          const struct kiln_routing_set *set, double *ret_share,
                          struct kiln_error *err) KILN_MUST_CHECK;
int kiln_routing_speed(const char *path, const struct kiln_lexicon *lexicon,
                       const struct kiln_routing_under_test *of, const struct kiln_routing_set *set,
                       size_t count, double *ret_us, double *ret_build_ms,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif

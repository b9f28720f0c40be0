/* cache.h - the latent cache: which latents exist for a prompt, and which are being made.
 *
 * A latent is identified by model, size, LoRA set and prompt hash, and by the seed where one is
 * given. The model means its present weights: those that the newest pictures and latents of the
 * pool were rendered with.  New weights count from the first picture that was rendered with them.
 * LoRAs count by name, scale and file in the same way; a latent without recorded files counts as
 * rendered with the present ones.  For a build only latents of exact runs count.  `kiln cache build`
 * makes jobs of one batch with this identity as the key, so the unique (batch, key) prevents
 * duplicates.
 */
#ifndef KILN_LEDGER_CACHE_H
#define KILN_LEDGER_CACHE_H

#include "schemas/names.h"
#include "storage/ledger/read/read.h"

#define KILN_CACHE_KEY_MAX 64 /* bytes of a key, the id behind it included */

struct kiln_cache_want {
    const struct kiln_job *job; /* of kind latent-cache */
    char key[KILN_CACHE_KEY_MAX];
    bool any_seed; /* the prompt is what counts */
};
enum kiln_cache_state {
    KILN_CACHE_ABSENT,
    KILN_CACHE_STORED,  /* with the states that are wanted */
    KILN_CACHE_WAITING, /* its job is queued or assigned */
    KILN_CACHE_FAILED,  /* its job failed or was cancelled: `kiln retry` */
    KILN_CACHE_LOST,    /* its job is done, and the latent was removed since */
};
struct kiln_cache_found {
    enum kiln_cache_state state;
    uint64_t job; /* the newest of that identity, 0: none */
};
int kiln_ledger_cache_look(struct kiln_ledger *ledger, const char *pool,
                           const struct kiln_cache_want *wants, size_t count,
                           struct kiln_cache_found *ret, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_cache_row {
    char model[KILN_NAME_MAX + 1]; /* "": the pool's */
    char model_hash[65], lora_set[KILN_LORA_SET_MAX];
    uint32_t width, height;
    uint64_t latents, prompts, states, bytes;
    double gpu_seconds; /* of those without a picture */
    uint64_t built;     /* of the latents: ordered by `kiln cache build` */
};
typedef int kiln_each_cache(void *arg, const struct kiln_cache_row *row, struct kiln_error *err);
/* All stored latents of whole runs, exact or coarse first, by model, size and LoRA set, the most
 * first.  Reads every row, a page of prompts at a time, each as it is at that moment. */
int kiln_ledger_cache(struct kiln_ledger *ledger, const char *pool, kiln_each_cache *each,
                      void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* Pictures whose runs could begin from a stored latent: by how like the prompts were and what came
 * of it. */
struct kiln_hits_row {
    int hit;                  /* enum kiln_reuse_class */
    char mode[KILN_MODE_MAX]; /* as rendered: "teleport=2" */
    char fallback[16];        /* why it was a full run all the same; "": it was not */
    uint64_t pictures;
    double steps;   /* that were skipped, of the full size */
    double seconds; /* of the device that they would have taken, at the pace of the others */
};
typedef int kiln_each_hits(void *arg, const struct kiln_hits_row *row, struct kiln_error *err);
/* Reads every picture with a donor. */
int kiln_ledger_hits(struct kiln_ledger *ledger, const char *pool, kiln_each_hits *each, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* A prompt that was rendered more than once, with one size and model. */
#define KILN_POPULAR_SEEDS 64
struct kiln_popular_row {
    uint64_t job;                         /* the newest of its pictures */
    char prompt_hash[65], model_hash[65]; /* model_hash: of the model's present weights, or "" */
    uint32_t width, height;
    uint64_t pictures;
    double step_s;   /* GPU-seconds of a step at full size, the mean of these pictures */
    uint32_t donors; /* stored latents that runs of the prompt may begin from, and their seeds */
    uint64_t seeds[KILN_POPULAR_SEEDS];
};
typedef int kiln_each_popular(void *arg, const struct kiln_popular_row *row,
                              struct kiln_error *err);
/* Of the newest million pictures that could begin from stored latents and have so many steps, by
 * falling time of the device: somewhat more than `top` prompts, since the caller may reject some.
 * donors: of a prompt no more than so many are counted, at most KILN_POPULAR_SEEDS.  coarse: whether
 * those of coarse runs count, from which exact ones never begin. */
int kiln_ledger_popular(struct kiln_ledger *ledger, const char *pool, uint32_t steps, uint32_t top,
                        uint32_t donors, bool coarse, kiln_each_popular *each, void *arg,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the pictures of the pool become near-copies of a few: of the newest pictures whose jobs
 * ask for stored latents, how many began from one, from how many donors, at most how many from the
 * same, and how many of those whose pixels the gallery knows look nearly like their donor's
 * picture. */
struct kiln_variety {
    uint64_t pictures; /* looked at, at most KILN_VARIETY_PICTURES */
    uint64_t reused, donors, most;
    uint64_t compared, near; /* of reused: both pictures have a fingerprint; and differ little */
};
#define KILN_VARIETY_PICTURES 10000
/* Pictures of which at most `bits` of PDQ differ are near; those of a lower quality are too flat to
 * be compared. */
int kiln_ledger_variety(struct kiln_ledger *ledger, const char *pool, uint32_t bits,
                        uint32_t quality, struct kiln_variety *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif

/* job.h - the job: what Kiln renders, and the state of that request.
 *
 *     (intake) --> QUEUED --assign--> ASSIGNED --commit--> DONE
 *                   ^  |                |  |
 *                   |  +---cancel--+----+  +--fatal, attempts used up--> FAILED
 *                   |              v    |
 *                   |         CANCELLED |
 *                   +--lease lost, retryable error, hand-back--+
 *     FAILED, CANCELLED --retry--> QUEUED
 *
 * The ledger (Postgres) owns the state; kiln_move_legal() is the one table of
 * legal moves and storage/ledger/queue/move.c the one function that makes them.
 * Above the ruled line: fixed at intake, never changed.  Below: changes with
 * every move.
 */
#ifndef KILN_JOB_H
#define KILN_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"

/* The states: KILN_JOB_QUEUED, ..., the name, which is a column of batch_tally, too, and the
 * number. The ledger stores the numbers; never renumber. */
#define KILN_JOB_STATES(STATE)                                                                     \
    STATE(QUEUED, queued, 0)                                                                       \
    STATE(ASSIGNED, assigned, 1)                                                                   \
    STATE(DONE, done, 2)                                                                           \
    STATE(FAILED, failed, 3)                                                                       \
    STATE(CANCELLED, cancelled, 4)

#define KILN_JOB_STATE_ENUM(state, name, number) KILN_JOB_##state = number,
enum kiln_job_state { KILN_JOB_STATES(KILN_JOB_STATE_ENUM) KILN_JOB_STATE_COUNT };

/* The same numbers to paste into SQL: "state = " KILN_SQL_QUEUED, "state IN " KILN_SQL_ENDED. */
#define KILN_SQL_QUEUED "0"
#define KILN_SQL_ASSIGNED "1"
#define KILN_SQL_DONE "2"
#define KILN_SQL_FAILED "3"
#define KILN_SQL_CANCELLED "4"
#define KILN_SQL_UNFINISHED "(" KILN_SQL_QUEUED ", " KILN_SQL_ASSIGNED ")"
#define KILN_SQL_ENDED "(" KILN_SQL_DONE ", " KILN_SQL_FAILED ", " KILN_SQL_CANCELLED ")"

enum kiln_job_kind { KILN_KIND_IMAGE = 0, KILN_KIND_LATENT_CACHE = 1 };
enum kiln_latents { KILN_LATENTS_FINAL = 0, KILN_LATENTS_TRAJECTORY = 1, KILN_LATENTS_NONE = 2 };
/* OLD: in rows of early releases, which took "auto" and began from noise all the same: off. */
enum kiln_teleport { KILN_TELEPORT_OLD = 0, KILN_TELEPORT_OFF = 1, KILN_TELEPORT_AUTO = 2 };
#define KILN_ALIKE_MAX 100

/* The job from whose stored latent a run may begin: the cache chose it, no person. */
struct kiln_donor {
    uint64_t job;   /* 0: none */
    uint32_t step;  /* of the schedule, at which the run begins: so many are skipped, 1 or more */
    int hit;        /* enum kiln_reuse_class of schemas/reuse/class.h */
    double variety; /* of the row of the model's table that allows it; 0 once sent to a worker */
    bool coarse;    /* the run is coarse first all the same, and leaves out so many small steps */
};

struct kiln_lora {
    char name[KILN_NAME_MAX + 1];
    double scale;
    char sha256[65]; /* of its file, hex digits; "": whatever the worker has under the name */
};

struct kiln_job {
    uint64_t id;           /* given by the ledger; 0 before */
    uint64_t batch_id;     /* the batch row */
    char *batch;           /* its name */
    char *custom_id;       /* the user's own id, or NULL */
    uint32_t index;        /* position in the batch, from 0 */
    char *prompt;          /* as written, with the words of its style */
    char *drawn;           /* as rendered, if `auto` put triggers in front of it; else NULL */
    char *negative_prompt; /* "" for none */
    char *style;           /* name of the preset, or NULL */
    char *tenant;
    char *model; /* "" = the pool's model */
    uint32_t width, height;
    uint32_t steps;
    double guidance;
    uint64_t seed;
    struct kiln_lora loras[KILN_LORAS_MAX];
    uint32_t lora_count; /* 0 = none */
    bool lora_auto;      /* the line says "auto": the intake chooses, */
    char *route;      /* and this is why: JSON of the router; NULL: not chosen by it, or not yet */
    int32_t priority; /* -10 .. 10, higher first */
    uint32_t max_wait_s; /* 0 = no promise */
    enum kiln_job_kind kind;
    enum kiln_latents latents;
    double sigmas[KILN_SIGMAS_MAX]; /* of a trajectory only the states nearest to these levels, */
    uint32_t sigma_count;           /* from high to low; 0 = all of them */
    enum kiln_teleport teleport;
    bool teleport_said;    /* by the line: part of its canonical text, so of its identity */
    uint32_t alike;        /* with AUTO: 0 .. KILN_ALIKE_MAX, how like other pictures it may be */
    struct kiln_mode mode; /* with a start: init_image or init_job says which */
    bool coarse_said;      /* by the line: as teleport_said */
    char *init_image;      /* key of an object, "inputs/<sha256>.<ext>", or NULL */
    uint64_t init_job;     /* whose final latent is the start; 0 = none */
    char *init_mask;       /* with a start: the same for a mask on it, or NULL */
    uint64_t parent;       /* the job that this one was made from, for people; 0 = none */
    bool embed_metadata;
    int64_t created_ms; /* in the ledger since, ms since 1970; 0 before.  Names its objects */
    /* ------------------------------------------------------------------ */
    enum kiln_job_state state;
    uint32_t attempt;        /* grows with every assignment: the fence of a commit */
    struct kiln_donor donor; /* that the scheduler chose for this attempt */
};

/* Whether it names a parent beside the job of its start, which is the parent otherwise. */
static inline bool kiln_job_names_parent(const struct kiln_job *job)
{
    return job->parent && job->parent != job->init_job;
}

/* The prompt as it is rendered.  Features, latents and their hashes are of this one; searches, the
 * gallery and people use the one that was written. */
static inline const char *kiln_job_drawn(const struct kiln_job *job)
{
    return job->drawn ? job->drawn : job->prompt;
}

/* How many bytes of the drawn prompt are in front of the written one. */
size_t kiln_job_added(const struct kiln_job *job);
/* Puts words[0..len) in front of the prompt, in place of others; 0 bytes: nothing.  False: no
 * memory. */
bool kiln_job_draw(struct kiln_job *job, const char *words, size_t len) KILN_MUST_CHECK;

/* "queued", "assigned", "done", "failed", "cancelled"; -1 for an unknown name. */
const char *kiln_job_state_name(enum kiln_job_state state);
int kiln_job_state_by_name(const char *name);
bool kiln_move_legal(enum kiln_job_state from, enum kiln_job_state to);

const char *kiln_job_kind_name(enum kiln_job_kind kind);  /* "image", "latent-cache" */
const char *kiln_latents_name(enum kiln_latents latents); /* "final", "trajectory", "none" */
const char *kiln_teleport_name(enum kiln_teleport teleport);

/* Text of a LoRA set for people: "name:scale+name:scale", sorted by name, "" for none.  Scales
 * print with %.4g.  Returns the length written. */
size_t kiln_lora_set_text(const struct kiln_lora *loras, uint32_t count, char *out, size_t size);
/* Likewise what tells one set from another: a LoRA whose file is known is "name:scale@HASH", with
 * the first KILN_LORA_KEY_DIGITS of its SHA-256.  So another file under the name is another set. */
size_t kiln_lora_set_key(const struct kiln_lora *loras, uint32_t count, char *out, size_t size);
/* A scale as these texts have it, rounded: two that are equal here are of one set. */
double kiln_lora_set_scale(double scale);
/* Whether a person's text means the set of this key: with the same hashes, or with none. */
bool kiln_lora_set_meant(const char *text, const char *key);
#define KILN_LORA_KEY_DIGITS 16
/* These digits as a number. */
uint64_t kiln_lora_digits(const char *sha256);
#define KILN_LORA_SET_MAX (KILN_LORAS_MAX * (KILN_NAME_MAX + 17 + KILN_LORA_KEY_DIGITS) + 1)
/* Text of the files behind a set: "name:sha256+name:sha256", sorted by name. */
#define KILN_LORA_FILES_MAX (KILN_LORAS_MAX * (KILN_NAME_MAX + 66) + 1)

/* Noise levels "0.9,0.75,0", from high to low, each once, in [0, 1], to four decimals.  Parsing
 * puts them in order; false for anything else, or for none. */
size_t kiln_sigmas_text(const double *sigmas, uint32_t count, char *out, size_t size);
bool kiln_sigmas_parse(const char *text, double sigmas[KILN_SIGMAS_MAX], uint32_t *ret_count);
#define KILN_SIGMAS_TEXT_MAX (KILN_SIGMAS_MAX * 16)

/* Frees the strings and zeroes the job; takes a zeroed job. */
void kiln_job_release(struct kiln_job *job);

#endif

/* trouble.h - what stands in the way of a pool's jobs, and what to do about it.
 *
 * The one place that computes it; `wait`, `run`, `watch`, `status`, `workers`, `why`, `errors`,
 * `doctor` and the gallery's page of the fleet print what is found here.  kiln_troubles_find is
 * pure: facts in, sentences out, in the order in which to read them.  kiln_troubles_look gathers
 * the facts from ledger and bus.
 */
#ifndef KILN_CLI_TROUBLE_H
#define KILN_CLI_TROUBLE_H

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/fleet/roster.h"
#include "storage/ledger/queue/pause.h"

/* The name in JSON.  Later ones are often a consequence of earlier ones. */
#define KILN_TROUBLES(X)                                                                           \
    X(PAUSED, "paused")       /* all queued jobs of the batch, or everything */                    \
    X(REDIS, "redis")         /* it does not answer: workers cannot be seen */                     \
    X(SCHEDULER, "scheduler") /* none leads */                                                     \
    X(INTAKE, "intake")       /* the ledger takes no jobs */                                       \
    X(WORKERS, "workers")     /* none is alive, or all are draining */                             \
    X(START, "start")         /* a worker that does not start: its model, its store */             \
    X(STORE, "store")         /* refuses the pictures of workers */                                \
    X(LEDGER, "ledger")       /* refuses their commits */                                          \
    X(DEAF, "deaf")           /* a worker that cannot read its stream */                           \
    X(MODEL, "model")         /* that jobs need and no worker has */                               \
    X(WEBHOOK, "webhook")     /* a webhook message that was not delivered; stops no job */
enum kiln_trouble_kind {
#define KILN_TROUBLE_KIND(name, text) KILN_TROUBLE_##name,
    KILN_TROUBLES(KILN_TROUBLE_KIND) KILN_TROUBLE_KINDS
};
const char *kiln_trouble_name(enum kiln_trouble_kind kind);

struct kiln_trouble {
    enum kiln_trouble_kind kind;
    bool stops;                     /* no job of these ends before it is over; else some do */
    int code;                       /* of the error behind it; 0: none */
    char worker[KILN_NAME_MAX + 1]; /* an example; "" if it is not about workers */
    char text[KILN_ERROR_TEXT_MAX]; /* a clause to follow a colon; one line, safe to print */
    char next[192];                 /* what to do, likewise */
};
#define KILN_TROUBLES_MAX 12
struct kiln_troubles {
    struct kiln_trouble at[KILN_TROUBLES_MAX];
    size_t count;
};

/* The models that queued jobs need, each once; "" is the pool's. */
#define KILN_NEEDED_MAX 64
struct kiln_needed {
    char at[KILN_NEEDED_MAX][KILN_NAME_MAX + 1];
    size_t count;
};
/* One more; known ones and those beyond the bound are left out. */
void kiln_needed_add(struct kiln_needed *needed, const char *model);

/* All texts are borrowed; a zeroed struct is a pool without scheduler and workers. */
struct kiln_trouble_facts {
    const char *pool;
    const char *paused;               /* a sentence; NULL or "": some job is not paused */
    bool of_pool;                     /* not of one batch: what else is wrong counts in a pause */
    const char *redis;                /* why it does not answer; NULL: it does */
    bool led;                         /* a scheduler leads */
    const char *intake;               /* why it is blocked; NULL or "": it is not */
    const char *webhook;              /* which URLs were not told, a clause; NULL or "": none */
    const struct kiln_roster *roster; /* NULL: not known */
    const struct kiln_needed *needed; /* NULL: nothing */
    double lease_s;
    int64_t now_ms; /* wall clock */
};
void kiln_troubles_find(const struct kiln_trouble_facts *facts, struct kiln_troubles *ret);

/* The facts of the pool (batch NULL) or of one batch, then kiln_troubles_find.  A Redis that does
 * not answer is a trouble, a ledger that does not is an error. */
int kiln_troubles_look(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       struct kiln_troubles *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* The same of the pool, with the pause of a batch (NULL: of everything), for a caller that knows
 * which models queued jobs need, of which the list may be longer than is used.  It gets the
 * workers, which it releases, and the error of Redis (code 0: none). */
int kiln_troubles_look_at(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                          const struct kiln_needed *needed, struct kiln_roster *ret_roster,
                          struct kiln_error *ret_bus, struct kiln_troubles *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The pause of all queued jobs of a batch, as a sentence; "" while one of them is not paused.
 * batch NULL: the pause of everything.  first: looks at the first queued jobs only, for a page. */
int kiln_troubles_pause(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                        bool first, char *out, size_t size, struct kiln_error *err) KILN_MUST_CHECK;
/* Calls each with a sentence about every pause of the pool: of people, of closed windows, of
 * used-up quotas.  people: only the first, since the scheduler lifts its own. */
int kiln_troubles_pauses(struct kiln_cli *cli, struct kiln_ledger *ledger, bool people,
                         void (*each)(void *arg, const char *text), void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* On stdout, two lines each: what it is, and what to do; for a view that lists the pauses. */
void kiln_troubles_print(const struct kiln_cli *cli, const struct kiln_troubles *troubles);
/* On stderr, a line each, beside a listing of something else. */
void kiln_troubles_remark(const struct kiln_cli *cli, const struct kiln_troubles *troubles);
/* [{"trouble", "stops", "code", "worker", "text", "next"}] */
json_t *kiln_troubles_json(const struct kiln_troubles *troubles);
/* The trouble that a live worker reports as an object, or null. */
json_t *kiln_worker_trouble_json(const struct kiln_roster_worker *worker);
/* The same as a clause, "its store refuses: ..."; "" for none.  Returns out. */
const char *kiln_worker_trouble_text(const struct kiln_roster_worker *worker, char *out,
                                     size_t size);

/* What to do about jobs that failed with this code: a clause without a full stop. */
const char *kiln_cause_next(int code);

/* Whether the worker is alive and serves that model; NULL or "" is any. */
bool kiln_serves(const struct kiln_roster_worker *worker, const char *model);
/* NULL if a worker takes jobs of that model; else the reason, to follow "which". */
const char *kiln_lacks_model(const struct kiln_roster *roster, const char *model);

/* --- why the intake waits ----------------------------------------------------------------------
 */
struct kiln_bus;
/* The reason in the stream `blocked`, and for how long, into out; "" and 0 if it does not wait.
 * now_ms: the clock of Redis. */
void kiln_intake_blocked(struct kiln_bus *bus, const char *pool, int64_t now_ms, char *out,
                         size_t size, double *ret_s);

/* --- for commands that wait --------------------------------------------------------------------
 */
/* What a command has already said.  Zero-initialise. */
struct kiln_troubles_said {
    double due_s; /* of the next look */
    struct kiln_troubles last;
};
/* Looks every two seconds, and says on stderr what is new in the way of the batch (NULL: of the
 * pool); a trouble is said again only after it was over. */
void kiln_troubles_say(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       struct kiln_bar *bar, struct kiln_troubles_said *said);
/* Which of them were not among the last ones, by kind, code and worker; last becomes now. */
size_t kiln_troubles_new(struct kiln_troubles *last, const struct kiln_troubles *now,
                         const struct kiln_trouble *ret[KILN_TROUBLES_MAX]);

#endif

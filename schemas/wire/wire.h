/* wire.h - the messages on the bus, as text and back.  bus.md is the same for people.
 *
 * Keys, POOL in braces so that one pool is one cluster slot:
 *     kiln:{POOL}:intake            stream  job lines in            (producer -> scheduler)
 *     kiln:{POOL}:receipt:<token>   list    one receipt, TTL 300 s  (scheduler -> producer)
 *     kiln:{POOL}:worker:<id>       stream  assignments, control  (scheduler -> worker)
 *     kiln:{POOL}:beat:<id>         hash    heartbeat with a TTL    (worker -> scheduler)
 *     kiln:{POOL}:events            stream  capped; what happened   (worker, scheduler -> all)
 *     kiln:{POOL}:control           stream  capped; cancel, drain   (kiln -> scheduler)
 *     kiln:{POOL}:answer:<token>    list    one answer, TTL 30 s    (scheduler -> kiln)
 *
 * Nothing here is truth: the ledger rebuilds the bus.  Decoders trust nothing:
 * KILN_PROTOCOL with the field at fault for anything malformed, missing for the message's kind, or
 * out of range.  Ids of jobs and batches are 1 .. 2^63 - 1, as in the ledger.
 */
#ifndef KILN_WIRE_H
#define KILN_WIRE_H

#include "schemas/error.h"
#include "schemas/job.h"

/* Peers of one version understand each other.  The minor counts what was added since; people see it
 * in `kiln workers`.  Two decisions depend on it: a worker refuses the line of a job whose mode
 * it does not know, and is assigned none (kiln_mode_minor); and one that does not know files of
 * LoRAs by their hashes is assigned no job that names one (KILN_WIRE_MINOR_FILES).  Tests build
 * programs of other releases (tests.mk). */
#ifndef KILN_WIRE_VERSION
#define KILN_WIRE_VERSION 1
#endif
#ifndef KILN_WIRE_MINOR
#define KILN_WIRE_MINOR 17
#endif
#define KILN_WIRE_MINOR_FILES 13
#define KILN_INTAKE_KEY_MAX (KILN_CUSTOM_ID_MAX + 16)
#define KILN_WIRE_ID_MAX 64 /* tokens, assignment ids, worker ids: [A-Za-z0-9._-] */
#define KILN_WIRE_MS_MAX (30 * 24 * 3600 * 1000.0) /* the longest duration a message may tell */

/* Writes "kiln:{pool}:part" or "kiln:{pool}:part:id" (id may be NULL). */
size_t kiln_wire_key(char *out, size_t size, const char *pool, const char *part, const char *id);

/* Whether a stream that contains an entry of this id ("ms-seq") is at the end of its ids, or so
 * near that Redis counts on from it: soon it takes no more entries. */
bool kiln_wire_last_id(const char *id);

/* --- intake ---------------------------------------------------------------------------------
 * Fields of an entry: batch, job (JSON line); optional index, key (identity within the batch;
 * same batch + key = same job), token (of one enqueue call), end (jobs announced; on the last
 * entry of a call, which may have no job), on_done (beside end: the URL to tell that the batch has
 * ended), source (the file that the job came from).  An entry with gone has no job: the keys, a
 * line each, that the file no longer has. */
#define KILN_INTAKE_GONE_MAX (64 * 1024) /* bytes of one entry's keys */
#define KILN_INTAKE_URL_MAX 1024
struct kiln_intake_entry {
    const char *batch, *job, *key, *token; /* borrowed from the caller's reply; NULL if absent */
    const char *source, *gone, *on_done;
    size_t job_len;
    bool has_index, has_end;
    uint32_t index;
    uint64_t end;
};
/* fields: count pairs of (name, value), NUL-terminated, with their lengths. */
int kiln_intake_decode(const char *const *fields, const size_t *lengths, size_t count,
                       struct kiln_intake_entry *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* --- assignment: field "assign" of an entry of a worker's stream --------------------------- */
struct kiln_assignment {
    char id[KILN_WIRE_ID_MAX + 1];
    char model[KILN_NAME_MAX + 1]; /* "" = the pool's model */
    uint32_t width, height, steps; /* of all jobs; the LoRA set and the mode too */
    struct kiln_mode mode;
    struct kiln_lora loras[KILN_LORAS_MAX];
    uint32_t lora_count;
    struct kiln_job *jobs; /* [job_count]: all that is fixed, and the attempt */
    uint32_t job_count;
};
char *kiln_assignment_encode(const struct kiln_assignment *a); /* malloc'd JSON, NULL: no memory */
int kiln_assignment_decode(const char *text, size_t len, struct kiln_assignment *ret,
                           struct kiln_error *err) KILN_MUST_CHECK;
void kiln_assignment_release(struct kiln_assignment *a);

/* --- control message: field "order" of an entry of a worker's stream or of control ------- */
enum kiln_control_kind {
    KILN_CONTROL_CANCEL_JOB,   /* job: stop it at the next step */
    KILN_CONTROL_CANCEL_BATCH, /* batch (control only) */
    KILN_CONTROL_DROP,         /* assignment: drop it, the ledger has moved on */
    KILN_CONTROL_DRAIN, /* worker, "" = all, or an incarnation: finish, return the rest, exit */
    KILN_CONTROL_WAKE,  /* look at the ledger now (after cancel, retry) */
    KILN_CONTROL_ASK,   /* id: token of the answer; job: why it waits, 0: the groups, or donors */
};
struct kiln_control {
    enum kiln_control_kind kind;
    uint64_t job;                     /* CANCEL_JOB: 1 ..; ASK: 0 .. */
    char id[KILN_BATCH_NAME_MAX + 1]; /* batch name, assignment or worker id */
    bool recorded; /* a cancel that the ledger has already: a retry since then must stay */
    bool donors;   /* ASK: what is known of stored latents, which are read from now on */
};
const char *kiln_control_name(enum kiln_control_kind kind); /* as in the message */
char *kiln_control_encode(const struct kiln_control *control);
int kiln_control_decode(const char *text, size_t len, struct kiln_control *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* --- heartbeat: field "beat" of the hash (JSON) -------------------------------------------- */
#define KILN_HEARTBEAT_HELD_MAX 16
#define KILN_HEARTBEAT_ERROR_MAX 256
#define KILN_HEARTBEAT_UNTOLD UINT32_MAX /* places in a heartbeat of an older worker */
#define KILN_HEARTBEAT_FILES_MAX 256
struct kiln_heartbeat {
    char worker[KILN_NAME_MAX + 1];
    char incarnation[KILN_WIRE_ID_MAX + 1]; /* new at each start: two workers of one id differ */
    char host[KILN_NAME_MAX + 1];
    char device[KILN_NAME_MAX + 1];
    char device_class[KILN_NAME_MAX + 1]; /* kind of hardware; "" = not told */
    char engine[16];
    char model[KILN_NAME_MAX + 1];
    char lora_set[KILN_LORA_SET_MAX]; /* resident now */
    uint32_t pid, version, minor;     /* KILN_WIRE_VERSION, KILN_WIRE_MINOR; minor 0: not told */
    char release[48];                 /* of the program; "" = not told */
    uint32_t width, height;           /* of the last batch; 0 = none yet */
    char held[KILN_HEARTBEAT_HELD_MAX][KILN_WIRE_ID_MAX + 1]; /* in flight: held, held_more */
    uint32_t held_count;
    char running[KILN_WIRE_ID_MAX + 1]; /* the one of them that is being rendered; "" = none */
    uint32_t drawn;                     /* how many of held are rendered */
    uint32_t room;                      /* assignments it would take now, however long */
    uint32_t places;                    /* ... and if they are short: free in held; or UNTOLD */
    uint32_t batch_max;                 /* jobs of one assignment */
    uint32_t step, steps;               /* of the running batch; 0,0 when idle */
    uint32_t coarse_steps;              /* those of steps at the small size; 0 = none, not told */
    uint32_t middle_steps;              /* those after them at the middle size of a third level */
    bool draining;
    uint32_t deaf_ms;      /* since the last good read of the worker's stream */
    uint64_t done, failed; /* pictures since start */
    /* Until the end of its last batch: how long it has been ready, with work in flight, rendering
     * by the device's own clock. */
    uint64_t ready_ms, wanted_ms, computed_ms;
    int64_t started_ms, sent_ms; /* wall clock, for people and to tell two apart; 0: untold */
    /* What keeps its pictures: "store" or "ledger" refuses them; "" = nothing.  For people, but
     * that a worker whose store refuses says room 0. */
    char trouble[16];
    char trouble_code[24]; /* kiln_code_name */
    char trouble_error[KILN_HEARTBEAT_ERROR_MAX];
    uint32_t trouble_ms; /* for how long */
    /* LoRA files on its disk, each the first KILN_LORA_KEY_DIGITS of its SHA-256, the last used
     * ones.  Not told: an older worker, or one that has not looked yet. */
    bool files_told;
    uint64_t files[KILN_HEARTBEAT_FILES_MAX];
    uint32_t file_count;
};
char *kiln_heartbeat_encode(const struct kiln_heartbeat *beat);
int kiln_heartbeat_decode(const char *text, size_t len, struct kiln_heartbeat *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* --- event: field "event" of the events stream (JSON) -------------------------------------- */
#define KILN_WIRE_REMADE "remade" /* field of an entry without event: the stream was made anew */
enum kiln_event_kind {
    KILN_EVENT_HELLO,
    KILN_EVENT_BYE, /* a worker */
    KILN_EVENT_DONE,
    KILN_EVENT_FAILED, /* a job, committed in the ledger already */
    KILN_EVENT_RETURNED,
    KILN_EVENT_CANCELLED,
    KILN_EVENT_FINISHED, /* an assignment: acknowledged */
};
struct kiln_event {
    enum kiln_event_kind kind;
    char worker[KILN_NAME_MAX + 1];        /* HELLO, BYE, FINISHED: not "" */
    char assignment[KILN_WIRE_ID_MAX + 1]; /* FINISHED: not "" */
    uint64_t job;                          /* DONE, FAILED, RETURNED, CANCELLED: 1 .. */
    uint32_t attempt;                      /* 0 = not told */
    int code;                              /* enum kiln_code of a failure */
    double compute_ms, switch_ms;          /* FINISHED: for the cost model, */
    double fetch_ms; /* and of one LoRA file from the store; 0 = none was fetched */
};
char *kiln_event_encode(const struct kiln_event *event);
int kiln_event_decode(const char *text, size_t len, struct kiln_event *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* --- receipt: the one element of a receipt list (JSON) ------------------------------------- */
struct kiln_receipt {
    char batch[KILN_BATCH_NAME_MAX + 1];
    uint64_t accepted, duplicate, refused;
    char first_refusal[KILN_ERROR_TEXT_MAX]; /* "" if none */
    /* Of the first refused entry of the call and of the last, in the order of refusing; "" = not
     * told. */
    char first_key[KILN_INTAKE_KEY_MAX + 1], last_key[KILN_INTAKE_KEY_MAX + 1];
};
char *kiln_receipt_encode(const struct kiln_receipt *receipt);
int kiln_receipt_decode(const char *text, size_t len, struct kiln_receipt *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif

/* alike.c - see alike.h. */
#include "scheduler/gallery/alike/alike.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/gallery/alike/pixels.h"
#include "scheduler/gallery/background.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/outage.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/priority.h"
#include "storage/objects/store.h"

#define STOP_S 3
#define PAUSE_MS 1000
#define NICE 10
#define PAGE_ROWS 500         /* of the walk */
#define NOTES_MAX 5000        /* beyond it everything is walked again */
#define BATCH 50              /* fingerprints in one write */
#define FILE_MAX (8u << 20)   /* bytes of a file that is looked at */
#define REST_PAGE 30          /* times as long as reading a page took, after it */
#define REST_WALK 3           /* times as long as a picture took, after it */
#define REST_NEW 1            /* after a new one */
#define REST_MAX_MS 2000      /* whatever the store took */
#define HOLD_MAX_MS 60000     /* that something else may keep it waiting */
#define HOLD_LOOK_MS 100      /* between two looks at whether it still does */
#define WALK_AGAIN_MS 60000   /* while another gallery computes what is missing */
#define UNREADABLE_MS 3600000 /* until files that could not be read are tried again */
#define FROM_THE_NEWEST INT64_MAX

struct picture {
    uint64_t job;
    int64_t file;
    char *key; /* owned */
    bool own;  /* of the pool that is shown */
};

struct kiln_alike {
    const struct kiln_config *config;
    const char *pool;
    struct kiln_near *near;
    struct kiln_background background;
    struct kiln_ledger *session; /* of the thread, as is all up to `lock` */
    struct kiln_store *store;
    uint64_t walk_below;                /* the walk goes on below this job; 0: it has ended */
    int64_t walk_again_ms;              /* kiln_clock_ms; 0: not planned */
    struct picture pictures[PAGE_ROWS]; /* without a fingerprint, of the page in work */
    uint32_t picture_count;
    struct kiln_fingerprint made[BATCH];
    bool made_own[BATCH];
    uint32_t made_count;
    pthread_mutex_t lock; /* of what follows */
    uint64_t notes[NOTES_MAX];
    uint32_t note_count;
    bool overflown, replaced;
    _Atomic bool writes, complete;
    _Atomic int64_t held_until_ms; /* kiln_clock_ms; 0: it is not held */
    _Atomic uint64_t computed, unreadable, waits;
};

/* --- rests ------------------------------------------------------------------------------------ */
/* After something that took so long, `share` times as long, and then as long as it is held; false:
 * the process ends. */
static bool rest(struct kiln_alike *alike, int share, double took_ms)
{
    const double rest_ms = share * took_ms + 0.5;
    bool goes_on = kiln_background_pause(&alike->background,
                                         (int)(rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS));
    while (goes_on && kiln_clock_ms() < atomic_load(&alike->held_until_ms)) {
        atomic_fetch_add(&alike->waits, 1);
        goes_on = kiln_background_pause(&alike->background, HOLD_LOOK_MS);
    }
    return goes_on;
}

/* --- one picture ------------------------------------------------------------------------------ */
static int store_made(struct kiln_alike *alike, struct kiln_error *err)
{
    int code = alike->made_count == 0 ? 0
                                      : kiln_gallery_fingerprints_put(alike->session, alike->made,
                                                                      alike->made_count, err);
    for (uint32_t i = 0; i < alike->made_count && code == 0; i++)
        if (alike->made_own[i])
            code = kiln_near_put(alike->near, &alike->made[i], err);
    alike->made_count = 0;
    return code;
}

/* Missing, damaged, too large; S3 denies what is missing to who may not list the bucket. */
static bool is_own_fault(int code)
{
    return code == KILN_FULL || (!kiln_store_fails_all(code) && code != KILN_NO_MEMORY);
}

/* Once more, but not at once. */
static void plan_walk(struct kiln_alike *alike, int64_t in_ms)
{
    const int64_t at_ms = kiln_clock_ms() + in_ms;
    if (!alike->walk_again_ms || at_ms < alike->walk_again_ms)
        alike->walk_again_ms = at_ms;
}

static int compute(struct kiln_alike *alike, const struct picture *picture, struct kiln_error *err)
{
    struct kiln_fingerprint *print = &alike->made[alike->made_count];
    void *file = NULL;
    size_t size;
    *print = (struct kiln_fingerprint){.job = picture->job, .file = picture->file};
    int code = kiln_store_get(alike->store, picture->key, FILE_MAX, &file, &size, err);
    if (code == 0)
        code = kiln_fingerprint_of(file, size, print, err);
    free(file);
    if (code != 0 && is_own_fault(code)) {
        if (atomic_fetch_add(&alike->unreadable, 1) == 0)
            kiln_log(KILN_LOG_WARNING, "picture_unreadable",
                     kiln_f("job", "%llu", (unsigned long long)picture->job),
                     kiln_f("error", "%s", err->text),
                     kiln_f("effect", "%s",
                            "no placeholder and no near-duplicates of it; others "
                            "are counted"));
        plan_walk(alike, UNREADABLE_MS);
        return 0;
    }
    if (code != 0)
        return code;
    alike->made_own[alike->made_count++] = picture->own;
    atomic_fetch_add(&alike->computed, 1);
    return alike->made_count == BATCH ? store_made(alike, err) : 0;
}

static void forget_pictures(struct kiln_alike *alike)
{
    for (uint32_t i = 0; i < alike->picture_count; i++)
        free(alike->pictures[i].key);
    alike->picture_count = 0;
}

/* Those of the page, with a rest after each; *ret_ended: the process ends. */
static int compute_all(struct kiln_alike *alike, int share, bool *ret_ended, struct kiln_error *err)
{
    int code = 0;
    if (alike->picture_count > 0 && !alike->store)
        code = kiln_store_open(alike->config, &alike->store, err);
    for (uint32_t i = 0; i < alike->picture_count && code == 0 && !*ret_ended; i++) {
        const double begin_ms = kiln_monotonic_ms();
        code = compute(alike, &alike->pictures[i], err);
        *ret_ended = !rest(alike, share, kiln_monotonic_ms() - begin_ms);
    }
    if (code == 0)
        code = store_made(alike, err);
    alike->made_count = 0;
    forget_pictures(alike);
    return code;
}

/* --- pages ------------------------------------------------------------------------------------ */
struct page {
    struct kiln_alike *alike;
    uint64_t last; /* job */
    uint32_t rows;
};

static int read_row(void *arg, const struct kiln_fingerprint_row *row, struct kiln_error *err)
{
    struct page *page = arg;
    struct kiln_alike *alike = page->alike;
    const bool own = strcmp(row->pool, alike->pool) == 0;
    page->last = row->print.job;
    page->rows++;
    if (row->made)
        return own ? kiln_near_put(alike->near, &row->print, err) : 0;
    if (!row->key || alike->picture_count == PAGE_ROWS)
        return 0;
    char *key = strdup(row->key);
    if (!key)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the pictures of the gallery");
    alike->pictures[alike->picture_count++] =
        (struct picture){row->print.job, row->print.file, key, own};
    return 0;
}

/* Computes what the page lacks, or leaves it to the gallery that writes. */
static int finish_page(struct kiln_alike *alike, int share, bool *ret_ended, struct kiln_error *err)
{
    if (atomic_load(&alike->writes))
        return compute_all(alike, share, ret_ended, err);
    if (alike->picture_count > 0)
        plan_walk(alike, WALK_AGAIN_MS);
    forget_pictures(alike);
    return 0;
}

static int walk(struct kiln_alike *alike, bool *ret_ended, struct kiln_error *err)
{
    struct page page = {.alike = alike};
    const double begin_ms = kiln_monotonic_ms();
    int code = kiln_gallery_fingerprints_below(alike->session, alike->walk_below, PAGE_ROWS,
                                               read_row, &page, err);
    if (code == 0)
        *ret_ended = !rest(alike, REST_PAGE, kiln_monotonic_ms() - begin_ms);
    if (code == 0 && !*ret_ended)
        code = finish_page(alike, REST_WALK, ret_ended, err);
    if (code == 0 && !*ret_ended)
        alike->walk_below = page.rows < PAGE_ROWS ? 0 : page.last;
    return code;
}

/* Takes up to a page of what was noted, the latest of it. */
static uint32_t take_notes(struct kiln_alike *alike, uint64_t jobs[PAGE_ROWS])
{
    pthread_mutex_lock(&alike->lock);
    const uint32_t count = alike->note_count < PAGE_ROWS ? alike->note_count : PAGE_ROWS;
    alike->note_count -= count;
    memcpy(jobs, alike->notes + alike->note_count, count * sizeof *jobs);
    pthread_mutex_unlock(&alike->lock);
    return count;
}

/* After a failure: everything is looked at again, since what was taken is lost. */
static void walk_all(struct kiln_alike *alike)
{
    forget_pictures(alike);
    alike->made_count = 0;
    alike->walk_below = FROM_THE_NEWEST;
    alike->walk_again_ms = 0;
}

static int look_at_notes(struct kiln_alike *alike, bool *ret_more, bool *ret_ended,
                         struct kiln_error *err)
{
    uint64_t jobs[PAGE_ROWS];
    struct page page = {.alike = alike};
    const uint32_t count = take_notes(alike, jobs);
    *ret_more = count > 0;
    if (count == 0)
        return 0;
    int code = kiln_gallery_fingerprints_of(alike->session, jobs, count, read_row, &page, err);
    return code ? code : finish_page(alike, REST_NEW, ret_ended, err);
}

/* --- the thread ------------------------------------------------------------------------------- */
static int begin(struct kiln_alike *alike, struct kiln_error *err)
{
    pthread_mutex_lock(&alike->lock);
    const bool again = alike->overflown || alike->replaced;
    alike->overflown = alike->replaced = false;
    pthread_mutex_unlock(&alike->lock);
    if (again || (alike->walk_again_ms && kiln_clock_ms() >= alike->walk_again_ms))
        walk_all(alike);
    if (alike->session)
        return 0;
    int code = kiln_ledger_open(alike->config, "kiln-gallery", &alike->session, err);
    if (code == 0)
        kiln_ledger_in_background(alike->session);
    return code;
}

/* New pictures before old ones. */
static int step(struct kiln_alike *alike, bool *ret_more, bool *ret_ended, struct kiln_error *err)
{
    int code = begin(alike, err);
    if (code == 0)
        code = look_at_notes(alike, ret_more, ret_ended, err);
    if (code == 0 && !*ret_more && alike->walk_below) {
        code = walk(alike, ret_ended, err);
        *ret_more = true;
    }
    atomic_store(&alike->complete, code == 0 && !alike->walk_below && !*ret_more &&
                                       (!alike->walk_again_ms || atomic_load(&alike->writes)));
    return code;
}

static void *run(void *arg)
{
    struct kiln_alike *alike = arg;
    struct kiln_outage outage = {KILN_OUTAGE_OF("fingerprints"),
                                 .effect = "new pictures have no placeholder and no "
                                           "near-duplicates"};
    bool ended = false;
    (void)kiln_lower(gettid(), NICE);
    for (int pause_ms = 0; !ended && rest(alike, 1, pause_ms);) {
        struct kiln_error err = {0};
        bool more = false;
        if (step(alike, &more, &ended, &err)) {
            walk_all(alike);
            pause_ms = kiln_outage_fail(&outage, &err);
            continue;
        }
        kiln_outage_over(&outage);
        pause_ms = more ? 0 : PAUSE_MS;
    }
    return NULL;
}

static void release(struct kiln_alike *alike)
{
    forget_pictures(alike);
    kiln_ledger_close(alike->session);
    kiln_store_close(alike->store);
    kiln_near_free(alike->near);
    pthread_mutex_destroy(&alike->lock);
    free(alike);
}

int kiln_alike_start(const struct kiln_config *config, struct kiln_alike **ret,
                     struct kiln_error *err)
{
    struct kiln_alike *alike = calloc(1, sizeof *alike);
    if (!alike)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to look at pictures");
    alike->config = config;
    alike->pool = kiln_config_text(config, KILN_KEY_POOL);
    alike->walk_below = FROM_THE_NEWEST;
    pthread_mutex_init(&alike->lock, NULL);
    int code = kiln_near_new(&alike->near, err);
    if (code == 0)
        code = kiln_background_start(&alike->background, run, alike, "look at pictures", err);
    if (code != 0) {
        release(alike);
        return code;
    }
    *ret = alike;
    return 0;
}

bool kiln_alike_stop(struct kiln_alike *alike)
{
    if (!alike)
        return true;
    if (!kiln_background_stop(&alike->background, STOP_S))
        return false;
    release(alike);
    return true;
}

/* --- what the follower reports ---------------------------------------------------------------- */
void kiln_alike_note(struct kiln_alike *alike, uint64_t job, bool gone)
{
    if (gone) {
        kiln_near_remove(alike->near, job);
        return;
    }
    pthread_mutex_lock(&alike->lock);
    if (alike->note_count < NOTES_MAX)
        alike->notes[alike->note_count++] = job;
    else
        alike->overflown = true;
    pthread_mutex_unlock(&alike->lock);
}

void kiln_alike_hold(struct kiln_alike *alike, bool held)
{
    atomic_store(&alike->held_until_ms, held ? kiln_clock_ms() + HOLD_MAX_MS : 0);
}

void kiln_alike_step(struct kiln_alike *alike, bool writes, bool replaced)
{
    const bool begins = writes && !atomic_exchange(&alike->writes, writes);
    if (!writes)
        atomic_store(&alike->writes, false);
    if (!replaced && !begins)
        return;
    pthread_mutex_lock(&alike->lock);
    alike->replaced = true; /* or is to be computed here from now on */
    pthread_mutex_unlock(&alike->lock);
}

/* --- any thread ------------------------------------------------------------------------------- */
struct look_up {
    struct kiln_fingerprint print;
    bool made;
};

static int take_row(void *arg, const struct kiln_fingerprint_row *row, struct kiln_error *err)
{
    struct look_up *look_up = arg;
    (void)err;
    *look_up = (struct look_up){row->print, row->made};
    return 0;
}

int kiln_alike_near(struct kiln_alike *alike, struct kiln_ledger *session, uint64_t job,
                    struct kiln_near_hit *ret, uint32_t most, uint32_t *ret_count,
                    enum kiln_alike_known *ret_known, struct kiln_error *err)
{
    struct look_up look_up = {.made = false};
    *ret_count = 0;
    *ret_known = KILN_ALIKE_NOT_YET;
    int code = kiln_gallery_fingerprints_of(session, &job, 1, take_row, &look_up, err);
    if (code != 0 || !look_up.made)
        return code;
    *ret_known = kiln_near_tells(&look_up.print) ? KILN_ALIKE_KNOWN : KILN_ALIKE_FLAT;
    *ret_count = kiln_near_find(alike->near, &look_up.print, ret, most);
    return 0;
}

void kiln_alike_gauges(struct kiln_alike *alike, struct kiln_text *text)
{
    kiln_metric_single(text, "kiln_gallery_fingerprints_total", "counter",
                       "Pictures whose pixels were looked at by this process.",
                       (double)atomic_load(&alike->computed));
    kiln_metric_single(text, "kiln_gallery_unreadable_total", "counter",
                       "Pictures whose file was missing or damaged.",
                       (double)atomic_load(&alike->unreadable));
    kiln_metric_single(text, "kiln_gallery_fingerprints_waits_total", "counter",
                       "Pauses of that work because a search by meaning was being prepared.",
                       (double)atomic_load(&alike->waits));
    kiln_metric_single(text, "kiln_gallery_near_pictures", "gauge",
                       "Pictures that near-duplicates are looked for among.",
                       kiln_near_count(alike->near));
    kiln_metric_single(text, "kiln_gallery_fingerprints_complete", "gauge",
                       "1 if every picture was looked at.", atomic_load(&alike->complete));
}

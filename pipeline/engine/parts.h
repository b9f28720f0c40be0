/* parts.h - a batch under way: the engine's inside, shared by the files of this folder alone.
 *
 * The order is one-way: a file calls those whose functions stand above its own here, never one
 * below (tests/source/test_one_way.sh).
 */
#ifndef KILN_ENGINE_PARTS_H
#define KILN_ENGINE_PARTS_H

#include "pipeline/engine/engine.h"
#include "pipeline/torch/lanes.h"

/* Steps that have been queued on a GPU and have not been seen to end: one at work and one behind it,
 * so that it never waits for the host, and a cancel never for more than these. */
#define KILN_STEPS_AHEAD 2

/* Pictures that are drawn together: as many of 256 px as the rows allow (engine.h). */
#define KILN_GROUP_MAX 16
_Static_assert(KILN_GROUP_MAX <= KILN_ASSIGN_MAX, "a group is part of a batch");

/* What comes back of an item. */
enum {
    KILN_FETCH_LATENT,
    KILN_FETCH_TRAJECTORY,
    KILN_FETCH_PIXELS,
    KILN_FETCH_BAD,     /* whether the decoded picture is not finite */
    KILN_FETCH_SMALLER, /* the first of them */
    KILN_FETCHES = KILN_FETCH_SMALLER + DIFFUSIONZ_SMALLER_MAX
};

struct kiln_item {
    const DiffusionZItem *in;
    DiffusionZOutput *out;
    struct kt_scope *scope;
    kt caption, negative; /* negative NULL: no guidance */
    kt latent;            /* the result */
    kt trajectory;        /* [steps, channels, height, width], or NULL */
    struct kt_fetch *fetches[KILN_FETCHES];
    int steps_done;
    bool begun; /* its steps have been asked for */
    bool ended; /* with an error in *out */
};

/* Pictures of one size and caption length, which are drawn together; each has the bits that it has
 * alone. */
struct kiln_group {
    struct kiln_item *items[KILN_GROUP_MAX];
    int count;
    int64_t rows; /* of the joint sequence, of each */
};

struct kiln_run {
    struct kiln_engine *e;
    const DiffusionZBatch *batch; /* = &asked, a copy: what it points to, but for progress, may be
                                   * gone when the first half is over */
    DiffusionZBatch asked;
    DiffusionZOutput *outputs;
    struct kiln_schedule schedule;
    int64_t height, width; /* of the latent */
    struct kiln_item items[KILN_ASSIGN_MAX];
    /* The oldest first. */
    struct {
        struct kiln_group group;
        int step;
        struct kt_fetch *bad; /* a mark for each of the group */
    } ahead[KILN_STEPS_AHEAD];
    int ahead_count;
    int progress;                /* the largest that was shown */
    struct kt_fetch *begin_mark; /* arrives when the device comes to this batch */
    struct kt_fetch *text_mark;  /* arrives when the captions are there */
    bool fresh;                  /* a shape was drawn for the first time */
    double since_ms;             /* the start of the stage that is being timed */
    DiffusionZTimes times;
    char loras[512]; /* " (LoRAs NAME:SCALE, ...: try smaller scales)"; "" without LoRAs */
};

/* --- item.c ----------------------------------------------------------------------------------- */
/* Makes memory for the results that are wanted, or returns false with the item ended. */
bool kiln_item_allocate(const struct kiln_run *r, struct kiln_item *item);
/* Releases all that the item holds but its results. */
void kiln_item_release(struct kiln_item *item);
/* Ends the item with an error; its neighbours go on. */
void kiln_item_end(struct kiln_item *item, const struct kiln_error *err);
/* Ends the item if its scope has failed or its flag is up; says whether it is still alive. */
bool kiln_item_alive(struct kiln_item *item);
/* Whether pictures of the batch come in smaller size i too, and how large they are then. */
bool kiln_run_smaller(const struct kiln_run *r, int i, uint32_t *ret_width, uint32_t *ret_height);
/* Ends all items of the group with an error. */
void kiln_group_end(const struct kiln_group *group, const struct kiln_error *err);
/* Whether any item is still alive. */
bool kiln_group_alive(const struct kiln_group *group);
/* Leaves its items to be rendered in smaller groups, as all that are as large are from now on. */
void kiln_group_split(struct kiln_run *r, const struct kiln_group *group);

/* --- steps.c ---------------------------------------------------------------------------------- */
/* Adds the time since the last call to *stage. */
void kiln_run_lap(struct kiln_run *r, double *stage);
/* Whether a queued step has not been seen to end. */
bool kiln_steps_under_way(const struct kiln_run *r);
/* Waits for the oldest step ahead and notes how it has ended. */
void kiln_steps_take(struct kiln_run *r);
/* Returns when all queued steps have ended. */
void kiln_steps_drain(struct kiln_run *r);

/* --- memory.c --------------------------------------------------------------------------------- */
/* Pixels of the batch's latents. */
int64_t kiln_run_pixels(const struct kiln_run *r);
/* Notes what the engine does without from now on, after the size of the batch. */
KILN_PRINTF(2, 3) void kiln_run_note(const struct kiln_run *r, const char *fmt, ...);
/* Whether pictures of this size have been found to need all the memory there is. */
bool kiln_memory_is_tight(const struct kiln_run *r);
/* Gives back what can be done without, once nothing uses it: the graphs, and with `all` the buffers
 * of plans.  What was short is then queued once more. */
void kiln_memory_give_back(struct kiln_run *r, bool all);
/* Work for a group, queued on the device in a scope of its own. */
typedef void kiln_work_fn(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                          void *arg);
/* Queues the work, and again with more room where that was short.  side: in the side lane. */
int kiln_memory_try(struct kiln_run *r, const struct kiln_group *group, bool side, kiln_work_fn *fn,
                    void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* What has failed is the failure of all items, but for memory: then several come again as fewer. */
void kiln_memory_give_up(struct kiln_run *r, const struct kiln_group *group,
                         const struct kiln_error *err);
/* Queues a part of the group's steps in the main lane; false where the group has been given up. */
bool kiln_memory_try_group(struct kiln_run *r, const struct kiln_group *group, kiln_work_fn *fn,
                           void *arg);

/* --- text.c ----------------------------------------------------------------------------------- */
/* Queues the captions of all items that are alive; an item whose text fails has ended. */
void kiln_text_prepare(struct kiln_run *r);
/* Encodes the texts of batches to come, where there is memory for it beside the last decode; what
 * is not done or fails is left to its own batch. */
void kiln_text_ahead(struct kiln_run *r);
/* Waits for the captions, the first time, and counts the time to the text's; what the device still
 * had to do of the batch before counts nowhere. */
void kiln_text_wait(struct kiln_run *r);

/* --- group.c ---------------------------------------------------------------------------------- */
/* The next items whose steps have not been queued, as many as are to be rendered together; false:
 * there are none left. */
bool kiln_group_next(struct kiln_run *r, struct kiln_group *ret);

/* --- start.c ---------------------------------------------------------------------------------- */
/* The state with which the item's steps begin: [channels, height, width] in fp32, in s. */
kt kiln_item_start(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item);

/* --- loop.c ----------------------------------------------------------------------------------- */
/* Queues all steps of the group; the last KILN_STEPS_AHEAD may still be under way.  A group that
 * does not fit into memory is left to be queued in smaller ones: its items have not begun then. */
void kiln_loop_denoise(struct kiln_run *r, const struct kiln_group *group);

/* --- decode.c --------------------------------------------------------------------------------- */
/* Queues what the item is wanted for: latent, trajectory, picture. */
void kiln_decode_item(struct kiln_run *r, struct kiln_item *item);

/* --- results.c -------------------------------------------------------------------------------- */
/* Takes over the results of the items that have all of them. */
void kiln_run_collect(struct kiln_run *r);

/* --- loras.c ---------------------------------------------------------------------------------- */
/* Fills r->loras: how this batch's LoRAs are named in what is said of its pictures. */
void kiln_run_name_loras(struct kiln_run *r, const struct kiln_lora_use *uses, size_t count);

#endif

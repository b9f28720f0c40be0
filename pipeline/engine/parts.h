/* parts.h - a batch that runs: what the files of this folder share, and nobody else.
 *
 * Calls go one way: a file calls functions that are declared above its own, never those below
 * (tests/source/test_one_way.sh).
 */
#ifndef KILN_ENGINE_PARTS_H
#define KILN_ENGINE_PARTS_H

#include "pipeline/engine/engine.h"
#include "pipeline/torch/async.h"

/* Steps in a GPU's queue at most: one runs and one waits, so that the GPU never waits for the host.
 * A cancel waits for these at most. */
#define KILN_STEPS_QUEUED_MAX 2

/* Pictures in a group at most: as many of 256 px as KILN_GROUP_ROWS allows. */
#define KILN_GROUP_MAX 16
_Static_assert(KILN_GROUP_MAX <= KILN_ASSIGN_MAX, "a group is part of a batch");

/* Results of an item that are copied to the host. */
enum {
    KILN_FETCH_LATENT,
    KILN_FETCH_TRAJECTORY,
    KILN_FETCH_PIXELS,
    KILN_FETCH_BAD,     /* whether the decoded picture is not finite */
    KILN_FETCH_SMALLER, /* and those after it */
    KILN_FETCHES = KILN_FETCH_SMALLER + DIFFUSIONZ_SMALLER_MAX
};

/* What becomes of that which a phase ends with, a clean latent but for STATE. */
enum kiln_phase_result {
    KILN_RESULT_LATENT, /* the next phase starts from them, or they are the pictures */
    KILN_RESULT_STATE,  /* none: the next phase goes on from the state, with other weights */
    KILN_RESULT_BEFORE, /* predictions of the prompts that the starts were rendered with; and */
    KILN_RESULT_AFTER   /* of the items' own: the starts, with the difference, are the latents */
};

/* The weights of a step. */
struct kiln_step_weights {
    uint32_t loras; /* of the batch's step_loras, a bit each */
    int set;        /* of the engine's weight sets */
};

/* Steps of a batch at one size, on one schedule and with the same weights. */
struct kiln_phase {
    struct kiln_schedule schedule;
    int64_t height, width; /* of the latent */
    int row;               /* of its first step in the time table */
    enum kiln_phase_result result;
    struct kiln_step_weights weights;
};
/* Coarse first has a small phase, perhaps a middle one, and a full one; an edit by difference two
 * predictions and the steps after them.  Each LoRA and each transformer that the model has for a
 * range of steps divides phases twice, and a full phase may repeat sigmas of those before it. */
#define KILN_PHASES_MAX (3 + 2 * 2 * 2 * KILN_STEP_LORAS_MAX)

struct kiln_item {
    const DiffusionZItem *in;
    DiffusionZOutput *out;
    struct kt_scope *scope;
    kt caption, negative; /* negative NULL: no guidance */
    kt start_caption;     /* of an edit by difference; else NULL, as are the next two */
    kt start, before;     /* to which the difference is added; the prediction of its prompt */
    /* The clean latent that the phase starts from, of any size, or NULL for noise; from the end of
     * the phase on its result, which is what the next phase starts from. */
    kt latent;
    kt noise; /* that a phase starts with, made early; of its size; or NULL */
    kt state; /* that the next phase goes on from, after KILN_RESULT_STATE; else NULL */
    /* [1, height, width]: 1 where the item is rendered anew, and 1 minus that; NULL: everywhere.
     * Such an item keeps latent and noise until its steps are done. */
    kt mask, kept;
    /* With variety: the features of the prompt, and the noise for them; else NULL. */
    kt features, feature_noise;
    kt trajectory; /* [steps, channels, height, width], or NULL */
    struct kt_fetch *fetches[KILN_FETCHES];
    int steps_done; /* of all phases */
    int steps_seen; /* of its groups, also after its end: what the device did for it */
    bool measured;  /* its change is on the way to the host */
    bool begun;     /* its steps of this phase have been queued */
    bool ended;     /* with an error in *out */
};

/* Pictures of one size and caption length that are rendered together, each with the bits that it
 * would have alone. */
struct kiln_group {
    struct kiln_item *items[KILN_GROUP_MAX];
    int count;
    int64_t rows; /* of each item's joint sequence */
};

struct kiln_run {
    struct kiln_engine *e;
    const DiffusionZBatch *batch; /* = &copy.  What it points to, but for progress, may be
                                   * freed after the first half */
    DiffusionZBatch copy;
    const struct kiln_lora_use *under; /* NULL: none; lent for the first half */
    DiffusionZOutput *outputs;
    struct kiln_phase phases[KILN_PHASES_MAX];
    int phase_count, steps;         /* of each item, in all phases */
    const struct kiln_phase *phase; /* the one that is queued; the last one from then on */
    struct kiln_weight_set *set;    /* the weights of the phase that was entered last */
    struct kiln_item items[KILN_ASSIGN_MAX];
    /* Steps that have not been seen to end, the oldest first. */
    struct {
        struct kiln_group group;
        int step;                /* of all phases */
        struct kt_fetch *bad;    /* per item: whether its latent is not finite */
        struct kt_fetch *change; /* after a first step: per item, where it is wanted; or NULL */
    } queued[KILN_STEPS_QUEUED_MAX];
    int queued_count;
    int progress;                /* the largest reported so far */
    struct kt_fetch *begin_mark; /* arrives when the device reaches this batch */
    struct kt_fetch *text_mark;  /* arrives when the captions are ready */
    bool new_shape;              /* a shape was rendered for the first time */
    double since_ms;             /* start of the stage that is timed */
    DiffusionZTimes times;
    char loras[512]; /* " (LoRAs NAME:SCALE, ...: try smaller scales)"; "" without LoRAs */
};

/* --- phases.c --------------------------------------------------------------------------------- */
/* The phases of a checked batch; returns how many. */
int kiln_phases_fill(const struct kiln_engine *e, const DiffusionZBatch *b,
                     struct kiln_phase ret[KILN_PHASES_MAX]);
/* The noise level at which the items of a checked batch begin at the size of the pictures. */
double kiln_phases_start_sigma(const struct kiln_engine *e, const DiffusionZBatch *b);
/* Whether the steps of two phases have the same weights. */
bool kiln_phase_same_weights(const struct kiln_phase *a, const struct kiln_phase *b);
/* The last one, at the size of the pictures. */
const struct kiln_phase *kiln_run_full(const struct kiln_run *r);

/* The caption that the phase's steps of the item have. */
kt kiln_phase_caption(const struct kiln_run *r, const struct kiln_item *item);

/* --- item.c ----------------------------------------------------------------------------------- */
/* Allocates the results that are wanted; false, with the item ended, without memory. */
bool kiln_item_allocate(const struct kiln_run *r, struct kiln_item *item);
/* Frees everything of the item but its results. */
void kiln_item_release(struct kiln_item *item);
/* Ends the item with an error; the other items go on. */
void kiln_item_end(struct kiln_item *item, const struct kiln_error *err);
/* Ends the item if its scope has failed or it is cancelled; returns whether it goes on. */
bool kiln_item_alive(struct kiln_item *item);
/* Whether the batch has pictures in smaller size i, and their sides. */
bool kiln_run_smaller(const struct kiln_run *r, int i, uint32_t *ret_width, uint32_t *ret_height);
/* Ends all items of the group with an error. */
void kiln_group_end(const struct kiln_group *group, const struct kiln_error *err);
/* Whether any item goes on. */
bool kiln_group_alive(const struct kiln_group *group);
/* Puts its items back, to be rendered in smaller groups; lowers the limit of later groups. */
void kiln_group_split(struct kiln_run *r, const struct kiln_group *group);

/* --- steps.c ---------------------------------------------------------------------------------- */
/* Adds the time since the last call to *stage. */
void kiln_run_lap(struct kiln_run *r, double *stage);
/* Whether the last queued step still runs. */
bool kiln_steps_under_way(const struct kiln_run *r);
/* Waits for the oldest queued step and notes how it has ended. */
void kiln_steps_take(struct kiln_run *r);
/* Waits for all queued steps. */
void kiln_steps_drain(struct kiln_run *r);

/* --- memory.c --------------------------------------------------------------------------------- */
/* Pixels of the phase's latents. */
int64_t kiln_run_pixels(const struct kiln_run *r);
/* Sets diffusionz_note: the size of the phase's pictures, then the text. */
KILN_PRINTF(2, 3) void kiln_run_note(const struct kiln_run *r, const char *fmt, ...);
/* Whether pictures of the phase's size are known to need all memory. */
bool kiln_memory_is_tight(const struct kiln_run *r);
/* Waits for the device, then frees the graphs, and with `all` the buffers of plans too. */
void kiln_memory_release(struct kiln_run *r, bool all);
/* Queues work for a group; s is a scope of its own. */
typedef void kiln_work_fn(struct kiln_run *r, struct kt_scope *s, const struct kiln_group *group,
                          void *arg);
/* Queues the work; without memory, frees graphs and tries again. side: in the side stream. */
int kiln_memory_try(struct kiln_run *r, const struct kiln_group *group, bool side, kiln_work_fn *fn,
                    void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Ends all items with the error; but a group that lacks memory is split instead. */
void kiln_memory_abandon(struct kiln_run *r, const struct kiln_group *group,
                         const struct kiln_error *err);
/* kiln_memory_try in the main stream; false if the group was abandoned. */
bool kiln_memory_try_group(struct kiln_run *r, const struct kiln_group *group, kiln_work_fn *fn,
                           void *arg);

/* kiln_memory_try of a pass of the VAE over the item's picture; fn is given how many rows a strip
 * has, an int, 0 for one piece.  Without memory in strips, then in strips of fewer rows, which is
 * remembered for the size. */
int kiln_memory_try_strips(struct kiln_run *r, struct kiln_item *item, bool side, kiln_work_fn *fn,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* --- text.c ----------------------------------------------------------------------------------- */
/* Queues the captions of all items; an item whose text fails is ended. */
void kiln_text_prepare(struct kiln_run *r);
/* Makes the captions again, which hold products of weights that have changed. */
void kiln_text_renew(struct kiln_run *r);
/* Encodes the prefetched texts of later batches, if there is memory beside the last decode.  A text
 * that fails is left to its own batch. */
void kiln_text_encode_prefetched(struct kiln_run *r);
/* At the first call, waits for the captions and counts that time as text_ms; time in which the
 * device was still at the batch before counts nowhere. */
void kiln_text_wait(struct kiln_run *r);

/* --- variety.c -------------------------------------------------------------------------------- */
/* Makes the item's noise on the features of its prompt, if it wants variety. */
void kiln_variety_prepare(struct kiln_run *r, struct kiln_item *item, kt features);
/* The caption of an item with variety at this step of the phase, in s; NULL if the buffer has it
 * already: that of the step before. */
kt kiln_variety_caption(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item,
                        int step);

/* --- group.c ---------------------------------------------------------------------------------- */
/* The next items to be rendered together; false if no item is left. */
bool kiln_group_next(struct kiln_run *r, struct kiln_group *ret);

/* --- mask.c ----------------------------------------------------------------------------------- */
/* Takes over the item's mask, if it has one; ends an item whose mask is unfit. */
void kiln_mask_take(struct kiln_run *r, struct kiln_item *item);
/* latent, the state of an item with a mask at this sigma, where what it keeps is its start. */
kt kiln_mask_apply(struct kt_scope *s, const struct kiln_item *item, kt latent, float sigma);

/* --- combine.c -------------------------------------------------------------------------------- */
/* The clean latent that the item's starts come to, in item's scope; ends an item of which one is
 * not finite, and returns NULL then. */
kt kiln_combine_starts(struct kiln_item *item, const int64_t shape[3]);

/* --- change.c --------------------------------------------------------------------------------- */
/* Copies, into s, the states before the phase's first step of the items whose change is measured;
 * NULL for others.  latents: of the group, [items,C,H,W].  Returns whether there are any. */
bool kiln_change_before(const struct kiln_run *r, struct kt_scope *s,
                        const struct kiln_group *group, kt latents, kt ret[KILN_GROUP_MAX]);
/* Queues, behind that step, the measure and its copy to the host: a value an item.  NULL without
 * memory: these items are not checked. */
struct kt_fetch *kiln_change_fetch(const struct kiln_run *r, const struct kiln_group *group,
                                   kt latents, const kt before[KILN_GROUP_MAX]);
/* Notes the changes of a group that have arrived; ends items whose change is out of bounds. */
void kiln_change_take(const struct kiln_group *group, const float *changes);

/* --- start.c ---------------------------------------------------------------------------------- */
/* Takes over the start that the item was given, if it was; ends an item whose start is unfit. */
void kiln_start_take(struct kiln_run *r, struct kiln_item *item);
/* The state that the phase starts from: [channels, height, width] in fp32, in s. */
kt kiln_start_state(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item);
/* What the phase has come to for the item, by its last state, in memory of its own; in s.  And
 * takes it over, into item->latent if the next phase starts from it. */
kt kiln_start_result(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item,
                     kt latent);
void kiln_start_keep(const struct kiln_run *r, struct kiln_item *item, kt result);
/* Makes the noise of the group's next phase, if there is one, while the device is busy. */
void kiln_start_prepare_noise(struct kiln_run *r, const struct kiln_group *group);

/* --- renew.c ---------------------------------------------------------------------------------- */
/* Whether a step of the phase replaces a share of its noise. */
bool kiln_renews(const struct kiln_run *r, int step);
/* The state that a step of the phase leads to, of what its Euler step has come to; in s. */
kt kiln_renew(const struct kiln_run *r, struct kt_scope *s, const struct kiln_item *item, kt state,
              int step);

/* --- loop.c ----------------------------------------------------------------------------------- */
/* Queues all steps of the group; the last KILN_STEPS_QUEUED_MAX may still run on return.  A group
 * that does not fit into memory is split: its items have not begun then. */
void kiln_loop_denoise(struct kiln_run *r, const struct kiln_group *group);

/* --- decode.c --------------------------------------------------------------------------------- */
/* Queues the decode and the copies of the item's latent, trajectory and picture. */
void kiln_decode_item(struct kiln_run *r, struct kiln_item *item);

/* --- results.c -------------------------------------------------------------------------------- */
/* Stores the results of items whose copies have all arrived. */
void kiln_run_collect(struct kiln_run *r);

/* --- loras.c ---------------------------------------------------------------------------------- */
/* Fills r->loras: the LoRAs in messages about the batch's pictures, which its author chose. */
void kiln_run_name_loras(struct kiln_run *r);
/* The LoRAs of a phase; returns their number. */
size_t kiln_phase_loras(const struct kiln_phase *phase, const DiffusionZBatch *b,
                        const struct kiln_lora_use *under,
                        struct kiln_lora_use uses[KILN_LORA_STACK_MAX]);

#endif

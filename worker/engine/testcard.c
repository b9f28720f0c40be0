/* testcard.c - the engine that draws a test card at once.
 *
 * Words in a prompt make it misbehave, so that tests and drills can meet a slow model, a failing
 * one and a job that kills its worker, with everything else real:
 *     @step_ms=N    each step takes N milliseconds (the slowest item of a batch counts)
 *     @fail=CODE    the item fails with that error code (schemas/error.h names them)
 *     @fail_all=CODE  nothing of the batch runs, as when a device breaks
 *     @lost         the device is found lost with this picture, and what is behind it in the batch
 *                   is not drawn; closing the engine hangs
 *     @crash        the process dies as by a segmentation fault, in the first step
 *     @change=X     the first step changes a start by X (1 without the word)
 *
 * A batch may begin anywhere, as with the real engine, which refuses the same: the card shows the
 * mode, and its blocks the start.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/pictures/downscale.h"
#include "schemas/clock.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "worker/engine/renderer.h"
#include "worker/engine/testcard_draw.h"

#define LATENT_CHANNELS 16
#define LATENT_FACTOR 8

/* The code after word, 0 if the prompt has no such word. */
static int word_code(const char *prompt, const char *word)
{
    char name[32];
    const char *at = strstr(prompt, word);
    if (!at)
        return 0;
    at += strlen(word);
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
    if (length >= sizeof name)
        return KILN_INTERNAL;
    memcpy(name, at, length);
    name[length] = '\0';
    int code = kiln_code_by_name(name);
    return code > 0 ? code : KILN_INTERNAL;
}

static void fail_item(DiffusionZOutput *output, int code, const char *text)
{
    output->error_code = code;
    output->error_msg = strdup(text);
}

/* Notes the items whose flag was raised; returns how many are still wanted. */
static int32_t look_at_flags(const DiffusionZBatch *batch, DiffusionZOutput *outputs)
{
    int32_t wanted = 0;
    for (int32_t i = 0; i < batch->item_count; i++) {
        const int32_t *cancel = batch->items[i].cancel;
        if (outputs[i].error_code == 0 && cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE))
            fail_item(&outputs[i], KILN_CANCELLED, "cancelled before a step");
        wanted += outputs[i].error_code == 0;
    }
    return wanted;
}

/* --- modes ------------------------------------------------------------------------------------ */

/* The schedule of the card: its sigmas fall evenly from 1. */
static double schedule(const DiffusionZBatch *batch, int32_t step)
{
    return 1.0 - (double)step / batch->num_steps;
}

/* The first step of the schedule after the start. */
static int32_t next_step(const DiffusionZBatch *batch)
{
    int32_t step = 0;
    if (batch->start == DIFFUSIONZ_FROM_STEP)
        return batch->start_step;
    while (batch->start == DIFFUSIONZ_FROM_SIGMA && step < batch->num_steps &&
           schedule(batch, step) >= batch->start_sigma)
        step++;
    return step;
}

/* Whether a picture may be of this size before it is enlarged to the next one. */
static bool size_valid(int32_t width, int32_t height, int32_t next_width, int32_t next_height)
{
    return width >= KILN_SIDE_MIN && width <= next_width && height >= KILN_SIDE_MIN &&
           height <= next_height && width % KILN_SIDE_STEP == 0 && height % KILN_SIDE_STEP == 0;
}

static bool start_valid(const DiffusionZBatch *batch)
{
    const bool middle = batch->middle_steps > 0;
    if (batch->start < DIFFUSIONZ_FROM_NOISE || batch->start > DIFFUSIONZ_FROM_SIGMA ||
        batch->start_step < 0 || batch->start_step >= batch->num_steps || batch->rest_steps < 0 ||
        batch->rest_steps > KILN_STEPS_MAX || batch->coarse_steps < 0 ||
        batch->coarse_steps > batch->num_steps || batch->middle_steps < 0 ||
        batch->middle_steps > (batch->coarse_steps ? batch->num_steps - batch->coarse_steps : 0) ||
        batch->coarse_skip < 0 ||
        batch->coarse_skip > (batch->coarse_steps ? batch->coarse_steps - 1 : 0))
        return false;
    if (batch->start == DIFFUSIONZ_FROM_SIGMA ? !(batch->start_sigma > 0 && batch->start_sigma <= 1)
                                              : batch->rest_steps > 0)
        return false;
    return batch->coarse_steps == 0 ||
           (batch->start == DIFFUSIONZ_FROM_SIGMA && batch->rest_steps > 0 &&
            size_valid(batch->coarse_width, batch->coarse_height,
                       middle ? batch->middle_width : batch->width,
                       middle ? batch->middle_height : batch->height) &&
            (!middle ||
             size_valid(batch->middle_width, batch->middle_height, batch->width, batch->height)));
}

static int check_starts(const DiffusionZBatch *batch, struct kiln_error *err)
{
    const bool needed = batch->coarse_skip > 0 ||
                        (batch->start != DIFFUSIONZ_FROM_NOISE && batch->coarse_steps == 0);
    if (!start_valid(batch))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "a batch that begins nowhere: start %d, step %d of %d", batch->start,
                         batch->start_step, batch->num_steps);
    if (batch->coarse_steps > 0 && batch->keep_trajectory)
        return kiln_fail(err, KILN_UNSUPPORTED, "no trajectory is kept of steps at several sizes");
    for (int32_t i = 0; i < batch->item_count; i++) {
        const DiffusionZItem *item = &batch->items[i];
        if (!batch->by_difference != !item->start_prompt)
            return kiln_fail(err, KILN_BAD_INPUT, "item %d: the prompt of its start is %s", i,
                             item->start_prompt ? "not needed" : "missing");
        if ((item->start_latent != NULL) + (item->start_rgb != NULL) != needed)
            return kiln_fail(err, KILN_BAD_INPUT, "item %d: %s", i,
                             needed ? "it needs one start" : "it has a start and needs none");
        if (item->start_mask && !needed)
            return kiln_fail(err, KILN_BAD_INPUT, "item %d: it has a mask and no start", i);
    }
    return 0;
}

/* The steps of a valid batch. */
static int32_t count_steps(const DiffusionZBatch *batch)
{
    if (batch->rest_steps > 0)
        return batch->coarse_steps - batch->coarse_skip + batch->middle_steps + batch->rest_steps;
    return batch->num_steps - next_step(batch) + (batch->start == DIFFUSIONZ_FROM_SIGMA ? 1 : 0) +
           (batch->by_difference ? KILN_EDIT_FORWARDS : 0);
}

static int32_t testcard_forwards(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    (void)engine;
    return start_valid(batch) ? count_steps(batch) : 0;
}

static double testcard_start_sigma(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    (void)engine;
    if (!start_valid(batch))
        return 0;
    if (batch->coarse_skip > 0)
        return schedule(batch, batch->coarse_skip);
    return batch->start == DIFFUSIONZ_FROM_SIGMA ? batch->start_sigma
                                                 : schedule(batch, next_step(batch));
}

/* What the card says of the batch; "" for an exact one. */
static void mode_text(const DiffusionZBatch *batch, char *out, size_t size)
{
    out[0] = '\0';
    if (batch->middle_steps > 0)
        snprintf(out, size, "COARSE %d+%d+%d", batch->coarse_steps, batch->middle_steps,
                 batch->rest_steps);
    else if (batch->coarse_steps > 0)
        snprintf(out, size, "COARSE %d+%d", batch->coarse_steps, batch->rest_steps);
    else if (batch->start == DIFFUSIONZ_FROM_STEP)
        snprintf(out, size, "%s %d", batch->by_difference ? "EDIT" : "START", batch->start_step);
    else if (batch->start == DIFFUSIONZ_FROM_SIGMA)
        snprintf(out, size, "%s %.4f", batch->by_difference ? "EDIT" : "START", batch->start_sigma);
}

/* A number that stands for prompt, variety and start. */
static uint64_t mark_of(const DiffusionZBatch *batch, const DiffusionZItem *item)
{
    const size_t pixels = (size_t)batch->width * (size_t)batch->height;
    uint64_t mark = kiln_testcard_mark(item->prompt, strlen(item->prompt));
    if (item->start_latent)
        mark ^= kiln_testcard_mark(item->start_latent, pixels / (LATENT_FACTOR * LATENT_FACTOR) *
                                                           LATENT_CHANNELS * sizeof(float));
    if (item->start_prompt)
        mark ^= kiln_testcard_mark(item->start_prompt, strlen(item->start_prompt));
    if (item->start_rgb)
        mark ^= kiln_testcard_mark(item->start_rgb, pixels * 3);
    if (item->start_mask)
        mark ^= kiln_testcard_mark(item->start_mask,
                                   pixels / (LATENT_FACTOR * LATENT_FACTOR) * sizeof(float));
    if (item->variety > 0)
        mark ^= kiln_testcard_mark(&item->variety, sizeof item->variety);
    return mark;
}

/* --- rendering -------------------------------------------------------------------------------- */

/* Gives the run of an item up whose first step changes its start more or less than its bounds. */
static void check_change(const DiffusionZItem *item, DiffusionZOutput *output)
{
    const char *at = strstr(item->prompt, "@change=");
    const double change = at ? strtod(at + strlen("@change="), NULL) : 1;
    if (item->change_most <= 0 || output->error_code)
        return;
    if (!(change >= item->change_least && change <= item->change_most)) {
        fail_item(output, KILN_BAD_INPUT, "the first step changes the start out of bounds");
        output->start_refused = 1;
        output->wasted = 1;
    }
    output->change = change;
}

static void walk_steps(const DiffusionZBatch *batch, DiffusionZOutput *outputs)
{
    long step_ms = 0;
    for (int32_t i = 0; i < batch->item_count; i++) {
        const char *at = strstr(batch->items[i].prompt, "@step_ms=");
        long ms = at ? strtol(at + strlen("@step_ms="), NULL, 10) : 0;
        step_ms = ms > 60000 ? 60000 : ms > step_ms ? ms : step_ms;
    }
    for (int32_t step = 0; step < count_steps(batch) && look_at_flags(batch, outputs) > 0; step++) {
        for (int32_t i = 0; i < batch->item_count; i++)
            if (outputs[i].error_code == 0 && strstr(batch->items[i].prompt, "@crash"))
                kill(getpid(), SIGKILL); /* as sudden as a fault, without a core file */
        if (step_ms > 0)
            nanosleep(&(struct timespec){step_ms / 1000, step_ms % 1000 * 1000000}, NULL);
        for (int32_t i = 0; i < batch->item_count && step == 0; i++)
            check_change(&batch->items[i], &outputs[i]);
        if (batch->progress)
            __atomic_store_n(batch->progress, step + 1, __ATOMIC_RELEASE);
    }
}

/* States before the steps: the picture's latent fading in, sigma falling. */
static int fill_trajectory(const DiffusionZBatch *batch, size_t values, DiffusionZOutput *output)
{
    const size_t steps = (size_t)count_steps(batch);
    const bool sigma_first = batch->start == DIFFUSIONZ_FROM_SIGMA;
    output->trajectory = malloc(steps * values * sizeof *output->trajectory);
    output->sigmas = malloc(steps * sizeof *output->sigmas);
    if (!output->trajectory || !output->sigmas)
        return KILN_NO_MEMORY;
    for (size_t step = 0; step < steps; step++) {
        double sigma = sigma_first && step == 0
                           ? batch->start_sigma
                           : schedule(batch, next_step(batch) + (int32_t)step - sigma_first);
        output->sigmas[step] = sigma;
        for (size_t i = 0; i < values; i++)
            output->trajectory[step * values + i] = (float)(1.0 - sigma) * output->latent[i];
    }
    return 0;
}

static int draw_item(const DiffusionZBatch *batch, const DiffusionZItem *item,
                     DiffusionZOutput *output)
{
    uint32_t width = (uint32_t)batch->width, height = (uint32_t)batch->height;
    size_t values = (size_t)LATENT_CHANNELS * (width / LATENT_FACTOR) * (height / LATENT_FACTOR);
    char mode[32];
    output->rgb = malloc((size_t)width * height * 3);
    output->latent = malloc(values * sizeof *output->latent);
    if (!output->rgb || !output->latent)
        return KILN_NO_MEMORY;
    mode_text(batch, mode, sizeof mode);
    kiln_testcard_draw(output->rgb, width, height, item->seed, mark_of(batch, item), mode);
    kiln_testcard_latent(output->rgb, width, height, output->latent);
    output->latent_channels = LATENT_CHANNELS;
    output->latent_height = batch->height / LATENT_FACTOR;
    output->latent_width = batch->width / LATENT_FACTOR;
    for (int32_t i = 0; i < batch->smaller_count && !batch->skip_decode; i++) {
        uint32_t w, h;
        if (!kiln_downscale_fit(width, height, (uint32_t)batch->smaller[i], &w, &h))
            continue;
        output->smaller[i] = malloc((size_t)w * h * 3);
        if (!output->smaller[i])
            return KILN_NO_MEMORY;
        kiln_downscale_ref(output->rgb, width, height, output->smaller[i], w, h);
    }
    if (batch->skip_decode) {
        free(output->rgb);
        output->rgb = NULL;
    }
    return batch->keep_trajectory ? fill_trajectory(batch, values, output) : 0;
}

static void testcard_release(DiffusionZOutput *output)
{
    free(output->error_msg);
    free(output->rgb);
    free(output->latent);
    free(output->trajectory);
    free(output->sigmas);
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++)
        free(output->smaller[i]);
    memset(output, 0, sizeof *output);
}

static int check_batch(const DiffusionZBatch *batch, struct kiln_error *err)
{
    if (batch->item_count < 1 || batch->width < KILN_SIDE_MIN || batch->width > KILN_SIDE_MAX ||
        batch->height < KILN_SIDE_MIN || batch->height > KILN_SIDE_MAX ||
        batch->width % KILN_SIDE_STEP || batch->height % KILN_SIDE_STEP ||
        batch->num_steps < KILN_STEPS_MIN || batch->num_steps > KILN_STEPS_MAX ||
        batch->smaller_count < 0 || batch->smaller_count > DIFFUSIONZ_SMALLER_MAX)
        return kiln_fail(
            err, KILN_BAD_INPUT, "a batch of %d items, %dx%d, %d steps, %d smaller sizes",
            batch->item_count, batch->width, batch->height, batch->num_steps, batch->smaller_count);
    int wrong = check_starts(batch, err);
    if (wrong != 0)
        return wrong;
    for (int32_t i = 0; i < batch->item_count; i++) {
        int code = word_code(batch->items[i].prompt, "@fail_all=");
        if (code != 0)
            return kiln_fail(err, code, "the test card was told to fail");
    }
    return 0;
}

struct testcard {
    struct kiln_renderer engine; /* first: the table is what others know */
    _Atomic bool lost;
};

/* All is done when it has begun; what is left to tell is how long it took. */
struct kiln_renderer_run {
    DiffusionZTimes times;
    bool lost;
};

static const char lost_text[] = "the test card's device is lost";

static int testcard_begin(struct kiln_renderer *engine, const DiffusionZBatch *batch,
                          DiffusionZOutput *outputs, struct kiln_renderer_run **ret,
                          struct kiln_error *err)
{
    struct testcard *card = (struct testcard *)engine;
    int code = check_batch(batch, err);
    if (code != 0)
        return code;
    struct kiln_renderer_run *run = calloc(1, sizeof *run);
    if (!run)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch");
    double start = kiln_monotonic_ms();
    memset(outputs, 0, sizeof *outputs * (size_t)batch->item_count);
    walk_steps(batch, outputs);
    double drawn = kiln_monotonic_ms();
    for (int32_t i = 0; i < batch->item_count; i++) {
        if (outputs[i].error_code != 0)
            continue;
        code = word_code(batch->items[i].prompt, "@fail=");
        if (code != 0) {
            fail_item(&outputs[i], code, "the test card was told to fail");
        } else if (draw_item(batch, &batch->items[i], &outputs[i]) != 0) {
            testcard_release(&outputs[i]);
            fail_item(&outputs[i], KILN_NO_MEMORY, "no memory for a test card");
        }
    }
    run->times =
        (DiffusionZTimes){.denoise_ms = drawn - start, .decode_ms = kiln_monotonic_ms() - drawn};
    run->times.device_ms = run->times.denoise_ms + run->times.decode_ms;
    for (int32_t i = 0; i < batch->item_count; i++) {
        run->lost = run->lost || strstr(batch->items[i].prompt, "@lost");
        if (!run->lost || outputs[i].error_code != 0)
            continue;
        testcard_release(&outputs[i]);
        fail_item(&outputs[i], KILN_DEVICE, lost_text);
    }
    if (run->lost)
        atomic_store(&card->lost, true);
    *ret = run;
    return 0;
}

static int testcard_finish(struct kiln_renderer_run *run, DiffusionZTimes *ret_times,
                           struct kiln_error *err)
{
    bool lost = run->lost;
    *ret_times = run->times;
    free(run);
    return lost ? kiln_fail(err, KILN_DEVICE, "%s", lost_text) : 0;
}

static void testcard_close(struct kiln_renderer *engine)
{
    struct testcard *card = (struct testcard *)engine;
    while (atomic_load(&card->lost))
        pause(); /* as in a driver that waits for its device */
    free(card);
}

int kiln_renderer_testcard_open(struct kiln_renderer **ret, struct kiln_error *err)
{
    struct testcard *card = calloc(1, sizeof *card);
    if (!card)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the engine");
    card->engine = (struct kiln_renderer){
        .name = "testcard",
        .model_name = "testcard",
        .model_hash = "7e57ca4d7e57ca4d",
        .renders_any_model = true,
        .latent_channels = LATENT_CHANNELS,
        .latent_factor = LATENT_FACTOR,
        .forwards = testcard_forwards,
        .start_sigma = testcard_start_sigma,
        .begin = testcard_begin,
        .finish = testcard_finish,
        .release = testcard_release,
        .close = testcard_close,
    };
    *ret = &card->engine;
    return 0;
}

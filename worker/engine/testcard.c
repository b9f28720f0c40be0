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
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/pictures/downscale.h"
#include "schemas/clock.h"
#include "schemas/limits.h"
#include "worker/engine/renderer.h"
#include "worker/engine/testcard_draw.h"

#define LATENT_CHANNELS 16

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

static void walk_steps(const DiffusionZBatch *batch, DiffusionZOutput *outputs)
{
    long step_ms = 0;
    for (int32_t i = 0; i < batch->item_count; i++) {
        const char *at = strstr(batch->items[i].prompt, "@step_ms=");
        long ms = at ? strtol(at + strlen("@step_ms="), NULL, 10) : 0;
        step_ms = ms > 60000 ? 60000 : ms > step_ms ? ms : step_ms;
    }
    for (int32_t step = 0; step < batch->num_steps && look_at_flags(batch, outputs) > 0; step++) {
        for (int32_t i = 0; i < batch->item_count; i++)
            if (outputs[i].error_code == 0 && strstr(batch->items[i].prompt, "@crash"))
                kill(getpid(), SIGKILL); /* as sudden as a fault, without a core file */
        if (step_ms > 0)
            nanosleep(&(struct timespec){step_ms / 1000, step_ms % 1000 * 1000000}, NULL);
        if (batch->progress)
            __atomic_store_n(batch->progress, step + 1, __ATOMIC_RELEASE);
    }
}

/* States before the steps: the picture's latent fading in, sigma falling from 1. */
static int fill_trajectory(const DiffusionZBatch *batch, size_t values, DiffusionZOutput *output)
{
    size_t steps = (size_t)batch->num_steps;
    output->trajectory = malloc(steps * values * sizeof *output->trajectory);
    output->sigmas = malloc(steps * sizeof *output->sigmas);
    if (!output->trajectory || !output->sigmas)
        return KILN_NO_MEMORY;
    for (size_t step = 0; step < steps; step++) {
        double sigma = 1.0 - (double)step / (double)steps;
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
    size_t values = (size_t)LATENT_CHANNELS * (width / 8) * (height / 8);
    output->rgb = malloc((size_t)width * height * 3);
    output->latent = malloc(values * sizeof *output->latent);
    if (!output->rgb || !output->latent)
        return KILN_NO_MEMORY;
    kiln_testcard_draw(output->rgb, width, height, item->seed, kiln_testcard_mark(item->prompt));
    kiln_testcard_latent(output->rgb, width, height, output->latent);
    output->latent_channels = LATENT_CHANNELS;
    output->latent_height = batch->height / 8;
    output->latent_width = batch->width / 8;
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
        .begin = testcard_begin,
        .finish = testcard_finish,
        .release = testcard_release,
        .close = testcard_close,
    };
    *ret = &card->engine;
    return 0;
}

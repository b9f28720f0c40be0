/* test_ways.c - whatever a batch begins from, it may be begun before the one ahead of it is
 * finished, and its pictures may be decoded in strips.
 */
#include <math.h>

#include "pipeline/engine/parts.h"
#include "tests/pipeline/one_context.h"
#include "tests/pipeline/ways.h"
#include "tests/support/halves.h"

#define BYTES (3 * WIDE * HIGH)
#define STRIP 4              /* rows of the latent, of 8 */
#define SQUARED_ERROR_MAX 2. /* 45 dB, as in test_vae_strips */

static DiffusionZItem items[KILN_TEST_WAYS][2];
static DiffusionZBatch batches[KILN_TEST_WAYS];

static int open_all(void **state)
{
    make_start();
    for (int way = 0; way < KILN_TEST_WAYS; way++) {
        items[way][0] = (DiffusionZItem){.prompt = "a star", .seed = 1};
        items[way][1] = (DiffusionZItem){.prompt = "a ring and a box", .seed = 2};
        batches[way] = (DiffusionZBatch){.items = items[way],
                                         .item_count = 2,
                                         .width = WIDE,
                                         .height = HIGH,
                                         .num_steps = STEPS};
        kiln_test_way(way, &batches[way], items[way]);
    }
    return open_context(state);
}

static void each_way_is_the_same_in_halves(void **state)
{
    (void)state;
    halves_compare(ctx, batches, KILN_TEST_WAYS);
}

static void run(int way, DiffusionZOutput out[2])
{
    if (diffusionz_run_batch(ctx, &batches[way], out, NULL))
        fail_msg("way %d: %s", way, diffusionz_last_error());
    for (int i = 0; i < 2; i++)
        if (out[i].error_code)
            fail_msg("way %d, item %d: %s", way, i, out[i].error_msg);
}

static void each_way_is_decoded_in_strips(void **state)
{
    (void)state;
    struct kiln_engine *e = ctx->engine;
    for (int way = 0; way < KILN_TEST_WAYS; way++) {
        DiffusionZOutput whole[2], strips[2];
        run(way, whole);
        e->strip_pixels = 1;
        e->strip_rows = STRIP;
        run(way, strips);
        e->strip_pixels = 0;
        e->strip_rows = 0;
        for (int i = 0; i < 2; i++) {
            double error = 0;
            assert_memory_equal(strips[i].latent, whole[i].latent, VALUES * sizeof(float));
            for (int at = 0; at < BYTES; at++)
                error += pow((double)strips[i].rgb[at] - whole[i].rgb[at], 2) / BYTES;
            if (!(error <= SQUARED_ERROR_MAX))
                fail_msg("way %d, item %d: strips differ by %g", way, i, error);
        }
        diffusionz_release_outputs(whole, 2);
        diffusionz_release_outputs(strips, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_is_the_same_in_halves),
        cmocka_unit_test(each_way_is_decoded_in_strips),
    };
    return cmocka_run_group_tests(tests, open_all, close_context);
}

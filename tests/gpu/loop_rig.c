/* loop_rig.c - see loop_rig.h. */
#include "tests/gpu/loop_rig.h"

#include "schemas/clock.h"

void expect_same(const char *what, DiffusionZOutput *a, DiffusionZOutput *b, int width, int height)
{
    size_t values = (size_t)a->latent_channels * (size_t)a->latent_height * (size_t)a->latent_width;
    size_t off = 0, pixels = 0;
    for (size_t i = 0; i < values; i++)
        off += memcmp(&a->latent[i], &b->latent[i], sizeof(float)) != 0;
    for (size_t i = 0; i < (size_t)width * (size_t)height * 3; i++)
        pixels += a->rgb[i] != b->rgb[i];
    if (off || pixels)
        fail_msg("%s, %d x %d: %zu of %zu values of the latent and %zu bytes of the picture differ",
                 what, width, height, off, values, pixels);
    diffusionz_release_outputs(a, 1);
    diffusionz_release_outputs(b, 1);
}

size_t graphs_of(const DiffusionZContext *ctx)
{
    return kiln_graph_cache_count(ctx->engine->graphs);
}

void expect_recorded(const DiffusionZContext *ctx)
{
    if (diffusionz_note(ctx)[0])
        fail_msg("%s", diffusionz_note(ctx));
    assert_true(graphs_of(ctx) > 0);
}

double seconds(void)
{
    return kiln_monotonic_ms() / 1e3;
}

/* pools.c - renders pools of donors and what is drawn from them, for variety; see teleport.h.
 *
 * Latents alone, never pictures: variety is the distance of low-pass latents
 * (pipeline/bench/detail.h).
 */
#include <stdlib.h>

#include "pipeline/bench/detail.h"
#include "worker/bench/teleport/teleport.h"

#define DONORS KILN_TELEPORT_DONORS_MAX
#define DRAWN (KILN_TELEPORT_DONORS_MAX * KILN_TELEPORT_USES_MAX)
#define CELLS (KILN_LOW_CELLS * KILN_LOW_CELLS)

/* Numbers of the noise of a pool's pictures. */
enum { NOISE_DONORS = 0, NOISE_DRAWN = DONORS, NOISE_FULL = DONORS + DRAWN };

struct pool {
    struct kiln_teleport_bench *bench;
    const struct kiln_teleport_table *table;
    const struct kiln_teleport_pair *pair;
    int channels;
    float *donors[DONORS];                    /* final latents */
    float *low_donors, *low_drawn, *low_full; /* [channels * CELLS] of each, one behind the other */
};

/* Renders `count` pictures; from the donors in turn if depth is not 0.  Their latents become
 * `keep`, if that is not NULL. */
static int render(struct pool *pool, const char *prompt, int first_noise, int count, int32_t depth,
                  float **keep, float *low, struct kiln_error *err)
{
    struct kiln_teleport_bench *bench = pool->bench;
    const int batch = kiln_pictures_batch(bench->options.device);
    int code = 0;
    for (int at = 0; at < count && code == 0; at += batch) {
        const int some = count - at < batch ? count - at : batch;
        DiffusionZItem items[KILN_PICTURES_BATCH];
        DiffusionZOutput outputs[KILN_PICTURES_BATCH] = {0};
        for (int i = 0; i < some; i++)
            items[i] = (DiffusionZItem){
                .prompt = prompt,
                .seed = kiln_teleport_seed(&bench->options, pool->pair->line, KILN_NOISE_POOL,
                                           (uint32_t)(first_noise + at + i)),
                .start_latent = depth ? pool->donors[(at + i) % DONORS] : NULL,
            };
        code = keep ? kiln_teleport_render_donors(bench, pool->table, items, some, outputs, err)
                    : kiln_teleport_render(bench, pool->table->size, bench->options.steps, depth,
                                           false, items, some, outputs, err);
        for (int i = 0; i < some && code == 0; i++) {
            kiln_low_pass(outputs[i].latent, pool->channels, outputs[i].latent_height,
                          outputs[i].latent_width,
                          low + (ptrdiff_t)(at + i) * pool->channels * CELLS);
            if (!keep)
                continue;
            keep[at + i] = outputs[i].latent; /* taken over */
            outputs[i].latent = NULL;
        }
        diffusionz_release_outputs(outputs, some);
    }
    return code;
}

static int fill_pool(struct pool *pool, struct kiln_teleport_pool *ret, struct kiln_error *err)
{
    struct kiln_teleport_bench *bench = pool->bench;
    int code = 0;
    if (!ret->has[0]) {
        code = render(pool, pool->pair->target, NOISE_FULL, DONORS + DRAWN, 0, NULL, pool->low_full,
                      err);
        if (code)
            return code;
        kiln_teleport_vary_full(pool->low_full, pool->channels, &ret->full);
        ret->has[0] = true;
        code = kiln_teleport_record_pool(bench, pool->table, ret, 0, err);
    }
    for (int32_t depth = bench->first_depth; depth < bench->end_depth && code == 0; depth++) {
        if (ret->has[depth])
            continue;
        if (!pool->donors[0])
            code = render(pool, pool->pair->donor, NOISE_DONORS, DONORS, 0, pool->donors,
                          pool->low_donors, err);
        code = code ? code
                    : render(pool, pool->pair->target, NOISE_DRAWN, DRAWN, depth, NULL,
                             pool->low_drawn, err);
        if (code)
            return code;
        kiln_teleport_vary(pool->low_donors, pool->low_drawn, pool->channels, &ret->skip[depth]);
        ret->has[depth] = true;
        code = kiln_teleport_record_pool(bench, pool->table, ret, depth, err);
    }
    return code;
}

int kiln_teleport_fill_pools(struct kiln_teleport_bench *bench, struct kiln_teleport_table *table,
                             struct kiln_error *err)
{
    int32_t channels, factor;
    int code = 0;
    diffusionz_latent_shape(bench->pictures.context, &channels, &factor);
    const size_t one = (size_t)channels * CELLS * sizeof(float);
    struct pool pool = {.bench = bench, .table = table, .channels = channels};
    pool.low_donors = malloc(DONORS * one);
    pool.low_drawn = malloc(DRAWN * one);
    pool.low_full = malloc((DONORS + DRAWN) * one);
    if (!pool.low_donors || !pool.low_drawn || !pool.low_full)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to compare latents");
    for (size_t i = 0; i < table->pool_count && code == 0; i++) {
        kiln_teleport_progress(table, "pools", i, table->pool_count);
        pool.pair = &bench->pairs.items[table->pools[i].pair];
        code = fill_pool(&pool, &table->pools[i], err);
        for (int d = 0; d < DONORS; d++) {
            free(pool.donors[d]);
            pool.donors[d] = NULL;
        }
    }
    kiln_teleport_progress(table, "pools", 0, 0);
    free(pool.low_donors);
    free(pool.low_drawn);
    free(pool.low_full);
    return code;
}

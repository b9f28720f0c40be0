/* bench_image.c - how long decodes and the text encoder take at full size on cuda:0: medians,
 * waiting for the device, with random weights.
 *
 *     bench_image
 *
 * Decodes of four sizes, whole and in strips; prompts one at a time and eight, computed and
 * recorded, in bf16 and with 8-bit weights, on an idle host and beside threads that keep every
 * processor busy.  Results are not looked at: test_image_cuda and test_text_cuda do that.
 */
#include <pthread.h>

#include "pipeline/model/graph_cache.h"
#include "schemas/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image_rig.h"
#include "tests/support/measure.h"

static struct kt_scope *open_gpu(void)
{
    struct kiln_error err;
    if (kt_device_open(0, &err))
        fail_msg("%s", err.text);
    return kt_scope_new(0);
}

#define RUNS 9

/* Prints the first run and the median of the later ones. */
static void report(const char *what, void (*run)(struct kt_scope *s, const void *of),
                   const void *of)
{
    double ms[RUNS], first = 0;
    for (int i = -2; i < RUNS; i++) {
        struct kt_scope *s = kt_scope_new(0);
        double begin = kiln_monotonic_ms();
        run(s, of);
        kt_wait(s);
        double took = kiln_monotonic_ms() - begin;
        rig_check(s);
        kt_scope_free(s);
        first = i == -2 ? took : first;
        ms[i < 0 ? 0 : i] = took;
    }
    const double median = test_median(ms, RUNS), best = ms[0];
    size_t used = 0, held = 0;
    (void)kt_device_memory(0, &used, &held);
    printf("%-36s %8.2f ms (first %.0f, best %.2f); %.2f GB held\n", what, median, first, best,
           (double)held / 1e9);
    fflush(stdout);
}

struct decode_case {
    const struct kiln_vae *vae;
    kt latent; /* random: a GPU computes with zeros faster than with anything else */
    int rows;  /* of a strip; 0: as the size has it */
};

static void run_decode(struct kt_scope *s, const void *of)
{
    const struct decode_case *c = of;
    kt picture = c->rows ? kiln_vae_decode_strips(c->vae, s, c->latent, c->rows)
                         : kiln_vae_decode(c->vae, s, c->latent);
    (void)kt_rgb8(s, picture, kt_zeros(s, KT_I32, 1, (int64_t[]){1}));
}

static void time_decodes(void **state)
{
    (void)state;
    struct kt_scope *scope = open_gpu();
    const struct kiln_vae_config config = rig_vae_config();
    struct kiln_vae *vae = rig_vae(scope, &config);
    static const int64_t sides[] = {512, 1024, 1536, 2048};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int strips = 0; strips < 2; strips++) {
            const int64_t side = sides[i] / config.factor;
            const struct decode_case c = {
                vae, kt_randn(scope, 11, 3, (int64_t[]){config.latent_channels, side, side}),
                strips ? KILN_VAE_STRIP_ROWS : 0};
            char what[64];
            snprintf(what, sizeof what, "decode %lld px%s", (long long)sides[i],
                     strips ? ", strips" : "");
            kt_device_trim(0);
            report(what, run_decode, &c);
        }
    kiln_vae_free(vae);
    kt_scope_free(scope);
    kt_device_trim(0);
}

struct text_case {
    const struct kiln_text_encoder *te;
    const struct kiln_prompt_ids *prompts;
    size_t n;
    struct kiln_graph_cache *graphs; /* NULL: every pass is computed */
};

static void run_text(struct kt_scope *s, const void *of)
{
    const struct text_case *c = of;
    kt features[8];
    kiln_text_encoder_run_many(c->te, s, c->prompts, c->n, c->graphs, features, NULL);
}

static void time_text_of(struct kt_scope *scope, enum kt_dtype dtype, const char *name)
{
    const struct kiln_text_config config = rig_text_config();
    struct kiln_text_encoder *te = rig_text_encoder(scope, &config, dtype);
    struct kiln_graph_cache *graphs = kiln_graph_cache_new(0);
    static int32_t ids[512];
    static const size_t cases[][2] = {{1, 24}, {1, 64}, {1, 256}, {1, 512}, {8, 64}, {8, 512}};
    assert_non_null(graphs);
    rig_ids(ids, 512, config.vocab, 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_prompt_ids prompts[8];
        for (size_t k = 0; k < 8; k++)
            prompts[k] = (struct kiln_prompt_ids){ids, cases[i][1]};
        for (int way = 0; way < 2; way++) {
            const struct text_case c = {te, prompts, cases[i][0], way ? graphs : NULL};
            char what[64];
            if (way && cases[i][0] * cases[i][1] > 512)
                continue; /* too many rows to be recorded */
            snprintf(what, sizeof what, "text%s, %zu x %zu tokens%s", name, cases[i][0],
                     cases[i][1], way ? ", recorded" : "");
            report(what, run_text, &c);
        }
    }
    assert_int_equal(kiln_graph_cache_count(graphs), 4); /* 24 and 64 tokens share one */
    kiln_graph_cache_free(graphs);
    kiln_text_encoder_free(te);
}

static void time_text(void **state)
{
    (void)state;
    for (int i = 0; i < (kt_device_likes_e4m3(0) ? 2 : 1); i++) {
        struct kt_scope *scope = open_gpu();
        time_text_of(scope, i ? KT_E4M3 : KT_BF16, i ? " e4m3" : "");
        kt_scope_free(scope);
        kt_device_trim(0);
    }
}

static void *compute_for_ever(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE))
        ;
    return NULL;
}

/* The same beside as many threads that compute as the host has processors, as a worker's pictures
 * are compressed beside its next prompts. */
static void time_text_on_a_busy_host(void **state)
{
    enum { MOST = 256 };
    static pthread_t threads[MOST];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int stop = 0, count = 0;
    while (count < processors && count < MOST &&
           pthread_create(&threads[count], NULL, compute_for_ever, &stop) == 0)
        count++;
    printf("beside %d threads that compute:\n", count);
    time_text(state);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

int main(void)
{
    const struct CMUnitTest timings[] = {
        cmocka_unit_test(time_decodes),
        cmocka_unit_test(time_text),
        cmocka_unit_test(time_text_on_a_busy_host),
    };
    need_gpu();
    return cmocka_run_group_tests_name("image_times", timings, NULL, NULL);
}

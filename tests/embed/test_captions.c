/* test_captions.c - caption features with an encoder of the test's own: the fit, stored tokens and
 * the score of late interaction, the embedder, and files that lie.
 */
#include "tests/embed/golden_files.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "pipeline/embed/captions/captions.h"
#include "pipeline/embed/captions/token_rows.h"

enum { DIMS = 24, REMOVED = 3 };

static uint64_t seed = 31;

static float uniform(void) /* -1 to 1 */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}

static double product(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* --- the fit ---------------------------------------------------------------------------------- */

/* Rows whose principal components are known: a mean, three directions that each mix two axes, and
 * little noise on all others. */
static void make_row(float *row)
{
    const float strengths[REMOVED] = {9, 5, 3};
    for (size_t i = 0; i < DIMS; i++)
        row[i] = 7 + 0.2f * uniform();
    for (size_t k = 0; k < REMOVED; k++) {
        const float share = strengths[k] * uniform();
        row[2 * k] += 0.6f * share;
        row[2 * k + 1] += 0.8f * share;
    }
}

static struct kiln_caption_fit make_fit(const char *model)
{
    struct kiln_caption_fitting *f = kiln_caption_fitting_new(DIMS);
    struct kiln_caption_fit fit;
    struct kiln_error err;
    float row[DIMS];
    assert_non_null(f);
    for (int i = 0; i < 20000; i++) {
        make_row(row);
        kiln_caption_fitting_add(f, row);
    }
    if (kiln_caption_fitting_finish(f, REMOVED, model, &fit, &err))
        fail_msg("%s", err.text);
    kiln_caption_fitting_free(f);
    return fit;
}

static void test_a_fit_finds_mean_and_directions(void **state)
{
    (void)state;
    struct kiln_caption_fit fit = make_fit("abc");
    for (size_t i = 0; i < DIMS; i++)
        assert_true(fabsf(fit.mean[i] - 7) < 0.1f);
    for (size_t k = 0; k < REMOVED; k++) {
        const float *d = fit.removed + k * DIMS;
        assert_true(fabsf(d[2 * k] - 0.6f) < 0.02f && fabsf(d[2 * k + 1] - 0.8f) < 0.02f);
        for (size_t other = 0; other <= k; other++)
            assert_true(fabs(product(d, fit.removed + other * DIMS, DIMS) - (other == k)) < 1e-5);
    }
    float row[DIMS];
    make_row(row);
    kiln_caption_fit_apply(&fit, row);
    for (size_t k = 0; k < REMOVED; k++)
        assert_true(fabs(product(row, fit.removed + k * DIMS, DIMS)) < 1e-4);
    kiln_caption_fit_release(&fit);
}

static void test_a_fit_wants_enough_captions(void **state)
{
    (void)state;
    struct kiln_caption_fitting *f = kiln_caption_fitting_new(DIMS);
    struct kiln_caption_fit fit;
    struct kiln_error err;
    float row[DIMS];
    for (int i = 0; i < KILN_FIT_ROWS_MIN - 1; i++) {
        make_row(row);
        kiln_caption_fitting_add(f, row);
    }
    assert_int_equal(kiln_caption_fitting_finish(f, 1, "abc", &fit, &err), KILN_BAD_INPUT);
    kiln_caption_fitting_add(f, row);
    assert_int_equal(kiln_caption_fitting_finish(f, DIMS / 4 + 1, "abc", &fit, &err),
                     KILN_BAD_INPUT);
    assert_int_equal(kiln_caption_fitting_finish(f, DIMS / 4, "abc", &fit, &err), 0);
    kiln_caption_fit_release(&fit);
    kiln_caption_fitting_free(f);
    assert_null(kiln_caption_fitting_new(0));
    assert_null(kiln_caption_fitting_new(KILN_FIT_DIMS_MAX + 1));
}

static void test_a_fit_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct kiln_caption_fit fit = make_fit("abc"), again;
    struct kiln_error err;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    assert_int_equal(kiln_caption_fit_read("fit.safetensors", &again, &err), 0);
    assert_int_equal(again.dims, DIMS);
    assert_int_equal(again.directions, REMOVED);
    assert_string_equal(again.model, "abc");
    assert_memory_equal(again.mean, fit.mean, DIMS * sizeof(float));
    assert_memory_equal(again.removed, fit.removed, REMOVED * DIMS * sizeof(float));
    kiln_caption_fit_release(&again);

    const float good = fit.mean[3];
    fit.mean[3] = NAN;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    assert_int_equal(kiln_caption_fit_read("fit.safetensors", &again, &err), KILN_CORRUPT);
    fit.mean[3] = good;
    const struct kiln_st_tensor short_mean[] = {
        {"directions", KILN_ST_F32, 2, {REMOVED, DIMS}, fit.removed, REMOVED * DIMS * 4},
        {"mean", KILN_ST_F32, 1, {DIMS - 1}, fit.mean, (DIMS - 1) * 4}};
    const char *const metadata[] = {"format", "kiln-captions-1", "model", "abc", NULL};
    assert_int_equal(kiln_st_write("fit.safetensors", short_mean, 2, metadata, &err), 0);
    assert_int_equal(kiln_caption_fit_read("fit.safetensors", &again, &err), KILN_CORRUPT);
    assert_int_equal(kiln_st_write("fit.safetensors", short_mean, 2, NULL, &err), 0);
    assert_int_equal(kiln_caption_fit_read("fit.safetensors", &again, &err), KILN_CORRUPT);
    assert_int_equal(kiln_caption_fit_read("none", &again, &err), KILN_NOT_FOUND);
    kiln_caption_fit_release(&fit);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void fill(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = 3 * uniform();
}

/* The definition, not quantised. */
static double exact_score(const float *query, size_t queries, const float *tokens, size_t count)
{
    double sum = 0, lengths = 0;
    for (size_t i = 0; i < queries; i++) {
        const float *q = query + i * DIMS;
        const double length = sqrt(product(q, q, DIMS));
        double best = -1;
        for (size_t k = 0; k < count; k++) {
            const float *t = tokens + k * DIMS;
            best = fmax(best, product(q, t, DIMS) / length / sqrt(product(t, t, DIMS)));
        }
        sum += length * best;
        lengths += length;
    }
    return sum / lengths;
}

static void test_scores_are_those_of_the_definition(void **state)
{
    (void)state;
    float query[5 * DIMS], tokens[KILN_TOKEN_ROWS_MAX * DIMS];
    uint8_t stored[4 + KILN_TOKEN_ROWS_MAX * (8 + DIMS)];
    uint8_t other[4 + 5 * (8 + DIMS)];
    struct kiln_error err;
    for (size_t count = 1; count <= KILN_TOKEN_ROWS_MAX; count += 7) {
        struct kiln_token_query *q;
        fill(query, 5 * DIMS);
        fill(tokens, count * DIMS);
        kiln_token_rows_encode(tokens, count, DIMS, stored);
        assert_int_equal(kiln_token_query_new(query, 5, DIMS, &q, &err), 0);
        const size_t size = kiln_token_rows_size(count, DIMS);
        assert_true(size <= sizeof stored);
        assert_true(fabs(kiln_token_query_score(q, stored, size) -
                         exact_score(query, 5, tokens, count)) < 0.01);
        kiln_token_query_free(q);
        assert_int_equal(kiln_token_query_new(tokens, 1, DIMS, &q, &err), 0);
        assert_true(kiln_token_query_score(q, stored, size) > 0.99f); /* its own first token */
        kiln_token_query_free(q);
        fill(query, 5 * DIMS);
        kiln_token_rows_encode(query, 5, DIMS, other);
        assert_int_equal(kiln_token_query_of(other, kiln_token_rows_size(5, DIMS), DIMS, &q, &err),
                         0);
        assert_true(fabs(kiln_token_query_score(q, stored, size) -
                         exact_score(query, 5, tokens, count)) < 0.01);
        kiln_token_query_free(q);
    }
}

static void test_stored_bytes_that_lie_score_nothing(void **state)
{
    (void)state;
    float tokens[3 * DIMS];
    uint8_t stored[4 + 3 * (8 + DIMS)];
    struct kiln_token_query *q;
    struct kiln_error err;
    const size_t size = kiln_token_rows_size(3, DIMS);
    fill(tokens, 3 * DIMS);
    tokens[DIMS] = NAN; /* the second token says nothing, and counts for nothing */
    kiln_token_rows_encode(tokens, 3, DIMS, stored);
    assert_int_equal(kiln_token_query_new(tokens, 3, DIMS, &q, &err), 0);
    assert_true(kiln_token_query_score(q, stored, size) > 0.99f);
    assert_true(kiln_token_query_score(q, stored, size - 1) == -2);
    assert_true(kiln_token_query_score(q, stored, 3) == -2);
    assert_true(kiln_token_query_score(q, NULL, 0) == -2);
    stored[0] = 200; /* tokens */
    assert_true(kiln_token_query_score(q, stored, size) == -2);
    stored[0] = 3;
    stored[2]++; /* dims */
    assert_true(kiln_token_query_score(q, stored, size) == -2);
    stored[2]--;
    memset(stored + 4, 0xff, 3 * 4); /* scales that are no numbers */
    assert_true(kiln_token_query_score(q, stored, size) == -2);
    kiln_token_query_free(q);
    assert_int_equal(kiln_token_query_of(stored, size, DIMS, &q, &err), 0);
    kiln_token_rows_encode(tokens, 3, DIMS, stored);
    assert_true(kiln_token_query_score(q, stored, size) == 0);
    kiln_token_query_free(q);
    assert_int_equal(kiln_token_query_of(stored, size - 1, DIMS, &q, &err), KILN_CORRUPT);
    assert_int_equal(kiln_token_query_of(stored, size, DIMS - 1, &q, &err), KILN_CORRUPT);
    assert_int_equal(kiln_token_query_of(NULL, 0, DIMS, &q, &err), KILN_CORRUPT);
    assert_int_equal(kiln_token_query_new(tokens, 0, DIMS, &q, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_token_query_new(tokens, 1, KILN_TOKEN_DIMS_MAX + 1, &q, &err),
                     KILN_BAD_INPUT);
}

/* --- the embedder ----------------------------------------------------------------------------- */

static int closed;

/* A token for each letter, whose features depend on the letter; '!' fails. */
static int encode_letters(void *arg, const char *text, size_t len, float *features,
                          size_t *ret_count, struct kiln_error *err)
{
    (void)arg;
    *ret_count = 0;
    for (size_t i = 0; i < len && *ret_count < KILN_CAPTION_TOKENS_MAX; i++) {
        if (text[i] == '!')
            return kiln_fail(err, KILN_DEVICE, "no");
        for (size_t d = 0; d < DIMS; d++)
            features[*ret_count * DIMS + d] = 7 + (d == (size_t)(uint8_t)text[i] % DIMS ? 2 : 0);
        ++*ret_count;
    }
    return 0;
}

static void close_letters(void *arg)
{
    (void)arg;
    closed++;
}

static const struct kiln_caption_encoder letters = {
    .encode = encode_letters, .close = close_letters, .width = DIMS, .model = "abc"};

static void test_the_embedder_pools_and_fits(void **state)
{
    (void)state;
    struct kiln_caption_fit fit = make_fit("abc");
    struct kiln_embedder *e;
    struct kiln_error err;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    if (kiln_captions_open(&letters, "fit.safetensors", NULL, &e, &err))
        fail_msg("%s", err.text);
    const struct kiln_embed_info *info = kiln_embedder_info(e);
    assert_string_equal(info->kind, "captions");
    assert_int_equal(info->dims, DIMS);
    assert_int_equal(info->token_dims, DIMS);
    assert_false(info->learned);
    assert_int_equal(strncmp(info->recipe, "captions-24-", 12), 0);
    const struct kiln_embed_text texts[] = {{"hi", 2}, {"", 0}, {"ih", 2}, {"hijk", 4}};
    float rows[4 * DIMS], expected[DIMS];
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 4, rows, &err), 0);
    size_t count = 0;
    float again[DIMS], features[KILN_TOKEN_ROWS_MAX * DIMS];
    assert_int_equal(kiln_embedder_embed_tokens(e, KILN_EMBED_QUERY, &texts[0], again, features,
                                                KILN_TOKEN_ROWS_MAX, &count, &err),
                     0);
    assert_int_equal(count, 2);
    assert_memory_equal(again, rows, sizeof again);
    assert_true(fabs(product(features, features, DIMS) - 1) < 1e-5);
    size_t letters_count;
    float own[4 * DIMS];
    assert_int_equal(encode_letters(NULL, "hi", 2, own, &letters_count, &err), 0);
    assert_true(fabs(product(features, own, DIMS) - sqrt(product(own, own, DIMS))) < 1e-4);
    for (size_t d = 0; d < DIMS; d++)
        expected[d] = (own[d] + own[DIMS + d]) / 2;
    kiln_caption_fit_apply(&fit, expected);
    const double size = sqrt(product(expected, expected, DIMS));
    for (size_t d = 0; d < DIMS; d++) {
        assert_true(fabs(rows[d] - expected[d] / size) < 1e-5);
        assert_true(rows[DIMS + d] == 0);                         /* no token, no evidence */
        assert_true(fabsf(rows[2 * DIMS + d] - rows[d]) < 1e-5f); /* a mean has no order */
    }
    assert_true(fabs(product(rows + 3 * DIMS, rows + 3 * DIMS, DIMS) - 1) < 1e-5);
    char longest[100];
    memset(longest, 'x', sizeof longest);
    const struct kiln_embed_text hard[] = {{longest, sizeof longest}, {"\xff", 1}};
    assert_int_equal(kiln_embedder_embed_tokens(e, KILN_EMBED_QUERY, &hard[0], rows, features,
                                                KILN_TOKEN_ROWS_MAX, &count, &err),
                     0);
    assert_int_equal(count, KILN_TOKEN_ROWS_MAX);
    assert_int_equal(kiln_embedder_embed_tokens(e, KILN_EMBED_QUERY, &hard[1], rows, features,
                                                KILN_TOKEN_ROWS_MAX, &count, &err),
                     KILN_BAD_INPUT);
    assert_int_equal(
        kiln_embedder_embed(e, KILN_EMBED_QUERY, &(struct kiln_embed_text){"a!", 2}, 1, rows, &err),
        KILN_DEVICE);
    kiln_embedder_close(e);
    kiln_caption_fit_release(&fit);
}

static void test_a_head_maps_tokens_and_names_another_recipe(void **state)
{
    (void)state;
    struct kiln_caption_fit fit = make_fit("abc");
    struct kiln_embedder *plain, *e;
    struct kiln_caption_head head;
    struct kiln_error err;
    float row[DIMS], plain_row[DIMS], features[2 * DIMS], expected[2 * DIMS], own[2 * DIMS];
    size_t count;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    assert_int_equal(kiln_captions_open(&letters, "fit.safetensors", NULL, &plain, &err), 0);
    if (kiln_captions_open(&letters, "fit.safetensors", golden("caption_head.safetensors"), &e,
                           &err))
        fail_msg("%s", err.text);
    assert_int_equal(kiln_embedder_info(e)->dims, DIMS);
    assert_int_equal(kiln_embedder_info(e)->token_dims, 8);
    assert_true(kiln_embedder_info(e)->learned);
    assert_string_not_equal(kiln_embedder_info(e)->recipe, kiln_embedder_info(plain)->recipe);
    assert_int_equal(kiln_caption_head_read(golden("caption_head.safetensors"), &head, &err), 0);
    const struct kiln_embed_text text = {"hi", 2};
    assert_int_equal(encode_letters(NULL, "hi", 2, own, &count, &err), 0);
    for (int use = KILN_EMBED_PASSAGE; use <= KILN_EMBED_QUERY; use++) {
        assert_int_equal(kiln_embedder_embed_tokens(e, (enum kiln_embed_use)use, &text, row,
                                                    features, 2, &count, &err),
                         0);
        assert_int_equal(count, 2);
        kiln_caption_head_apply(&head, (enum kiln_head_use)use, own, 2, expected);
        assert_memory_equal(features, expected, 2 * 8 * sizeof *features);
    }
    assert_int_equal(kiln_embedder_embed(plain, KILN_EMBED_QUERY, &text, 1, plain_row, &err), 0);
    assert_memory_equal(row, plain_row, sizeof row); /* vectors are those of the fit */
    kiln_embedder_close(e);
    kiln_embedder_close(plain);
    kiln_caption_head_release(&head);
    kiln_caption_fit_release(&fit);
}

static void test_a_fit_of_another_model_is_refused(void **state)
{
    (void)state;
    struct kiln_caption_fit fit = make_fit("abd");
    struct kiln_embedder *e;
    struct kiln_error err;
    const int before = closed;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    assert_int_equal(kiln_captions_open(&letters, "fit.safetensors", NULL, &e, &err), KILN_CORRUPT);
    assert_non_null(strstr(err.text, "abd"));
    assert_int_equal(kiln_captions_open(&letters, "none", NULL, &e, &err), KILN_NOT_FOUND);
    assert_int_equal(closed, before + 2); /* the encoder was handed over */
    struct kiln_caption_encoder other = letters;
    snprintf(other.model, sizeof other.model, "abd");
    assert_int_equal(
        kiln_captions_open(&other, "fit.safetensors", golden("caption_head.safetensors"), &e, &err),
        KILN_CORRUPT);
    assert_non_null(strstr(err.text, "caption_head.safetensors was made for model abc"));
    assert_int_equal(kiln_captions_open(&other, "fit.safetensors", "none", &e, &err),
                     KILN_NOT_FOUND);
    kiln_caption_fit_release(&fit);
}

/* --- turns ------------------------------------------------------------------------------------ */

enum { ROUNDS = 11, PASSAGES = 2000 };

static _Atomic int passages, passages_before; /* begun: by now, before the last query */
static _Atomic bool ended;

/* A passage "p" takes 10 ms. */
static int encode_slowly(void *arg, const char *text, size_t len, float *features,
                         size_t *ret_count, struct kiln_error *err)
{
    if (*text == 'p') {
        atomic_fetch_add(&passages, 1);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    } else {
        atomic_store(&passages_before, atomic_load(&passages));
    }
    return encode_letters(arg, text, len, features, ret_count, err);
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void *embed_passages(void *arg)
{
    const struct kiln_embed_text text = {"p", 1};
    float row[DIMS];
    struct kiln_error err;
    for (int i = 0; i < PASSAGES && !atomic_load(&ended); i++)
        (void)!kiln_embedder_embed(arg, KILN_EMBED_PASSAGE, &text, 1, row, &err);
    return NULL;
}

static void test_a_query_comes_after_the_passage_that_runs(void **state)
{
    (void)state;
    const struct kiln_embed_text text = {"qu", 2};
    struct kiln_caption_fit fit = make_fit("abc");
    struct kiln_caption_encoder slow = letters;
    struct kiln_embedder *e;
    struct kiln_error err;
    pthread_t thread;
    float row[DIMS];
    slow.encode = encode_slowly;
    assert_int_equal(kiln_caption_fit_write(&fit, "fit.safetensors", &err), 0);
    assert_int_equal(kiln_captions_open(&slow, "fit.safetensors", NULL, &e, &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, embed_passages, e), 0);
    int waited[ROUNDS]; /* for so many passages that began before the query's turn */
    for (int i = 0; i < ROUNDS; i++) {
        const int begun = atomic_load(&passages);
        while (atomic_load(&passages) == begun && begun < PASSAGES)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        const int before = atomic_load(&passages);
        assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, &text, 1, row, &err), 0);
        waited[i] = atomic_load(&passages_before) - before;
    }
    qsort(waited, ROUNDS, sizeof *waited, by_value);
    assert_in_range(waited[ROUNDS / 2], 0, 1); /* this thread may sleep before it asks */
    atomic_store(&ended, true);
    pthread_join(thread, NULL);
    kiln_embedder_close(e);
    kiln_caption_fit_release(&fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fit_finds_mean_and_directions),
        cmocka_unit_test(test_a_fit_wants_enough_captions),
        cmocka_unit_test(test_a_fit_is_read_as_it_was_written),
        cmocka_unit_test(test_scores_are_those_of_the_definition),
        cmocka_unit_test(test_stored_bytes_that_lie_score_nothing),
        cmocka_unit_test(test_the_embedder_pools_and_fits),
        cmocka_unit_test(test_a_head_maps_tokens_and_names_another_recipe),
        cmocka_unit_test(test_a_fit_of_another_model_is_refused),
        cmocka_unit_test(test_a_query_comes_after_the_passage_that_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

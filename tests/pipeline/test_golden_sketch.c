/* test_golden_sketch.c - the demo model still draws the committed pictures.
 *
 * tests/golden/sketch/cases.tsv lists prompts, sizes, steps and seeds; its README says how the
 * pictures beside it were made.  In fp32 at most one level of difference in 99.9 % of the values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/engine/engine.h"
#include "storage/formats/pictures/webp.h"

#define PIXEL_SHARE 0.999
#define CASES_MIN 6
#define FILE_MAX (1 << 20)

static struct kiln_engine *engine;

static const char *source(void)
{
    const char *dir = getenv("KILN_SOURCE");
    return dir ? dir : ".";
}

/* Counts the values that differ by more than one level. */
static size_t values_off(const uint8_t *a, const uint8_t *b, size_t count, int *ret_worst)
{
    size_t off = 0;
    *ret_worst = 0;
    for (size_t i = 0; i < count; i++) {
        int difference = abs(a[i] - b[i]);
        off += difference > 1;
        if (difference > *ret_worst)
            *ret_worst = difference;
    }
    return off;
}

static uint8_t *read_golden(const char *name, uint32_t *ret_width, uint32_t *ret_height)
{
    static uint8_t bytes[FILE_MAX];
    char path[4096];
    struct kiln_error err;
    uint8_t *rgb;
    snprintf(path, sizeof path, "%s/tests/golden/sketch/%s", source(), name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (kiln_webp_decode(bytes, size, FILE_MAX, &rgb, ret_width, ret_height, &err))
        fail_msg("%s: %s", path, err.text);
    return rgb;
}

static void check_case(const char *name, DiffusionZBatch *batch)
{
    DiffusionZOutput output = {0};
    DiffusionZTimes times;
    struct kiln_error err;
    uint32_t width, height;
    int worst;
    uint8_t *golden = read_golden(name, &width, &height);
    assert_int_equal(width, batch->width);
    assert_int_equal(height, batch->height);
    if (kiln_engine_run(engine, batch, NULL, &output, &times, &err))
        fail_msg("%s: %s", name, err.text);
    if (output.error_code)
        fail_msg("%s: %s", name, output.error_msg);
    size_t count = (size_t)width * height * 3;
    size_t off = values_off(output.rgb, golden, count, &worst);
    printf("%-16s %zu of %zu values off by more than 1, worst %d\n", name, off, count, worst);
    if ((double)off > (1 - PIXEL_SHARE) * (double)count)
        fail_msg("%s: not the committed picture; scripts/golden_sketch.sh remakes them if the "
                 "model has changed",
                 name);
    diffusionz_release_outputs(&output, 1);
    free(golden);
}

static void draws_the_committed_pictures(void **state)
{
    (void)state;
    char path[4096], line[1024], name[64], prompt[512];
    int cases = 0;
    snprintf(path, sizeof path, "%s/tests/golden/sketch/cases.tsv", source());
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    while (fgets(line, sizeof line, file)) {
        DiffusionZItem item = {.prompt = prompt};
        DiffusionZBatch batch = {.items = &item, .item_count = 1};
        unsigned long seed;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%63s %d %d %d %lu %511[^\n]", name, &batch.width,
                                &batch.height, &batch.num_steps, &seed, prompt),
                         6);
        item.seed = seed;
        check_case(name, &batch);
        cases++;
    }
    fclose(file);
    assert_true(cases >= CASES_MIN);
}

static int open_engine(void **state)
{
    (void)state;
    char path[4096];
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/pipeline/models/sketch", source());
    const DiffusionZOptions options = {
        .model_path = path, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    if (kiln_engine_open(&options, false, &engine, &err)) {
        printf("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    kiln_engine_close(engine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_the_committed_pictures)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

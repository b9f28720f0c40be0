/* test_weight_sets.c - a second transformer that a model has for a range of its steps.
 *
 * Three model directories: `one` has weights A, `other` weights B, and `both` has A for the first
 * two steps of four and B for the last two.  `swapped` says the same the other way round: B, but A
 * for the first two.  Numbers are fp32 on the CPU, so that bits can be compared.
 */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "pipeline/engine/engine.h"
#include "pipeline/model/hash.h"
#include "pipeline/text/encoder.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/four_items.h"
#include "tests/pipeline/ways.h"
#include "tests/support/files.h"

#define WEIGHTS "diffusion_pytorch_model.safetensors"

static DiffusionZLora lora;
static DiffusionZContext *one, *other, *both, *swapped;

/* --- the models ------------------------------------------------------------------------------- */

static void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void copy_model(const char *dir)
{
    char command[9000];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' && chmod -R u+w '%s'", dir,
             golden("models/plain"), dir, dir);
    shell(command);
}

/* Weights B, in dir/folder: all values of A, by a little less; without the tensor `lacks`. */
static void write_other(const char *dir, const char *folder, const char *lacks)
{
    char path[256], command[1024];
    struct kiln_st *st;
    struct kiln_error err;
    snprintf(command, sizeof command, "mkdir -p '%s/%s' && cp '%s/config.json' '%s/%s/'", dir,
             folder, golden("models/plain/transformer"), dir, folder);
    shell(command);
    if (kiln_st_open(golden("models/plain/transformer"), &st, &err))
        fail_msg("%s", err.text);
    const size_t count = kiln_st_count(st);
    struct kiln_st_tensor *list = calloc(count, sizeof *list);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct kiln_st_tensor t = *kiln_st_at(st, i);
        float *values = malloc(t.size);
        assert_int_equal(t.dtype, KILN_ST_F32);
        memcpy(values, t.data, t.size);
        for (size_t k = 0; k < t.size / sizeof *values; k++)
            values[k] *= 0.9f;
        t.data = values;
        if (lacks && strcmp(t.name, lacks) == 0)
            free(values);
        else
            list[kept++] = t;
    }
    snprintf(path, sizeof path, "%s/%s/" WEIGHTS, dir, folder);
    if (kiln_st_write(path, list, kept, NULL, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < kept; i++)
        free((void *)list[i].data);
    free(list);
    kiln_st_close(st);
}

/* kiln.json: the steps first .. last, counted from 1, have the transformer in the folder. */
static void write_card(const char *dir, const char *folder, int first, int last)
{
    char path[256], text[512], hex[KILN_FILE_HASH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    if (!kiln_folder_hash(path, hex))
        snprintf(hex, sizeof hex, "%064d", 0);
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    snprintf(text, sizeof text,
             "{\"schedule\": {\"steps\": %d, \"weights\": [{\"steps\": [%d, %d], "
             "\"transformer\": \"%s\", \"sha256\": \"%s\"}]}}",
             STEPS, first, last, folder, hex);
    kiln_test_write(path, text);
}

static int open_all(void **state)
{
    (void)state;
    copy_model("one");
    copy_model("other");
    write_other("other", "transformer", NULL);
    copy_model("both");
    write_other("both", "sets/late", NULL);
    write_card("both", "sets/late", 3, 4);
    copy_model("swapped");
    shell("mv swapped/transformer swapped/early");
    write_other("swapped", "transformer", NULL);
    write_card("swapped", "early", 1, 2);
    one = open_dir("one");
    other = open_dir("other");
    both = open_dir("both");
    swapped = open_dir("swapped");
    lora = (DiffusionZLora){strdup(golden("loras/default.safetensors")), 1};
    make_start();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    diffusionz_free(one);
    diffusionz_free(other);
    diffusionz_free(both);
    diffusionz_free(swapped);
    free((char *)lora.path);
    return 0;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* The second transformer of a model, as its kiln.json says. */
static const DiffusionZStepTransformer late = {"sets/late", 2, STEPS}, early = {"early", 0, 2};

static void run(DiffusionZContext *ctx, const DiffusionZBatch *batch, DiffusionZOutput *out)
{
    DiffusionZBatch b = *batch;
    if (b.num_steps == STEPS && (ctx == both || ctx == swapped)) {
        b.step_transformers = ctx == both ? &late : &early;
        b.step_transformer_count = 1;
    }
    run_whole(ctx, &b, out);
}

static DiffusionZBatch batch_of(const DiffusionZItem *some, int count)
{
    return (DiffusionZBatch){.items = some,
                             .item_count = count,
                             .width = WIDE,
                             .height = HIGH,
                             .num_steps = STEPS,
                             .skip_decode = 1};
}

/* The state after a step of the schedule, computed with the parts of the model one by one. */
static void step_by_hand(DiffusionZContext *ctx, const char *prompt, int step, const float *state,
                         float *after)
{
    const struct kiln_engine *e = ctx->engine;
    const struct kiln_transformer *t = e->sets[0].transformer;
    const struct kiln_transformer_config *c = &e->config.transformer;
    const int64_t shape[4] = {1, 16, HIGH / 8, WIDE / 8}, one_value = 1;
    const int64_t h = HIGH / 16, w = WIDE / 16;
    struct kiln_schedule schedule;
    struct kiln_error err;
    int32_t *ids;
    size_t count;
    kiln_schedule_fill(&schedule, &e->config.sampler, STEPS);
    if (kiln_tokenizer_encode(e->tokenizer, prompt, strlen(prompt), false, &ids, &count, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(KT_CPU);
    kt caption = kiln_caption(t, s, kiln_text_encoder_run(e->text_encoder, s, ids, count));
    kt times = kiln_time_table(t, s, schedule.times, STEPS);
    const struct kiln_step args = {
        .forward = {.items = 1,
                    .latent = kt_from_host(s, state, KT_F32, KT_F32, 4, shape),
                    .caption = caption,
                    .rope = kiln_rope_joint(s, c, h, w, kiln_pad_rows(h * w), kt_size(caption, 0)),
                    .modulation = kt_narrow(s, times, 0, step, 1)},
        .stride = kt_from_host(s, &schedule.strides[step], KT_F32, KT_F32, 1, &one_value),
        .bad = kt_zeros(s, KT_I32, 1, &one_value)};
    kiln_sampler_step(t, s, &args);
    kt_to_host_f32(s, args.forward.latent, after, VALUES);
    if (kt_scope_check(s, &err))
        fail_msg("%s", err.text);
    kt_scope_free(s);
    free(ids);
}

/* --- the same bits ---------------------------------------------------------------------------- */

static void each_step_has_the_bits_of_its_own_transformer(void **state)
{
    (void)state;
    static float after[VALUES];
    DiffusionZOutput out, first;
    DiffusionZBatch b = batch_of(items, 1);
    b.keep_trajectory = 1;
    run(both, &b, &out);
    run(one, &b, &first);
    assert_memory_equal(out.trajectory, first.trajectory, 3 * VALUES * sizeof(float));
    assert_false(same(&out, &first));
    for (int step = 0; step < STEPS; step++) {
        step_by_hand(step < 2 ? one : other, items[0].prompt, step, out.trajectory + step * VALUES,
                     after);
        const float *got = step + 1 < STEPS ? out.trajectory + (step + 1) * VALUES : out.latent;
        assert_memory_equal(got, after, VALUES * sizeof(float));
    }
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&first, 1);
}

/* Every way to begin, with guidance, variety, masks and LoRAs. */
static DiffusionZBatch way(int number, DiffusionZItem item[2])
{
    DiffusionZBatch b = batch_of(item, 2);
    item[0] = items[0];
    item[1] = items[1];
    kiln_test_way(number, &b, item);
    if (number == KILN_TEST_WAYS) {
        b.loras = &lora;
        b.lora_count = 1;
    }
    return b;
}
#define WAYS (KILN_TEST_WAYS + 1)

static void it_does_not_matter_which_of_two_is_the_second(void **state)
{
    (void)state;
    for (int i = 0; i < WAYS; i++) {
        DiffusionZItem item[2];
        DiffusionZOutput out[2], want[2], plain[2];
        DiffusionZBatch b = way(i, item);
        int32_t progress = 0;
        run(one, &b, plain);
        run(swapped, &b, want);
        b.progress = &progress;
        run(both, &b, out);
        assert_int_equal(progress, diffusionz_forwards(both, &b));
        for (int k = 0; k < 2; k++) {
            if (!same(&out[k], &want[k]))
                fail_msg("way %d, item %d: other bits", i, k);
            assert_false(same(&out[k], &plain[k]));
        }
        diffusionz_release_outputs(out, 2);
        diffusionz_release_outputs(want, 2);
        diffusionz_release_outputs(plain, 2);
    }
}

static void for_all_steps_it_is_the_model(void **state)
{
    (void)state;
    const DiffusionZStepTransformer whole = {"sets/late", 0, STEPS};
    for (int i = 0; i < WAYS; i++) {
        DiffusionZItem item[2];
        DiffusionZOutput out[2], want[2];
        DiffusionZBatch b = way(i, item);
        run(other, &b, want);
        b.step_transformers = &whole;
        b.step_transformer_count = 1;
        assert_int_equal(diffusionz_run_batch(both, &b, out, NULL), 0);
        for (int k = 0; k < 2; k++)
            if (out[k].error_code || !same(&out[k], &want[k]))
                fail_msg("way %d, item %d: other bits", i, k);
        diffusionz_release_outputs(out, 2);
        diffusionz_release_outputs(want, 2);
    }
}

/* A batch that names none. */
static void other_runs_are_those_of_the_first(void **state)
{
    (void)state;
    DiffusionZOutput out, want;
    DiffusionZBatch b = batch_of(items, 1);
    assert_int_equal(diffusionz_run_batch(both, &b, &out, NULL), 0);
    run(one, &b, &want);
    assert_true(same(&out, &want));
    diffusionz_release_outputs(&out, 1);
    diffusionz_release_outputs(&want, 1);
}

/* Changes how LoRAs are applied, which unloads the present ones: time tables were made with them.
 */
static void set_mode(DiffusionZContext *ctx, enum kiln_lora_mode mode)
{
    for (int i = 0; i < ctx->engine->set_count; i++) {
        kiln_loras_mode(ctx->engine->sets[i].loras, mode);
        kiln_engine_drop_times(&ctx->engine->sets[i]);
    }
}

static void an_item_has_the_same_bits_in_a_batch(void **state)
{
    (void)state;
    static const enum kiln_lora_mode modes[] = {KILN_LORA_AUTO, KILN_LORA_MERGED, KILN_LORA_BESIDE};
    const DiffusionZStepLora middle = {lora, 1, 3};
    for (int m = 0; m < 4; m++) { /* the last without LoRAs */
        DiffusionZOutput all[4], alone, turned;
        DiffusionZBatch b = batch_of(items, 4);
        if (m < 3) {
            b.step_loras = &middle;
            b.step_lora_count = 1;
        }
        set_mode(both, modes[m % 3]);
        set_mode(swapped, modes[m % 3]);
        run(both, &b, all);
        for (int i = 0; i < 4; i += 3) {
            b.items = &items[i];
            b.item_count = 1;
            run(both, &b, &alone);
            run(swapped, &b, &turned);
            if (!same(&alone, &all[i]) || !same(&turned, &all[i]))
                fail_msg("mode %d, item %d: other bits %s", m, i,
                         same(&alone, &all[i]) ? "than swapped" : "alone");
            diffusionz_release_outputs(&alone, 1);
            diffusionz_release_outputs(&turned, 1);
        }
        diffusionz_release_outputs(all, 4);
    }
    set_mode(both, KILN_LORA_AUTO);
    set_mode(swapped, KILN_LORA_AUTO);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refused(const char *dir, int code, const char *part, const char *more)
{
    const DiffusionZOptions options = {
        .model_path = dir, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    struct kiln_engine *engine = NULL;
    struct kiln_error err = {0};
    const int got = kiln_engine_open(&options, false, &engine, &err);
    printf("    %s\n", err.text);
    assert_null(engine);
    assert_int_equal(got, code);
    if (!strstr(err.text, part) || !strstr(err.text, more))
        fail_msg("\"%s\" does not name \"%s\" and \"%s\"", err.text, part, more);
}

static void set_config(const char *path, const char *key, const char *value)
{
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

static void a_second_one_of_another_kind_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } cases[] = {
        {"n_layers", "1", "n_layers 1, but transformer/config.json has"},
        {"norm_eps", "0.5", "norm_eps 0.5, but"},
        {"qk_norm", "false", "qk_norm 0, but"},
        {"axes_dims", "[2, 2, 2]", "axes_dims"},
        {"_class_name", "\"Other\"", "Other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        copy_model("bad");
        write_other("bad", "late", NULL);
        write_card("bad", "late", 3, 4);
        set_config("bad/late/config.json", cases[i].key, cases[i].value);
        refused("bad", strcmp(cases[i].key, "_class_name") ? KILN_BAD_INPUT : KILN_UNSUPPORTED,
                "bad/late/config.json", cases[i].says);
    }
    copy_model("bad");
    write_other("bad", "late", "layers.0.attention.to_q.weight");
    write_card("bad", "late", 3, 4);
    refused("bad", KILN_BAD_INPUT, "bad/late", "layers.0.attention");
}

static void a_folder_that_is_missing_or_another_is_refused_by_name(void **state)
{
    (void)state;
    copy_model("bad");
    write_card("bad", "late", 3, 4);
    refused("bad", KILN_NOT_FOUND, "bad/late/config.json", "bad/kiln.json: ");
    write_other("bad", "late", NULL);
    refused("bad", KILN_CORRUPT, "bad/late", "is another transformer than the one that kiln.json");
    shell("rm bad/late/" WEIGHTS);
    refused("bad", KILN_NOT_FOUND, "bad/late", "which kiln.json names for steps 3 to 4");
}

static void batches_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        DiffusionZStepTransformer of[2];
        int count;
        const char *says;
    } cases[] = {
        {{{"late", 2, 4}}, 1, "\"late\" was not loaded with the model"},
        {{{NULL, 2, 4}}, 1, "was not loaded"},
        {{{"sets/late", 2, 5}}, 1, "steps 2 to 4 of 4 are no range"},
        {{{"sets/late", 2, 2}}, 1, "are no range"},
        {{{"sets/late", -1, 2}}, 1, "are no range"},
        {{{"sets/late", 0, 2}, {"transformer", 1, 3}}, 2, "also those of \"sets/late\""},
        {{{"sets/late", 0, 2}}, 5, "5 transformers of steps: at most 4"},
    };
    DiffusionZOutput out;
    DiffusionZBatch b = batch_of(items, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b.step_transformers = cases[i].of;
        b.step_transformer_count = cases[i].count;
        assert_int_equal(diffusionz_run_batch(both, &b, &out, NULL), KILN_BAD_INPUT);
        if (!strstr(diffusionz_last_error(), cases[i].says))
            fail_msg("%s", diffusionz_last_error());
        assert_int_equal(diffusionz_forwards(both, &b), 0);
    }
    b.step_transformers = NULL;
    b.step_transformer_count = 1;
    assert_int_equal(diffusionz_run_batch(both, &b, &out, NULL), KILN_BAD_INPUT);
}

/* --- what they are known by ------------------------------------------------------------------- */

static void the_hash_of_a_folder_is_that_of_its_files(void **state)
{
    (void)state;
    char line[128] = "", hex[KILN_FILE_HASH_MAX];
    shell("rm -rf shards && mkdir shards && printf abc >shards/b-2.safetensors && "
          "printf def >shards/b-1.safetensors && printf x >shards/config.json");
    FILE *pipe = popen("cd shards && LC_ALL=C sha256sum *.safetensors | sha256sum", "r");
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    assert_true(kiln_folder_hash("shards", hex));
    assert_memory_equal(hex, line, KILN_FILE_HASH_MAX - 1);
    shell("rm shards/*.safetensors");
    assert_false(kiln_folder_hash("shards", hex));
    assert_false(kiln_folder_hash("no-such-folder", hex));
}

static void the_model_has_another_hash_with_each_other_second_one(void **state)
{
    (void)state;
    char hashes[4][KILN_MODEL_HASH_LEN + 1];
    struct kiln_error err;
    copy_model("bad");
    assert_int_equal(kiln_model_hash("bad", hashes[0], &err), 0);
    assert_string_equal(hashes[0], one->engine->hash);
    write_other("bad", "sets/late", NULL);
    write_card("bad", "sets/late", 3, 4);
    assert_int_equal(kiln_model_hash("bad", hashes[1], &err), 0);
    assert_string_equal(hashes[1], both->engine->hash);
    write_card("bad", "sets/late", 2, 4);
    assert_int_equal(kiln_model_hash("bad", hashes[2], &err), 0);
    shell("cp bad/transformer/" WEIGHTS " bad/sets/late/" WEIGHTS);
    write_card("bad", "sets/late", 3, 4);
    assert_int_equal(kiln_model_hash("bad", hashes[3], &err), 0);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(hashes[i], hashes[k]);
}

/* --- as eight-bit rows ------------------------------------------------------------------------ */

/* As dtype fp8 has them, which a GPU alone may be asked for: both are quantised, and each is read
 * again from its own folder when a LoRA is merged. */
static void quantised_ones_are_read_again_from_their_own_folders(void **state)
{
    (void)state;
    const DiffusionZOptions options = {
        .model_path = "both", .device_id = -1, .dtype = DIFFUSIONZ_BF16};
    struct kiln_engine *e;
    struct kiln_error err;
    DiffusionZOutput plain, out;
    if (kiln_engine_open(&options, false, &e, &err))
        fail_msg("%s", err.text);
    kiln_engine_sets_release(e);
    memset(e->sets, 0, sizeof e->sets);
    e->set_count = 0;
    e->e4m3 = true;
    if (kiln_engine_sets_list(e, "both", false, &err) ||
        kiln_engine_sets_load(e, "both", false, KT_E4M3, NULL, &err) ||
        kiln_engine_loras_open(e, &err))
        fail_msg("%s", err.text);
    assert_int_equal(e->set_count, 2);
    DiffusionZBatch b = batch_of(items, 1);
    b.step_transformers = &late;
    b.step_transformer_count = 1;
    if (kiln_engine_run(e, &b, NULL, &plain, NULL, &err) || plain.error_code)
        fail_msg("%s", plain.error_code ? plain.error_msg : err.text);
    for (int i = 0; i < 2; i++) {
        kiln_loras_mode(e->sets[i].loras, KILN_LORA_MERGED);
        const struct kiln_param *p = &e->sets[i].params.items[0];
        for (size_t k = 0; k < e->sets[i].params.count; k++)
            if (strcmp(e->sets[i].params.items[k].name, "layers.0.attention.to_q") == 0)
                p = &e->sets[i].params.items[k];
        assert_int_equal(kt_dtype_of(*p->slot), KT_E4M3);
    }
    const DiffusionZLora nothing = {lora.path, 0};
    b.loras = &nothing;
    b.lora_count = 1;
    if (kiln_engine_run(e, &b, NULL, &out, NULL, &err) || out.error_code)
        fail_msg("%s", out.error_code ? out.error_msg : err.text);
    double off = 0, scale = 0;
    for (int i = 0; i < VALUES; i++) {
        off = fmax(off, fabs((double)out.latent[i] - (double)plain.latent[i]));
        scale = fmax(scale, fabs((double)plain.latent[i]));
    }
    printf("    merged at strength 0: off by %g of %g\n", off, scale);
    assert_true(off <= 1e-3 * scale);
    diffusionz_release_outputs(&plain, 1);
    diffusionz_release_outputs(&out, 1);
    kiln_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_has_the_bits_of_its_own_transformer),
        cmocka_unit_test(it_does_not_matter_which_of_two_is_the_second),
        cmocka_unit_test(for_all_steps_it_is_the_model),
        cmocka_unit_test(other_runs_are_those_of_the_first),
        cmocka_unit_test(an_item_has_the_same_bits_in_a_batch),
        cmocka_unit_test(a_second_one_of_another_kind_is_refused_by_name),
        cmocka_unit_test(a_folder_that_is_missing_or_another_is_refused_by_name),
        cmocka_unit_test(batches_that_cannot_be_are_refused),
        cmocka_unit_test(the_hash_of_a_folder_is_that_of_its_files),
        cmocka_unit_test(the_model_has_another_hash_with_each_other_second_one),
        cmocka_unit_test(quantised_ones_are_read_again_from_their_own_folders),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

/* test_engine_models.c - model directories that are missing something, lie, or are damaged: every
 * one is refused with the names of the file and of the thing in it. */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/engine/engine.h"
#include "pipeline/model/config.h"
#include "pipeline/model/hash.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/abi.h"
#include "tests/support/files.h"
#include "tests/support/lora_rig.h"

/* A fresh copy of a golden model under the current directory. */
static const char *copy_of(const char *model)
{
    static char dir[64];
    static int count;
    char command[9000];
    snprintf(dir, sizeof dir, "model-%d", count++);
    snprintf(command, sizeof command, "cp -r '%s' '%s' && chmod -R u+w '%s'", golden(model), dir,
             dir);
    assert_int_equal(system(command), 0);
    return dir;
}

static void expect_refusal(const char *dir, int code, const char *part, const char *other)
{
    const DiffusionZOptions options = {
        .model_path = dir, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    struct kiln_engine *engine = NULL;
    struct kiln_error err = {0};
    int got = kiln_engine_open(&options, false, &engine, &err);
    assert_null(engine);
    printf("    %s\n", err.text);
    assert_int_equal(got, code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, part) || (other && !strstr(err.text, other)))
        fail_msg("\"%s\" does not name \"%s\" and \"%s\"", err.text, part, other ? other : part);
}

/* --- the hash --------------------------------------------------------------------------------- */

/* Half of a file would be another model's name. */
static void a_file_that_cannot_be_read_has_no_hash(void **state)
{
    (void)state;
    const char *dir = copy_of("models/plain");
    char path[128], hash[KILN_MODEL_HASH_LEN + 1];
    struct kiln_error err;
    assert_int_equal(kiln_model_hash(dir, hash, &err), 0);
    snprintf(path, sizeof path, "%s/vae/config.json", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(kiln_model_hash(dir, hash, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "vae/config.json is not a regular file"));
}

/* The LoRAs that kiln.json names for some steps are weights of the model; what else it says is
 * not. */
static void the_hash_knows_the_weights_of_steps(void **state)
{
    (void)state;
#define LORA_OF(hex, steps, scale)                                                                 \
    "{\"schedule\": {\"steps\": 4, \"weights\": [{\"steps\": " steps                               \
    ", \"lora\": \"x\", \"scale\": " scale ", \"sha256\": \""                                      \
    "00000000000000000000000000000000000000000000000000000000000000" hex "\"}]}}"
    static const char *const cards[] = {
        LORA_OF("aa", "[1, 2]", "1"),
        LORA_OF("bb", "[1, 2]", "1"),
        LORA_OF("aa", "[1, 3]", "1"),
        LORA_OF("aa", "[1, 2]", "0.5"),
    };
    const char *dir = copy_of("models/plain");
    char path[128], hashes[5][KILN_MODEL_HASH_LEN + 1], again[KILN_MODEL_HASH_LEN + 1];
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    assert_int_equal(kiln_model_hash(dir, hashes[4], &err), 0);
    kiln_test_write(path, "{\"schedule\": {\"steps\": 4}, \"coarse\": {\"auto\": \"off\"}}");
    assert_int_equal(kiln_model_hash(dir, again, &err), 0);
    assert_string_equal(again, hashes[4]);
    for (int i = 0; i < 4; i++) {
        kiln_test_write(path, cards[i]);
        assert_int_equal(kiln_model_hash(dir, hashes[i], &err), 0);
        for (int k = 0; k < 5; k++)
            assert_true(k == i || (k > i && k < 4) || strcmp(hashes[i], hashes[k]) != 0);
    }
}

/* --- what is waited for ----------------------------------------------------------------------- */

struct told {
    bool device, tokenizer, transformer; /* told of */
    uint64_t read;                       /* of the transformer, before its last tensor */
    uint64_t of;
};

static void take_note(void *arg, const char *what, uint64_t bytes, uint64_t of)
{
    struct told *told = arg;
    told->device = told->device || strcmp(what, "the CPU") == 0;
    told->tokenizer = told->tokenizer || strstr(what, "plain/tokenizer");
    if (!of || !strstr(what, "plain/transformer/"))
        return;
    assert_non_null(strstr(what, ".safetensors"));
    assert_true(bytes >= told->read && bytes < of);
    told->transformer = true;
    told->read = bytes;
    told->of = of;
}

static void a_loading_model_tells_what_it_waits_for(void **state)
{
    (void)state;
    const DiffusionZOptions options = {
        .model_path = golden("models/plain"), .device_id = -1, .dtype = DIFFUSIONZ_FP32};
    DiffusionZContext *ctx;
    struct told told = {.read = 0};
    diffusionz_watch(take_note, &told);
    assert_int_equal(diffusionz_open(&options, &ctx), 0);
    diffusionz_watch(NULL, NULL);
    diffusionz_free(ctx);
    assert_true(told.device && told.tokenizer && told.transformer);
    assert_true(told.read > told.of / 2);
}

/* --- configs ---------------------------------------------------------------------------------- */

struct lie {
    const char *file, *key, *value; /* value: JSON; NULL removes the key */
    int code;
    const char *part, *other;
};

static const struct lie lies[] = {
    {"transformer/config.json", "n_layers", "9", KILN_BAD_INPUT, "layers.", "missing"},
    {"transformer/config.json", "n_layers", "1", KILN_BAD_INPUT, "no place", "layers."},
    {"transformer/config.json", "n_layers", "\"two\"", KILN_BAD_INPUT, "n_layers", "integer"},
    {"transformer/config.json", "n_layers", "-1", KILN_BAD_INPUT, "n_layers", "-1"},
    {"transformer/config.json", "n_layers", "1e300", KILN_BAD_INPUT, "n_layers", NULL},
    {"transformer/config.json", "n_heads", "7", KILN_BAD_INPUT, "n_heads", "dim"},
    {"transformer/config.json", "axes_dims", "[8, 8]", KILN_BAD_INPUT, "axes_dims", NULL},
    {"transformer/config.json", "axes_dims", "[2, 2, 2]", KILN_BAD_INPUT, "axes_dims", "add up"},
    {"transformer/config.json", "cap_feat_dim", "77", KILN_BAD_INPUT, "cap_feat_dim",
     "hidden_size"},
    {"transformer/config.json", "in_channels", "8", KILN_BAD_INPUT, "in_channels",
     "latent_channels"},
    {"transformer/config.json", "all_patch_size", "[4]", KILN_UNSUPPORTED, "all_patch_size", NULL},
    {"transformer/config.json", "siglip_feat_dim", "64", KILN_UNSUPPORTED, "siglip_feat_dim", NULL},
    {"transformer/config.json", "norm_eps", "0", KILN_BAD_INPUT, "norm_eps", NULL},
    {"transformer/config.json", "_class_name", "\"Other\"", KILN_UNSUPPORTED, "Other", NULL},
    {"transformer/config.json", "t_scale", "1e300", KILN_BAD_INPUT, "t_scale", "1e+300"},
    {"text_encoder/config.json", "num_hidden_layers", "4", KILN_BAD_INPUT,
     "layers.3.input_layernorm", "missing"},
    {"text_encoder/config.json", "rms_norm_eps", "1e300", KILN_BAD_INPUT, "rms_norm_eps", NULL},
    {"text_encoder/config.json", "hidden_size", NULL, KILN_BAD_INPUT, "hidden_size", "missing"},
    {"text_encoder/config.json", "intermediate_size", "64", KILN_BAD_INPUT, "gate_proj", "shape"},
    {"text_encoder/config.json", "vocab_size", "12", KILN_BAD_INPUT, "vocab_size", "tokenizer"},
    {"text_encoder/config.json", "model_type", "\"llama\"", KILN_UNSUPPORTED, "model_type",
     "llama"},
    {"text_encoder/config.json", "num_key_value_heads", "3", KILN_BAD_INPUT, "num_key_value_heads",
     NULL},
    {"text_encoder/config.json", "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 4.0}",
     KILN_UNSUPPORTED, "rope_type", "yarn"},
    {"text_encoder/config.json", "rope_scaling", "{\"type\": \"yarn\", \"factor\": 4.0}",
     KILN_UNSUPPORTED, "type", "yarn"},
    {"text_encoder/config.json", "rope_parameters",
     "{\"full_attention\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6}}", KILN_UNSUPPORTED,
     "rope_type", "yarn"},
    {"text_encoder/config.json", "rope_parameters",
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}}", KILN_UNSUPPORTED,
     "rope_parameters", "sliding_attention"},
    {"text_encoder/config.json", "rope_parameters", "\"default\"", KILN_BAD_INPUT,
     "rope_parameters", "object"},
    {"text_encoder/config.json", "quantization_config", "{\"quant_method\": \"fp8\"}",
     KILN_UNSUPPORTED, "text_encoder", "quantization_config"},
    {"transformer/config.json", "quantization_config", "{}", KILN_UNSUPPORTED, "transformer",
     "quantization_config"},
    {"text_encoder/config.json", "use_sliding_window", "true", KILN_UNSUPPORTED,
     "use_sliding_window", NULL},
    {"vae/config.json", "norm_num_groups", "7", KILN_BAD_INPUT, "norm_num_groups", NULL},
    {"vae/config.json", "block_out_channels", "[]", KILN_BAD_INPUT, "block_out_channels", NULL},
    {"vae/config.json", "layers_per_block", "3", KILN_BAD_INPUT, "resnets", "missing"},
    {"vae/config.json", "shift_factor", "-1e300", KILN_BAD_INPUT, "shift_factor", NULL},
    {"vae/config.json", "act_fn", "\"relu\"", KILN_UNSUPPORTED, "act_fn", "relu"},
    {"scheduler/scheduler_config.json", "use_dynamic_shifting", "true", KILN_UNSUPPORTED,
     "use_dynamic_shifting", NULL},
    {"scheduler/scheduler_config.json", "use_karras_sigmas", "true", KILN_UNSUPPORTED,
     "use_karras_sigmas", NULL},
    {"scheduler/scheduler_config.json", "shift", "-3", KILN_BAD_INPUT, "shift", NULL},
    {"scheduler/scheduler_config.json", "shift", "\"3\"", KILN_BAD_INPUT, "shift", "number"},
};

static void configs_that_lie(void **state)
{
    (void)state;
    const char *dir = copy_of("models/plain");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct lie *lie = &lies[i];
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, lie->file);
        json_t *config = json_load_file(path, 0, NULL), *honest = json_deep_copy(config);
        assert_non_null(config);
        if (lie->value)
            json_object_set_new(config, lie->key, json_loads(lie->value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(config, lie->key);
        assert_int_equal(json_dump_file(config, path, 0), 0);
        expect_refusal(dir, lie->code, lie->part, lie->other);
        assert_int_equal(json_dump_file(honest, path, 0), 0);
        json_decref(config);
        json_decref(honest);
    }
}

/* The spellings of transformers 4 and 5 for one rotation base. */
static void every_spelling_of_the_rotation_base(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value; /* JSON */
    } cases[] = {
        {"rope_theta", "750.0"},
        {"rope_scaling", "{\"rope_type\": \"default\", \"rope_theta\": 750.0}"},
        {"rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 750.0}"},
        {"rope_parameters", "{\"full_attention\": {\"rope_type\": \"default\", "
                            "\"rope_theta\": 750.0}}"},
    };
    const char *dir = copy_of("models/plain");
    char path[256];
    snprintf(path, sizeof path, "%s/text_encoder/config.json", dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = json_load_file(path, 0, NULL);
        struct kiln_model_config read;
        struct kiln_error err;
        json_object_del(config, "rope_parameters");
        json_object_del(config, "rope_theta");
        json_object_set_new(config, "rope_scaling", json_null());
        json_object_set_new(config, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        assert_int_equal(json_dump_file(config, path, 0), 0);
        json_decref(config);
        if (kiln_model_config_read(dir, &read, &err))
            fail_msg("%s", err.text);
        assert_true(read.text.rope_theta == 750.0);
    }
}

static void write_text(const char *dir, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    kiln_test_write(path, text);
}

static void configs_that_are_none(void **state)
{
    (void)state;
    const char *dir = copy_of("models/plain");
    write_text(dir, "vae/config.json", "{\"a\": 1");
    expect_refusal(dir, KILN_BAD_INPUT, "vae/config.json", "JSON");
    write_text(dir, "vae/config.json", "[1, 2]");
    expect_refusal(dir, KILN_BAD_INPUT, "vae/config.json", "object");
    write_text(dir, "vae/config.json", "{\"act_fn\": \"silu\", \"act_fn\": \"relu\"}");
    expect_refusal(dir, KILN_BAD_INPUT, "vae/config.json", "duplicate");
}

static void parts_that_are_missing(void **state)
{
    (void)state;
    static const char *const parts[] = {"transformer/config.json",
                                        "text_encoder/config.json",
                                        "vae/config.json",
                                        "scheduler/scheduler_config.json",
                                        "tokenizer",
                                        "transformer",
                                        "text_encoder",
                                        "vae/diffusion_pytorch_model.safetensors"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *dir = copy_of("models/plain");
        char command[256], folder[64];
        snprintf(command, sizeof command, "rm -r '%s/%s'", dir, parts[i]);
        assert_int_equal(system(command), 0);
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(parts[i], "/"), parts[i]);
        expect_refusal(dir, KILN_NOT_FOUND, folder, NULL);
    }
}

/* --- weights ---------------------------------------------------------------------------------- */

#define TRANSFORMER "transformer/diffusion_pytorch_model.safetensors"

/* Rewrites the transformer's file with one tensor changed by `change`, or left out if it says so.
 */
static void rewrite(const char *dir, const char *name,
                    bool (*change)(struct kiln_st_tensor *t, void *data))
{
    char path[256];
    struct kiln_st *st;
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/%s", dir, TRANSFORMER);
    if (kiln_st_open(path, &st, &err))
        fail_msg("%s", err.text);
    size_t count = kiln_st_count(st), kept = 0;
    struct kiln_st_tensor *list = calloc(count, sizeof *list);
    void *data = NULL;
    for (size_t i = 0; i < count; i++) {
        list[kept] = *kiln_st_at(st, i);
        bool keep = true;
        if (strcmp(list[kept].name, name) == 0) {
            data = malloc(list[kept].size);
            memcpy(data, list[kept].data, list[kept].size);
            list[kept].data = data;
            keep = change(&list[kept], data);
        }
        kept += keep;
    }
    assert_non_null(data);
    if (kiln_st_write(path, list, kept, NULL, &err))
        fail_msg("%s", err.text);
    kiln_st_close(st);
    free(list);
    free(data);
}

static bool leave_out(struct kiln_st_tensor *t, void *data)
{
    (void)t;
    (void)data;
    return false;
}

static bool put_nan(struct kiln_st_tensor *t, void *data)
{
    assert_int_equal(t->dtype, KILN_ST_F32);
    memset((char *)data + t->size - 4, 0xff, 4);
    return true;
}

static bool other_name(struct kiln_st_tensor *t, void *data)
{
    (void)data;
    t->name = "layers.0.attention.to_z.weight";
    return true;
}

static bool turn_shape(struct kiln_st_tensor *t, void *data)
{
    (void)data;
    t->shape[0] *= t->shape[1];
    t->shape[1] = 1;
    return true;
}

static bool as_integers(struct kiln_st_tensor *t, void *data)
{
    (void)data;
    t->dtype = KILN_ST_I32;
    return true;
}

static void weights_that_do_not_fit(void **state)
{
    (void)state;
    const char *name = "layers.0.attention.to_q.weight";
    const char *dir = copy_of("models/plain");
    rewrite(dir, name, leave_out);
    expect_refusal(dir, KILN_BAD_INPUT, name, "missing");
    dir = copy_of("models/plain");
    rewrite(dir, name, put_nan);
    expect_refusal(dir, KILN_CORRUPT, name, "finite");
    dir = copy_of("models/plain");
    rewrite(dir, name, other_name);
    expect_refusal(dir, KILN_BAD_INPUT, name, "missing");
    dir = copy_of("models/plain");
    rewrite(dir, name, turn_shape);
    expect_refusal(dir, KILN_BAD_INPUT, name, "shape");
    dir = copy_of("models/plain");
    rewrite(dir, name, as_integers);
    expect_refusal(dir, KILN_UNSUPPORTED, name, "I32");
}

static void weights_cut_short(void **state)
{
    (void)state;
    const char *dir = copy_of("models/plain");
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, TRANSFORMER);
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(truncate(path, size - 1 - i * size / 12), 0);
        const DiffusionZOptions options = {
            .model_path = dir, .device_id = -1, .dtype = DIFFUSIONZ_FP32};
        struct kiln_engine *engine = NULL;
        struct kiln_error err = {0};
        assert_int_not_equal(kiln_engine_open(&options, false, &engine, &err), 0);
        assert_non_null(strstr(err.text, "transformer"));
        assert_null(engine);
    }
}

static void dtypes_that_are_none(void **state)
{
    (void)state;
    struct kiln_engine *engine = NULL;
    struct kiln_error err = {0};
    DiffusionZOptions options = {.model_path = golden("models/plain"), .device_id = -1, .dtype = 9};
    assert_int_equal(kiln_engine_open(&options, false, &engine, &err), KILN_BAD_INPUT);
    options.dtype = DIFFUSIONZ_FP8;
    assert_int_equal(kiln_engine_open(&options, false, &engine, &err), KILN_UNSUPPORTED);
    options.dtype = DIFFUSIONZ_FP32;
    options.threads = -1;
    assert_int_equal(kiln_engine_open(&options, false, &engine, &err), KILN_BAD_INPUT);
    assert_null(engine);
}

/* --- a model that is exchanged while it is in use --------------------------------------------- */

/* Its large matrices in e4m3, as dtype fp8 has them, which a GPU alone may be asked for. */
static struct kiln_engine *open_quantised(const char *dir)
{
    struct kiln_engine *e = lora_rig_open(dir, KT_CPU, DIFFUSIONZ_BF16);
    struct kiln_error err;
    char path[256];
    snprintf(path, sizeof path, "%s/transformer", dir);
    kiln_loras_free(e->sets[0].loras);
    kiln_param_table_release(&e->sets[0].params);
    kiln_transformer_free(e->sets[0].transformer);
    e->e4m3 = true;
    if (kiln_transformer_load(path, &e->config.transformer, e->weights, KT_E4M3, NULL, "",
                              &e->sets[0].params, &e->sets[0].transformer, &err) ||
        kiln_engine_loras_open(e, &err))
        fail_msg("%s", err.text);
    kiln_loras_mode(e->sets[0].loras, KILN_LORA_MERGED);
    return e;
}

/* Puts the folder's weights there anew, the lowest bit of the first tensor's first value turned. */
static void turn_a_bit(const char *dir)
{
    char path[128], fresh[128], command[512];
    uint64_t header;
    snprintf(path, sizeof path, "%s/transformer/diffusion_pytorch_model.safetensors", dir);
    snprintf(fresh, sizeof fresh, "%s/fresh", dir);
    snprintf(command, sizeof command, "cp '%s' '%s'", path, fresh);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(fresh, "r+b");
    assert_non_null(file);
    assert_int_equal(fread(&header, sizeof header, 1, file), 1);
    assert_int_equal(fseek(file, (long)header, SEEK_CUR), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

/* The plain matrices behind quantised ones are read when the first LoRA is merged. */
static void a_model_exchanged_since_it_was_loaded(void **state)
{
    (void)state;
    const char *dir = copy_of("models/plain");
    struct kiln_engine *e = open_quantised(dir);
    const struct kiln_lora_use use = {golden("loras/kohya.safetensors"), 1};
    struct kiln_error err = {0};
    turn_a_bit(dir);
    assert_int_equal(kiln_engine_loras(&e->sets[0], &use, 1, &err), KILN_CORRUPT);
    printf("    %s\n", err.text);
    assert_non_null(strstr(err.text, dir));
    assert_non_null(strstr(err.text, "another model"));
    turn_a_bit(dir);
    if (kiln_engine_loras(&e->sets[0], &use, 1, &err))
        fail_msg("%s", err.text);
    kiln_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_cannot_be_read_has_no_hash),
        cmocka_unit_test(the_hash_knows_the_weights_of_steps),
        cmocka_unit_test(a_loading_model_tells_what_it_waits_for),
        cmocka_unit_test(configs_that_lie),
        cmocka_unit_test(every_spelling_of_the_rotation_base),
        cmocka_unit_test(configs_that_are_none),
        cmocka_unit_test(parts_that_are_missing),
        cmocka_unit_test(weights_that_do_not_fit),
        cmocka_unit_test(weights_cut_short),
        cmocka_unit_test(dtypes_that_are_none),
        cmocka_unit_test(a_model_exchanged_since_it_was_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

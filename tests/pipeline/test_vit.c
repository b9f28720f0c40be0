/* test_vit.c - image classifiers compute what transformers computes (tests/golden/vit), and
 * checkpoints that are wrong are refused by name.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/diffusionz_batch.h"
#include "pipeline/diffusionz_classify.h"
#include "pipeline/embed/classify/classify.h"
#include "pipeline/vision/resample.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/tokens.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

#define TOLERANCE 1e-4f
#define LABELS 5

static const char *const models[] = {"nsfw", "levels"};
static const char *const pictures[] = {"small", "wide", "tall", "same"};

static const struct kiln_st_tensor *tensor(const struct kiln_st *st, const char *model,
                                           const char *picture, const char *what)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s%s%s", model, picture, what ? "." : "", what ? what : "");
    const struct kiln_st_tensor *t = kiln_st_find(st, name);
    if (!t)
        fail_msg("no tensor %s", name);
    return t;
}

static struct kiln_st *expected(void)
{
    struct kiln_st *st;
    assert_int_equal(kiln_st_open(golden("vit/expected.safetensors"), &st, NULL), 0);
    return st;
}

static DiffusionZClassifier *open_classifier(const char *model)
{
    char dir[64];
    DiffusionZClassifier *c = NULL;
    snprintf(dir, sizeof dir, "vit/%s", model);
    if (diffusionz_classifier_open(golden(dir), 1, &c))
        fail_msg("%s", diffusionz_last_error());
    return c;
}

static void test_logits_are_those_of_transformers(void **state)
{
    (void)state;
    struct kiln_st *st = expected();
    for (size_t m = 0; m < 2; m++) {
        DiffusionZClassifier *c = open_classifier(models[m]);
        const int32_t labels = diffusionz_classifier_labels(c);
        assert_int_equal(labels, m == 0 ? 2 : LABELS);
        for (size_t p = 0; p < 4; p++) {
            const struct kiln_st_tensor *picture = tensor(st, "picture", pictures[p], NULL);
            const struct kiln_st_tensor *logits = tensor(st, models[m], pictures[p], "logits");
            float have[LABELS], want[LABELS];
            assert_int_equal(logits->size, (size_t)labels * sizeof *want);
            memcpy(want, logits->data, logits->size);
            if (diffusionz_classifier_run(c, picture->data, (uint32_t)picture->shape[1],
                                          (uint32_t)picture->shape[0], have))
                fail_msg("%s", diffusionz_last_error());
            for (int32_t i = 0; i < labels; i++)
                if (!(fabsf(have[i] - want[i]) <= TOLERANCE))
                    fail_msg("%s, %s: logit %d is %g, not %g", models[m], pictures[p], (int)i,
                             (double)have[i], (double)want[i]);
        }
        diffusionz_classifier_free(c);
    }
    kiln_st_close(st);
}

/* The same bytes, since the golden pixels are stored values, scaled and shifted. */
static void test_pictures_are_resized_as_by_pillow(void **state)
{
    (void)state;
    struct kiln_st *st = expected();
    for (size_t m = 0; m < 2; m++)
        for (size_t p = 0; p < 4; p++) {
            const struct kiln_st_tensor *picture = tensor(st, "picture", pictures[p], NULL);
            const struct kiln_st_tensor *pixels = tensor(st, models[m], pictures[p], "pixels");
            static const double mean[2][3] = {{0.5, 0.5, 0.5}, {0.485, 0.456, 0.406}};
            static const double deviation[2][3] = {{0.5, 0.5, 0.5}, {0.229, 0.224, 0.225}};
            const uint32_t side = (uint32_t)pixels->shape[1];
            const size_t area = (size_t)side * side;
            uint8_t *rgb;
            assert_int_equal(
                kiln_resample_rgb(picture->data, (uint32_t)picture->shape[1],
                                  (uint32_t)picture->shape[0],
                                  m == 0 ? KILN_RESAMPLE_BILINEAR : KILN_RESAMPLE_BICUBIC, side,
                                  side, &rgb, NULL),
                0);
            for (size_t i = 0; i < area * 3; i++) {
                const size_t channel = i / area;
                float value;
                memcpy(&value, (const char *)pixels->data + i * sizeof value, sizeof value);
                const double stored = (value * deviation[m][channel] + mean[m][channel]) * 255;
                assert_int_equal(rgb[i % area * 3 + channel], lround(stored));
            }
            free(rgb);
        }
    kiln_st_close(st);
}

/* As the gallery does: the library by dlopen; shares that sum to 1. */
static void test_shares_of_labels_out_of_the_library(void **state)
{
    (void)state;
    char library[4096];
    struct kiln_classifier *c = NULL;
    struct kiln_error err;
    double share[KILN_CLASSIFY_LABELS_MAX];
    assert_true(kiln_test_built("libdiffusionz.so", library, sizeof library));
    assert_int_equal(kiln_classifier_open("./none.so", golden("vit/nsfw"), &c, &err),
                     KILN_UNAVAILABLE);
    assert_null(c);
    assert_int_not_equal(kiln_classifier_open(library, "./none", &c, &err), 0);
    assert_non_null(strstr(err.text, "./none/config.json"));
    if (kiln_classifier_open(library, golden("vit/nsfw"), &c, &err))
        fail_msg("%s", err.text);
    const struct kiln_classifier_info *info = kiln_classifier_info(c);
    assert_int_equal(info->labels, 2);
    assert_string_equal(info->label[0], "normal");
    assert_string_equal(info->label[1], "nsfw");
    assert_int_equal(strlen(info->hash), 16);
    struct kiln_st *st = expected();
    const struct kiln_st_tensor *picture = tensor(st, "picture", "wide", NULL);
    const struct kiln_st_tensor *logits = tensor(st, "nsfw", "wide", "logits");
    float want[2];
    memcpy(want, logits->data, sizeof want);
    assert_int_equal(kiln_classifier_run(c, picture->data, (uint32_t)picture->shape[1],
                                         (uint32_t)picture->shape[0], share, &err),
                     0);
    assert_true(fabs(share[0] + share[1] - 1) < 1e-9);
    assert_true(fabs(share[1] - 1 / (1 + exp((double)want[0] - (double)want[1]))) < 1e-4);
    kiln_st_close(st);
    kiln_classifier_close(c);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void copy_checkpoint(void)
{
    static const char *const files[] = {"config.json", "preprocessor_config.json",
                                        "model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        size_t size;
        snprintf(path, sizeof path, "vit/nsfw/%s", files[i]);
        uint8_t *bytes = read_file(golden(path), &size);
        snprintf(path, sizeof path, "copy/%s", files[i]);
        unlink(path);
        kiln_test_write_bytes(path, bytes, size);
        free(bytes);
    }
}

static void assert_refused(const char *word)
{
    DiffusionZClassifier *c = NULL;
    const int32_t code = diffusionz_classifier_open("copy", 1, &c);
    if (!code || !strstr(diffusionz_last_error(), word))
        fail_msg("expected an error with \"%s\", got %d: %s", word, (int)code,
                 code ? diffusionz_last_error() : "none");
    assert_null(c);
}

static void test_checkpoints_that_are_wrong_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *key, *value, *word; /* value: JSON, NULL removes */
    } cases[] = {
        {"config.json", "architectures", "[\"ViTModel\"]", "architectures is \"ViTModel\""},
        {"config.json", "model_type", "\"swin\"", "model_type"},
        {"config.json", "hidden_act", "\"relu\"", "hidden_act"},
        {"config.json", "hidden_size", "1000000", "hidden_size"},
        {"config.json", "hidden_size", "50", "vit.embeddings.cls_token"},
        {"config.json", "num_attention_heads", "7", "not a multiple of 7 heads"},
        {"config.json", "num_hidden_layers", "4", "vit.encoder.layer.3."},
        {"config.json", "num_hidden_layers", "2", "vit.encoder.layer.2."},
        {"config.json", "image_size", "30", "not a multiple of patch_size"},
        {"config.json", "image_size", "1024", "size is 32x32; config.json has image_size 1024"},
        {"config.json", "num_channels", "1", "num_channels"},
        {"config.json", "id2label", "{\"0\": \"nsfw\"}", "id2label has 1 labels"},
        {"config.json", "id2label", "{\"0\": \"a\", \"2\": \"b\"}", "no label \"1\""},
        {"config.json", "id2label", "{\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}",
         "classifier.weight"},
        {"config.json", "id2label", NULL, "id2label"},
        {"preprocessor_config.json", "image_processor_type", "\"CLIPImageProcessor\"",
         "image_processor_type \"CLIPImageProcessor\""},
        {"preprocessor_config.json", "do_center_crop", "true", "do_center_crop"},
        {"preprocessor_config.json", "do_resize", "false", "do_resize"},
        {"preprocessor_config.json", "resample", "1", "resample 1"},
        {"preprocessor_config.json", "size", "{\"shortest_edge\": 32}", "size has no height"},
        {"preprocessor_config.json", "size", "224", "size is 224x224"},
        {"preprocessor_config.json", "image_std", "[0.5, 0, 0.5]", "image_std"},
        {"preprocessor_config.json", "image_mean", "[0.5]", "image_mean"},
        {"preprocessor_config.json", "rescale_factor", "0", "rescale_factor"},
    };
    mkdir("copy", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[96];
        copy_checkpoint();
        snprintf(path, sizeof path, "copy/%s", cases[i].file);
        json_t *root = json_load_file(path, 0, NULL);
        assert_non_null(root);
        if (cases[i].value)
            json_object_set_new(root, cases[i].key,
                                json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(root, cases[i].key);
        assert_int_equal(json_dump_file(root, path, 0), 0);
        json_decref(root);
        assert_refused(cases[i].word);
    }
    copy_checkpoint();
    unlink("copy/preprocessor_config.json");
    assert_refused("copy/preprocessor_config.json");
    copy_checkpoint();
    kiln_test_write("copy/config.json", "{");
    assert_refused("copy/config.json");
    copy_checkpoint();
    assert_int_equal(truncate("copy/model.safetensors", 3000), 0);
    assert_refused("model.safetensors");
    copy_checkpoint();
    unlink("copy/model.safetensors");
    assert_refused("copy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_are_those_of_transformers),
        cmocka_unit_test(test_pictures_are_resized_as_by_pillow),
        cmocka_unit_test(test_shares_of_labels_out_of_the_library),
        cmocka_unit_test(test_checkpoints_that_are_wrong_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

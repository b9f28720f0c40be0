/* test_fp8_cache.c - the file of 8-bit rows beside a model, on the CPU: written once, read with the
 * same bits, not believed when it is old or damaged, done without where it cannot be written.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/model/transformer_parts.h"
#include "pipeline/text/encoder_parts.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/fp8_cache.h"

static char model[600];
static struct kiln_model_config config;

/* What a load came to: the sums of every quantised matrix, and what was said. */
struct loaded {
    uint64_t sums[64][2];
    size_t count;
    char note[KILN_ERROR_TEXT_MAX];
};

static const char *in_model(const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/%s", model, name);
    return path;
}

static void add_sums(struct loaded *l, struct kt_scope *s, kt matrix)
{
    assert_int_equal(kt_dtype_of(matrix), KT_E4M3);
    assert_true(l->count < 64 && kt_rows_sums(s, matrix, l->sums[l->count]));
    l->count++;
}

static const char *const folders[] = {"transformer", "text_encoder"};

static struct loaded load(void)
{
    struct loaded l = {.count = 0};
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_param_table params = {0};
    struct kiln_text_encoder *te = NULL;
    struct kiln_transformer *t = NULL;
    struct kiln_error err;
    struct kiln_fp8_cache *c = kiln_fp8_cache_open(model, folders, 2, KT_CPU, 0);
    assert_non_null(c);
    char folder[800];
    snprintf(folder, sizeof folder, "%s/text_encoder", model);
    if (kiln_text_encoder_load(folder, &config.text, s, KT_E4M3, c, &te, &err))
        fail_msg("%s", err.text);
    snprintf(folder, sizeof folder, "%s/transformer", model);
    if (kiln_transformer_load(folder, &config.transformer, s, KT_E4M3, c, "transformer", &params,
                              &t, &err))
        fail_msg("%s", err.text);
    kiln_fp8_cache_close(c, true, l.note, sizeof l.note);
    for (int i = 0; i < te->count; i++) {
        add_sums(&l, s, te->layers[i].qkv);
        add_sums(&l, s, te->layers[i].down);
    }
    for (int i = 0; i < config.transformer.layers; i++) {
        add_sums(&l, s, kiln_joint_block(t, i)->qkv.weight);
        add_sums(&l, s, kiln_joint_block(t, i)->gate_up.weight);
        add_sums(&l, s, kiln_joint_block(t, i)->down.weight);
    }
    kiln_text_encoder_free(te);
    kiln_transformer_free(t);
    kiln_param_table_release(&params);
    kt_scope_free(s);
    return l;
}

/* The same bits, and a note with this word, or none. */
static void expect(const struct loaded *l, const struct loaded *want, const char *word)
{
    assert_int_equal(l->count, want->count);
    assert_memory_equal(l->sums, want->sums, sizeof l->sums);
    if (word ? !strstr(l->note, word) : l->note[0] != '\0')
        fail_msg("the note is \"%s\", not \"%s\"", l->note, word ? word : "");
    if (word)
        assert_non_null(strstr(l->note, KILN_FP8_CACHE_NAME));
}

static struct stat look(void)
{
    struct stat st = {0};
    assert_int_equal(stat(in_model(KILN_FP8_CACHE_NAME), &st), 0);
    return st;
}

static void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void copy_model(void)
{
    const char *root = getenv("KILN_SOURCE");
    char command[8192];
    snprintf(command, sizeof command,
             "rm -rf '%s' && cp -r '%s/pipeline/models/sketch' '%s' && chmod -R u+w '%s'", model,
             root ? root : ".", model, model);
    shell(command);
}

/* Changes a byte; at < 0: from the end. */
static void damage(const char *path, off_t at)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    const off_t where = at < 0 ? lseek(fd, 0, SEEK_END) + at : at;
    assert_int_equal(pread(fd, &byte, 1, where), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, where), 1);
    close(fd);
}

static void rows_come_back_as_they_were(void **state)
{
    (void)state;
    copy_model();
    const struct loaded first = load();
    expect(&first, &first, NULL);
    const struct stat written = look();
    const struct loaded second = load();
    expect(&second, &first, NULL);
    const struct stat again = look();
    assert_true(written.st_ino == again.st_ino && written.st_size == again.st_size);
    assert_int_not_equal(access(in_model(KILN_FP8_CACHE_NAME ".part"), F_OK), 0);
}

static void what_is_old_or_damaged_is_made_anew(void **state)
{
    (void)state;
    copy_model();
    const struct loaded first = load();
    const struct stat written = look();
    /* A byte of the last matrix; the file is replaced, and good from then on. */
    damage(in_model(KILN_FP8_CACHE_NAME), -5);
    const struct loaded healed = load(), after = load();
    expect(&healed, &first, "is damaged");
    expect(&after, &first, NULL);
    assert_true(look().st_ino != written.st_ino);
    /* Cut short, as a full disk leaves it. */
    assert_int_equal(truncate(in_model(KILN_FP8_CACHE_NAME), look().st_size / 2), 0);
    const struct loaded cut = load(), whole = load();
    expect(&cut, &first, "is made anew");
    expect(&whole, &first, NULL);
    /* Weights of another time. */
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, in_model("text_encoder/model.safetensors"), times, 0), 0);
    const struct loaded old = load(), fresh = load();
    expect(&old, &first, "other weights");
    expect(&fresh, &first, NULL);
    /* Other bytes of the same length, whose time tells. */
    damage(in_model("transformer/diffusion_pytorch_model.safetensors"), -2);
    const struct loaded changed = load();
    assert_non_null(strstr(changed.note, "other weights"));
    /* No file at all in its place. */
    assert_int_equal(unlink(in_model(KILN_FP8_CACHE_NAME)), 0);
    assert_int_equal(mkdir(in_model(KILN_FP8_CACHE_NAME), 0755), 0);
    const struct loaded folder = load();
    expect(&folder, &changed, "made anew");
}

static void another_one_writes(void **state)
{
    (void)state;
    copy_model();
    const int fd = open(in_model(KILN_FP8_CACHE_NAME ".part"), O_RDWR | O_CREAT, 0644);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    const struct loaded first = load(); /* theirs will do */
    expect(&first, &first, NULL);
    assert_int_not_equal(access(in_model(KILN_FP8_CACHE_NAME), F_OK), 0);
    close(fd); /* it crashed: what it left is written over */
    const struct loaded second = load();
    expect(&second, &first, NULL);
    (void)look();
}

/* As a user who may only read, and where the model is not worth a file. */
static void done_without(void **state)
{
    (void)state;
    copy_model();
    assert_null(kiln_fp8_cache_open(model, folders, 2, KT_CPU, KILN_FP8_CACHE_WORTH));
    assert_null(kiln_fp8_cache_open("nowhere", folders, 2, KT_CPU, 0));
    assert_null(kiln_fp8_cache_take(NULL, NULL, "x", 1, 1));
    kiln_fp8_cache_close(NULL, true, NULL, 0);
    assert_int_equal(mkdir(in_model(KILN_FP8_CACHE_NAME ".part"), 0755), 0);
    const struct loaded first = load();
    expect(&first, &first, "every start quantises");
    assert_int_not_equal(access(in_model(KILN_FP8_CACHE_NAME), F_OK), 0);
}

static int prepare(void **state)
{
    struct kiln_error err;
    char here[500];
    (void)state;
    if (!getcwd(here, sizeof here))
        return -1;
    snprintf(model, sizeof model, "%s/fp8-model", here);
    copy_model();
    return kiln_model_config_read(model, &config, &err);
}

static int clean(void **state)
{
    char command[700];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", model);
    return system(command) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_as_they_were),
        cmocka_unit_test(what_is_old_or_damaged_is_made_anew),
        cmocka_unit_test(another_one_writes),
        cmocka_unit_test(done_without),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}

/* model_words.c - see model_words.h. */
#include "storage/formats/card/model_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "storage/formats/regular.h"

#define BYTES_MAX (1 << 20)
#define PATH_BYTES_MAX 4608

struct kiln_words_version kiln_model_words_version(const char *dir)
{
    char path[PATH_BYTES_MAX];
    struct stat stat_of;
    if ((size_t)snprintf(path, sizeof path, "%s/" KILN_MODEL_WORDS, dir) >= sizeof path ||
        stat(path, &stat_of) != 0)
        return (struct kiln_words_version){0};
    return (struct kiln_words_version){.size = stat_of.st_size,
                                       .changed_ns = (int64_t)stat_of.st_mtim.tv_sec * 1000000000 +
                                                     stat_of.st_mtim.tv_nsec,
                                       .file = stat_of.st_ino};
}

static int add_own(const char *path, struct kiln_reuse_words *words, bool *ret_own,
                   struct kiln_error *err)
{
    struct kiln_error why;
    char *text = NULL;
    size_t len;
    int code = kiln_regular_read(path, BYTES_MAX, &text, &len, &why);
    if (code == KILN_NOT_FOUND)
        return 0;
    if (code)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG, "%s", why.text);
    if (strlen(text) != len)
        code = kiln_fail(&why, KILN_BAD_INPUT, "a zero byte at offset %zu", strlen(text));
    code = code ? code : kiln_reuse_words_add(words, text, &why);
    free(text);
    if (code)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG, "%s: %s", path,
                         why.text);
    *ret_own = true;
    return 0;
}

int kiln_model_words_read(const char *dir, struct kiln_reuse_words **ret, bool *ret_own,
                          struct kiln_error *err)
{
    char path[PATH_BYTES_MAX];
    struct kiln_reuse_words *words;
    bool own = false;
    if ((size_t)snprintf(path, sizeof path, "%s/" KILN_MODEL_WORDS, dir) >= sizeof path)
        return kiln_fail(err, KILN_CONFIG, "model: the path %.80s... is too long", dir);
    int code = kiln_reuse_words_new(NULL, 0, &words, err);
    if (code)
        return code;
    code = add_own(path, words, &own, err);
    if (code) {
        kiln_reuse_words_free(words);
        return code;
    }
    *ret = words;
    *ret_own = own;
    return 0;
}

struct kiln_reuse_words *kiln_model_words_own(const char *dir)
{
    struct kiln_reuse_words *words = NULL;
    struct kiln_error unread;
    bool own = false;
    if (kiln_model_words_version(dir).file == 0 ||
        kiln_model_words_read(dir, &words, &own, &unread) != 0)
        return NULL;
    if (own)
        return words;
    kiln_reuse_words_free(words);
    return NULL;
}

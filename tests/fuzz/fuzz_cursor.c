/* fuzz_cursor.c - any bytes as a cursor of a list, and as the moment since which pictures are new:
 * only what the gallery wrote for this very query is taken, and it means what it meant then. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/gallery/meaning/mixed.h"
#include "storage/ledger/gallery/question.h"
#include "tests/fuzz/fuzz.h"

static const struct kiln_gallery_query query = {.rows_max = 48};

static int read_place(uint64_t hash, const char *cursor, struct kiln_gallery_place *ret)
{
    struct kiln_gallery_query asked = query;
    struct kiln_error err = {0};
    asked.cursor = cursor;
    const struct kiln_gallery_question question = {
        .query = &asked, .highest = INT64_MAX, .hash = hash};
    int rc = kiln_gallery_place_read(&question, ret, &err);
    fuzz_require(rc == 0 || (rc == KILN_BAD_INPUT && err.text[0]));
    return rc;
}

static void write_place(uint64_t hash, const struct kiln_gallery_place *place,
                        char out[KILN_GALLERY_CURSOR_MAX])
{
    const struct kiln_gallery_question question = {
        .query = &query, .highest = INT64_MAX, .hash = hash};
    kiln_gallery_place_text(&question, place, out);
}

/* A cursor of ours is read back; of another query, or with a byte changed, it is refused. */
static void check_ours(const uint8_t *data, size_t size)
{
    uint64_t numbers[5] = {0};
    char cursor[KILN_GALLERY_CURSOR_MAX];
    struct kiln_gallery_place back;
    memcpy(numbers, data, size < sizeof numbers ? size : sizeof numbers);
    const struct kiln_gallery_place place = {.newer = numbers[0] & 1,
                                             .job = numbers[0] >> 1,
                                             .top = numbers[1] >> 1,
                                             .end = numbers[2] >> 1,
                                             .score = (int64_t)(numbers[3] >> 1)};
    write_place(numbers[4], &place, cursor);
    fuzz_require(read_place(numbers[4], cursor, &back) == 0);
    fuzz_require(back.newer == place.newer && back.job == place.job && back.top == place.top &&
                 back.end == place.end && back.score == place.score);
    fuzz_require(read_place(numbers[4] + 1, cursor, &back) != 0);
    const size_t at = size > 40 ? data[40] % strlen(cursor) : 0;
    cursor[at] = cursor[at] == '0' ? '1' : '0';
    fuzz_require(read_place(numbers[4], cursor, &back) != 0);
}

/* Likewise of a list by words and meaning. */
static void check_mixed(const char *text)
{
    static const char id[] = "0123456789abcdef";
    char again[KILN_GALLERY_CURSOR_MAX];
    uint32_t offset;
    if (kiln_mixed_cursor_read(text, id, &offset)) {
        kiln_mixed_cursor_write(again, id, offset);
        fuzz_require(strcmp(again, text) == 0);
        fuzz_require(!kiln_mixed_cursor_read(text, "0123456789abcdee", &offset));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_gallery_place place;
    char again[KILN_GALLERY_CURSOR_MAX], *text = strndup((const char *)data, size);
    if (!text)
        return 0;
    if (read_place(7, text, &place) == 0 && text[0]) {
        write_place(7, &place, again);
        fuzz_require(strcmp(again, text) == 0);
    }
    check_mixed(text);
    if (kiln_gallery_moment_valid(text))
        fuzz_require(strspn(text, "0123456789/:,") == strlen(text));
    free(text);
    check_ours(data, size);
    return 0;
}

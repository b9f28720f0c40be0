/* test_kept.c - a piece of a page that one request makes for many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "scheduler/gallery/parts/kept.h"

static struct kiln_gallery_kept kept = KILN_GALLERY_KEPT;

/* Asks for the piece; true: it is to be made.  *out becomes what was appended. */
static bool makes(struct kiln_text *out)
{
    kiln_text_release(out);
    return !kiln_gallery_kept_add(&kept, out);
}

static void keep(const char *words, int64_t keep_ms)
{
    struct kiln_text text = {0}, out = {0};
    kiln_text_puts(&text, words);
    kiln_gallery_keep(&kept, &text, keep_ms, &out);
    assert_string_equal(out.at, words);
    kiln_text_release(&out);
}

static void one_request_at_a_time_makes_it(void **state)
{
    struct kiln_text out = {0}, failed = {0};
    (void)state;
    assert_true(makes(&out));
    assert_false(makes(&out)); /* while it is made for the first time, there is nothing */
    assert_int_equal(out.len, 0);
    kiln_gallery_keep(&kept, &failed, 60000, &out);
    assert_true(makes(&out)); /* after a failure the next one */
    assert_false(makes(&out));
    assert_int_equal(out.len, 0);
    keep("first", 0);
    assert_true(makes(&out)); /* it is old already */
    assert_false(makes(&out));
    assert_string_equal(out.at, "first"); /* until the next one is there */
    keep("second", 60000);
    for (int i = 0; i < 2; i++) {
        assert_false(makes(&out));
        assert_string_equal(out.at, "second");
    }
    keep("third", 0);
    assert_true(makes(&out));
    kiln_gallery_keep(&kept, &failed, 60000, &out);
    assert_true(makes(&out));
    assert_false(makes(&out));
    assert_string_equal(out.at, "third"); /* a failure does not take it away */
    kiln_text_release(&out);
    kiln_text_release(&kept.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_request_at_a_time_makes_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

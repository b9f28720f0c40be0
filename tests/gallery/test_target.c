/* test_target.c - request lines and forms: what is read, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/web/target.h"

static int parse(const char *text, struct kiln_web_target *target)
{
    struct kiln_error err;
    return kiln_web_target_parse(text, strlen(text), target, &err);
}

static void test_plain(void **state)
{
    (void)state;
    struct kiln_web_target target;
    assert_int_equal(parse("/p/12?q=red+star&lora=neon%2Bink&starred&q=second", &target), 0);
    assert_string_equal(target.path, "/p/12");
    assert_int_equal(target.args.count, 4);
    assert_string_equal(kiln_web_arg(&target.args, "q"), "red star"); /* the first counts */
    assert_string_equal(kiln_web_arg(&target.args, "lora"), "neon+ink");
    assert_null(kiln_web_arg(&target.args, "starred")); /* no value */
    assert_null(kiln_web_arg(&target.args, "size"));
    kiln_web_target_release(&target);
    assert_int_equal(parse("/a+b", &target), 0); /* a plus is a space in a query only */
    assert_string_equal(target.path, "/a+b");
    kiln_web_target_release(&target);
}

static void test_encoded(void **state)
{
    (void)state;
    struct kiln_web_target target;
    assert_int_equal(parse("/?q=%E7%BA%A2%E6%98%9F&x=%26%3D%25&&a=b=c", &target), 0);
    assert_string_equal(kiln_web_arg(&target.args, "q"), "\xe7\xba\xa2\xe6\x98\x9f");
    assert_string_equal(kiln_web_arg(&target.args, "x"), "&=%");
    assert_string_equal(kiln_web_arg(&target.args, "a"), "b=c");
    assert_int_equal(target.args.count, 3);
    kiln_web_target_release(&target);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "p/1",
        "*",
        "http://other/",
        "/a/../b",
        "/..",
        "/a/%2e%2e",
        "/a/..%2fb",
        "/a//b",
        "/./a",
        "/a%00b",
        "/?q=a%00b",
        "/%",
        "/%2",
        "/?q=%zz",
        "/?q=%e7%ba",
        "/%ff",
        "/a%0db",
        "/a%5cb",
        "/?%ff=1",
        "/%C0%AE%C0%AE/etc",
        "//host/x",
        "/a\tb",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kiln_web_target target;
        if (parse(bad[i], &target) != KILN_BAD_INPUT)
            fail_msg("\"%s\" is accepted", bad[i]);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    struct kiln_web_target target;
    struct kiln_error err;
    char *text = malloc(1 << 20);
    memset(text, 'a', 1 << 20);
    memcpy(text, "/?q=", 4);
    assert_int_equal(kiln_web_target_parse(text, 1 << 20, &target, &err), KILN_FULL);
    assert_int_equal(kiln_web_target_parse(text, KILN_WEB_TARGET_MAX, &target, &err), 0);
    kiln_web_target_release(&target);
    assert_int_equal(kiln_web_target_parse(text, KILN_WEB_TARGET_MAX + 1, &target, &err),
                     KILN_FULL);
    text[0] = '/', text[1] = '?';
    for (int i = 0; i <= KILN_WEB_ARGS_MAX; i++)
        memcpy(text + 2 + 2 * i, "a&", 2);
    assert_int_equal(kiln_web_target_parse(text, 2 + 2 * KILN_WEB_ARGS_MAX, &target, &err), 0);
    kiln_web_target_release(&target);
    assert_int_equal(kiln_web_target_parse(text, 2 + 2 * (KILN_WEB_ARGS_MAX + 1), &target, &err),
                     KILN_FULL);
    free(text);
}

static void test_form(void **state)
{
    (void)state;
    struct kiln_web_target form;
    struct kiln_error err;
    assert_int_equal(kiln_web_form_parse("job=17&on=1&note=a+b%21", 23, &form, &err), 0);
    assert_string_equal(kiln_web_arg(&form.args, "job"), "17");
    assert_string_equal(kiln_web_arg(&form.args, "note"), "a b!");
    kiln_web_target_release(&form);
    assert_int_equal(kiln_web_form_parse("a=b%0D%0Ac%0Dd%0A%0A", 20, &form, &err), 0);
    assert_string_equal(kiln_web_arg(&form.args, "a"), "b\nc\rd\n\n"); /* as browsers end lines */
    kiln_web_target_release(&form);
    assert_int_equal(kiln_web_form_parse("job=\0", 5, &form, &err), KILN_BAD_INPUT);
    assert_int_equal(kiln_web_form_parse("", 0, &form, &err), 0);
    kiln_web_target_release(&form);
    kiln_web_target_release(&form); /* twice does no harm */
}

static void test_ids(void **state)
{
    (void)state;
    uint64_t id = 0;
    assert_true(kiln_web_id("17", 2, &id) && id == 17);
    assert_true(kiln_web_id("9223372036854775807", 19, &id) && id == INT64_MAX);
    assert_true(kiln_web_id("12/x", 2, &id) && id == 12);
    static const char *const bad[] = {"",
                                      "0",
                                      "01",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1e3",
                                      "0x10",
                                      "१",
                                      "9223372036854775808",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_web_id(bad[i], strlen(bad[i]), &id))
            fail_msg("\"%s\" is an id", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_encoded),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_form),    cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_s3_xml.c - the three XML answers that are read, whole, cut, and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/objects/s3/xml.h"
#include "tests/support/random.h"

static const char page[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
    "<Name>b</Name><Prefix/><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>"
    "<IsTruncated>true</IsTruncated><NextContinuationToken>1ueG&amp;+/=</NextContinuationToken>\n"
    "<Contents><Key>a/&lt;b&gt;&#x41;&#66;.webp</Key><LastModified>2009-10-12T17:50:30.000Z"
    "</LastModified><ETag>&quot;fba9&quot;</ETag><Size>434234</Size>"
    "<Owner a='>'><ID>x</ID><DisplayName>Key</DisplayName></Owner></Contents>"
    "<Contents><Size>18446744073709551615</Size><LastModified>2026-11-21T00:00:00Z</LastModified>"
    "<Key>z</Key></Contents>"
    "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>";

static int note(void *arg, const struct kiln_s3_entry *entry)
{
    char *text = arg;
    size_t len = strlen(text);
    snprintf(text + len, 512 - len, "%s=%llu@%lld ", entry->key, (unsigned long long)entry->size,
             (long long)entry->modified_s);
    return 0;
}

static int count(void *arg, const struct kiln_s3_entry *entry)
{
    assert_true(entry->key[0] != '\0');
    ++*(int *)arg;
    return 0;
}

static int parse(const char *xml, size_t len, int *entries, struct kiln_s3_page *ret)
{
    char *copy = malloc(len ? len : 1); /* exact size: overreads are seen */
    assert_non_null(copy);
    memcpy(copy, xml, len);
    struct kiln_error err = {0};
    int code = kiln_s3_parse_list(copy, len, count, entries, ret, &err);
    free(copy);
    assert_true(code == 0 || err.text[0] != '\0');
    return code;
}

static void a_page_is_read(void **state)
{
    (void)state;
    char text[512] = "";
    struct kiln_s3_page got;
    struct kiln_error err = {0};
    if (kiln_s3_parse_list(page, sizeof page - 1, note, text, &got, &err))
        fail_msg("%s", err.text);
    assert_string_equal(text, "a/<b>AB.webp=434234@1255369830 "
                              "z=18446744073709551615@1795219200 ");
    assert_true(got.truncated);
    assert_string_equal(got.token, "1ueG&+/=");
}

static void a_page_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    struct kiln_s3_page got;
    for (size_t cut = 0; cut < sizeof page - 1; cut++) {
        int entries = 0;
        assert_int_equal(parse(page, cut, &entries, &got), KILN_PROTOCOL);
        assert_true(entries <= 2);
    }
}

static void hostile_pages_are_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "no xml",
        "<Error><Code>NoSuchBucket</Code></Error>",
        "<ListBucketResult></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult><more/>",
        "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>text",
        "<ListBucketResult><IsTruncated>false</Truncated></ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult/>",
        "<ListBucketResult><![CDATA[x]]></ListBucketResult>",
        "<ListBucketResult><IsTruncated>&false;</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key></Contents><IsTruncated>false</IsTruncated>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size><LastModified>"
        "2009-10-12T17:50:30.000Z</LastModified></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a&#0;</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a&#xD800;</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a&#99999999;</Key></Contents></ListBucketResult>",
        "<a><b><c><d><e><f><g><h><i></i></h></g></f></e></d></c></b></a>",
        "<ListBucketResult attr=\"unclosed><IsTruncated>false</IsTruncated></ListBucketResult>",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int entries = 0;
        struct kiln_s3_page got;
        if (parse(bad[i], strlen(bad[i]), &entries, &got) != KILN_PROTOCOL)
            fail_msg("taken: %s", bad[i]);
    }
}

static void long_texts_do_not_overflow(void **state)
{
    (void)state;
    char *xml = malloc(20000);
    assert_non_null(xml);
    for (size_t n = 3000; n < 3200; n++) {
        int len = snprintf(xml, 20000,
                           "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Size>1"
                           "</Size><LastModified>2009-10-12T17:50:30Z</LastModified><Key>%0*d</Key>"
                           "</Contents></ListBucketResult>",
                           (int)n, 7);
        int entries = 0;
        struct kiln_s3_page got;
        assert_int_equal(parse(xml, (size_t)len, &entries, &got), n <= 3072 ? 0 : KILN_PROTOCOL);
    }
    free(xml);
}

static void mutations_never_break_the_reader(void **state)
{
    (void)state;
    struct test_random random = {99};
    static const char letters[] = "<>/&;'\"?! aKx\0\xff";
    for (int i = 0; i < 20000; i++) {
        char copy[sizeof page];
        memcpy(copy, page, sizeof page);
        for (int k = 0; k < 1 + i % 4; k++)
            copy[test_random_below(&random, sizeof page - 1)] =
                letters[test_random_below(&random, sizeof letters)];
        int entries = 0;
        struct kiln_s3_page got;
        struct kiln_s3_error error;
        (void)!parse(copy, sizeof page - 1, &entries, &got);
        assert_true(entries <= 2);
        kiln_s3_parse_error(copy, sizeof page - 1, &error);
        assert_true(strlen(error.code) < sizeof error.code);
    }
}

static void errors_are_read_from_any_body(void **state)
{
    (void)state;
    static const struct {
        const char *body, *code, *message;
    } rows[] = {
        {"<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>SignatureDoesNotMatch</Code>"
         "<Message>The &quot;key&quot;.</Message><RequestId>tx</RequestId></Error>",
         "SignatureDoesNotMatch", "The \"key\"."},
        {"\xEF\xBB\xBF<Error><Code>SlowDown</Code></Error>", "SlowDown", ""},
        {"<Error><Code>SlowDown</Code><Message>cut", "SlowDown", ""},
        {"<html><body>Code</body></html>", "", ""},
        {"<Other><Code>X</Code></Other>", "", ""},
        {"{\"error\":1}", "", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kiln_s3_error got;
        kiln_s3_parse_error(rows[i].body, strlen(rows[i].body), &got);
        assert_string_equal(got.code, rows[i].code);
        assert_string_equal(got.message, rows[i].message);
    }
    char body[2000];
    int len = snprintf(body, sizeof body, "<Error><Message>%01000d</Message></Error>", 1);
    struct kiln_s3_error got;
    kiln_s3_parse_error(body, (size_t)len, &got);
    assert_int_equal(strlen(got.message), sizeof got.message - 1); /* cut, not dropped */
}

static int note_refusal(void *arg, const struct kiln_s3_refusal *refusal)
{
    char *text = arg;
    size_t len = strlen(text);
    snprintf(text + len, 512 - len, "%s=%s ", refusal->key, refusal->code);
    return 0;
}

static int parse_deleted(const char *xml, size_t len, char text[512])
{
    char *copy = malloc(len ? len : 1); /* exact size: overreads are seen */
    assert_non_null(copy);
    memcpy(copy, xml, len);
    struct kiln_error err = {0};
    text[0] = '\0';
    int code = kiln_s3_parse_deleted(copy, len, note_refusal, text, &err);
    free(copy);
    assert_true(code == 0 || err.text[0] != '\0');
    return code;
}

static void what_was_not_deleted_is_read(void **state)
{
    (void)state;
    static const char answer[] =
        "<?xml version='1.0'?><DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        "<Deleted><Key>a</Key></Deleted><Error><Key>b&amp;c</Key><Code>AccessDenied</Code>"
        "<Message>no</Message></Error><Error><Code>InternalError</Code><Key>d</Key></Error>"
        "</DeleteResult>";
    char text[512];
    assert_int_equal(parse_deleted(answer, sizeof answer - 1, text), 0);
    assert_string_equal(text, "b&c=AccessDenied d=InternalError ");
    assert_int_equal(parse_deleted("<DeleteResult/>", 15, text), 0);
    for (size_t len = 0; len < sizeof answer - 1; len++)
        assert_int_equal(parse_deleted(answer, len, text), KILN_PROTOCOL);
    static const char *const bad[] = {"<Error><Code>X</Code></Error>", "<html/>", "{}",
                                      "<DeleteResult><Error><Key>a</Key></Error></DeleteResult>",
                                      "<DeleteResult><Error><Code>a</Code></Error></DeleteResult>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse_deleted(bad[i], strlen(bad[i]), text), KILN_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_read),
        cmocka_unit_test(a_page_cut_anywhere_is_an_error),
        cmocka_unit_test(hostile_pages_are_errors),
        cmocka_unit_test(long_texts_do_not_overflow),
        cmocka_unit_test(mutations_never_break_the_reader),
        cmocka_unit_test(errors_are_read_from_any_body),
        cmocka_unit_test(what_was_not_deleted_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
